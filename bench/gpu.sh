#!/usr/bin/env bash
# Builds the CUDA back end for this machine's GPU, checks its kernels and whole training steps against the CPU's in
# double precision, looks for bad memory accesses and races where compute-sanitizer is there, and times the kernels
# and a stage of llama-13b, whose task times it compares with those that a profile of this GPU predicts, and whose
# steps it times with and without CUDA graphs: the profile is left as BUILD_DIRECTORY/profile.json where nlohmann_json is
# found. Everything in one call, for a machine that is lent for minutes. SLIMPACK_LENGTHS names the file of lengths;
# default: examples/data. Exit codes: 0, 1 if something is wrong, 2 without a GPU.
# Usage: gpu.sh [BUILD_DIRECTORY [ARCHITECTURE]]   defaults: build/gpu, 90a-real
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/gpu} architecture=${2:-90a-real}

cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DSLIMPACK_WITH_CUDA=ON \
  -DSLIMPACK_CUDA_ARCHITECTURES="$architecture" -DSLIMPACK_BUILD_EXAMPLES=OFF -DSLIMPACK_INSTALL=OFF
cmake --build "$build" --target bench_gpu test_kernels_cuda -j "$(nproc)"
"$build/tests/test_kernels_cuda"

status=0
"$build/bench/bench_gpu" --check || status=$?
if ((status != 0)); then
  exit "$status"
fi
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    echo "compute-sanitizer: $tool"
    timeout 120 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/bench/bench_gpu" --check-kernels 1 || exit 1
  done
else
  echo "compute-sanitizer is not there: not run"
fi
keep=()
if grep -q '^nlohmann_json_DIR:PATH=/' "$build/CMakeCache.txt"; then
  keep=(--profile "$build/profile.json")
fi
exec "$build/bench/bench_gpu" --time "${keep[@]}"
