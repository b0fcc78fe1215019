#!/usr/bin/env bash
# Installs what is missing on Debian 12, builds everything but benchmarks and random campaigns, and runs all tests but these, slow ones
# (a dozen) and those that only build: every header by itself, other projects that use slimpack, kernels for all GPUs. Tests with many
# random cases run few of them. With CI=true, it runs all of these as well; before that, the format, the linter, and tests under the
# sanitizers.
# Usage: run.sh [CTEST_ARGUMENT...]   for example: run.sh -L dag
set -euo pipefail
cd "$(dirname "$0")/.."
tests=$(($(nproc) + 1))  # at a time: some of them wait more than they work

.ci/install.sh g++ cmake ninja-build 'ccache?' catch2 coinor-libcbc-dev libbenchmark-dev libeigen3-dev libboost-dev \
  libboost-graph-dev libboost-program-options-dev libglpk-dev libopenmpi-dev nlohmann-json3-dev openmpi-bin \
  python3-jsonschema

if [[ ${CI-} != true ]]; then
  cmake --preset tests
  cmake --build --preset tests
  exec ctest --preset tests --parallel $tests --label-exclude '^(build|slow)$' "$@"
fi

.ci/install.sh clang-format clang-tidy
.ci/format.sh

# Clang warns of what GCC does not see, knows more of undefined behaviour, and builds this in two thirds of the time. Headers
# are compiled again for each file that uses them: in a build that is made once, a folder's files go together. So that each
# header compiles by itself, each is compiled once here. Without line numbers, which traces of functions do without, a build
# takes a tenth less.
(
  if command -v clang++ >/dev/null; then export CXX=clang++; fi
  cmake --preset asan -B build/tidy -D CMAKE_DISABLE_FIND_PACKAGE_MPI=OFF
  .ci/tidy.sh build/tidy
  cmake --build build/tidy --target compile_headers -- -k 0
  for preset in asan tsan; do
    cmake --preset $preset -D CMAKE_UNITY_BUILD=ON -D CMAKE_CXX_FLAGS=
  done
  # What handles bare memory and files; and planners, by random settings. The preset alone has all tests; the build below checks
  # arithmetic and indices in the others.
  cmake --build --preset asan --target campaign mutations test_kernels test_kernels_cuda_device
  ctest --preset asan --parallel $tests --tests-regex '^(campaign(: idle pipelines)?|mutations|kernels(_cuda_device)?: .*)$'
  cmake --build --preset tsan
  ctest --preset tsan --parallel $tests
)

# The README's other promise, in the most optimised build.
examples/run.sh --quiet

# cuDNN's front end is headers of a Python package. Nothing but cuDNN's attention waits for it.
if command -v nvcc /usr/local/cuda/bin/nvcc >/dev/null; then
  .ci/python_packages.sh build/python nvidia-cudnn-frontend==1.32.0 ||
    echo "WARNING: nvidia-cudnn-frontend can't be had: cuDNN's attention is neither compiled nor tested" >&2
  export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
fi

cmake --preset tests -D SLIMPACK_BUILD_BENCH=ON -D SLIMPACK_TEST_FEW=OFF
cmake --build --preset tests
ctest --preset tests --parallel $tests --exclude-regex '^compile$' "$@"
