#!/usr/bin/env bash
# Installs what is missing on Debian 12, builds everything and runs all tests.
# With CI=true also the format, the linter, and the tests under the sanitizers, first.
# Usage: run.sh [CTEST_ARGUMENT...]   for example: run.sh -L dag
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/install.sh g++ cmake ninja-build catch2 coinor-libcbc-dev libbenchmark-dev libeigen3-dev libboost-dev \
  libboost-graph-dev libboost-program-options-dev libglpk-dev libopenmpi-dev nlohmann-json3-dev openmpi-bin \
  python3-jsonschema

# Headers are compiled again for each file that uses them: in a build that is made once, a folder's files go together.
build() {  # preset [option of cmake]...
  cmake --preset "$@" ${CI:+-D CMAKE_UNITY_BUILD=ON}
  cmake --build --preset "$1"
}

if [[ ${CI-} == true ]]; then
  .ci/install.sh clang-format clang-tidy
  .ci/format.sh

  # Clang warns of what GCC does not see, knows more of undefined behaviour, and builds this in two thirds of the time.
  (
    if command -v clang++ >/dev/null; then export CXX=clang++; fi
    cmake --preset asan -B build/tidy -D CMAKE_DISABLE_FIND_PACKAGE_MPI=OFF
    .ci/tidy.sh build/tidy  # file by file
    build asan
    ctest --preset asan --parallel "$(nproc)"
    build tsan
    ctest --preset tsan --parallel "$(nproc)"
  )

  # The README's other promise, in the most optimised build. The default build has the CUDA kernels, too: they are not
  # compiled twice.
  cmake --preset command -D SLIMPACK_WITH_CUDA=OFF
  examples/run.sh --quiet
  cmake --preset command -U SLIMPACK_WITH_CUDA
fi

# cuDNN's front end is headers of a Python package. Nothing but cuDNN's attention waits for it.
if [[ ${CI-} == true ]] && command -v nvcc /usr/local/cuda/bin/nvcc >/dev/null; then
  .ci/python_packages.sh build/python nvidia-cudnn-frontend==1.32.0 ||
    echo "WARNING: nvidia-cudnn-frontend can't be had: cuDNN's attention is neither compiled nor tested" >&2
  export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
fi

# Nobody debugs CI's tests: without lines in their symbols, they are compiled in a tenth less.
build default ${CI:+-D "CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -D_GLIBCXX_ASSERTIONS"}
ctest --preset default --parallel "$(nproc)" "$@"
