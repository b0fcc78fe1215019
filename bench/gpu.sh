#!/usr/bin/env bash
# Measures on this machine's GPU, in one call of under 8 minutes, all that docs/gpu-results.md has a row for: builds
# bench_gpu, checks kernels and whole steps against the CPU's in double, times attention beside libraries' and a stage
# of llama-13b beside what its profile predicts, and looks for bad accesses and races. Each part runs by itself within
# its own time, and what it has found so far stays if it fails or is stopped. The last table has every figure, its bar,
# and whether it was met, missed or not measured.
#
# Needs: CUDA's toolkit of at least 12.8 (nvcc, cuBLASLt; the compute-sanitizer for its part), CMake 3.25, a C++20
# compiler, make or ninja, and Eigen 3.4 with its CMake files. Nothing is downloaded. Where Eigen is not installed, carry
# it: dpkg -x libeigen3-dev_*.deb FOLDER, and CMAKE_PREFIX_PATH=FOLDER/usr. The same goes for nlohmann_json
# (nlohmann-json3-dev), without which the profile is not kept.
# The library to compare with: cuDNN 9.6 and its front end's headers. CMake looks for them as in every build, beside CUDA's
# toolkit and among the packages of SLIMPACK_PYTHON (default: python3), where nvidia-cudnn-cu13 and nvidia-cudnn-frontend
# have them (with a network, .ci/python_packages.sh installs packages into a folder for PYTHONPATH). Or they are named by
#   SLIMPACK_CUDNN_FRONTEND   folder of cudnn_frontend.h      CUDNN_INCLUDE_DIR   folder of cudnn.h
#   CUDNN_LIBRARY             libcudnn.so or libcudnn.so.9
# And PyTorch's attention, where SLIMPACK_PYTHON has PyTorch.
# SLIMPACK_LENGTHS names the file of lengths; default: examples/data. SLIMPACK_SECONDS: of the whole call; default: 470.
#
# Usage: gpu.sh [--rehearse] [BUILD_DIRECTORY [ARCHITECTURE]]   defaults: build/gpu, 90a-real
# --rehearse goes through all parts without a GPU, each of which then has to say that there is none.
# Leaves in BUILD_DIRECTORY/results: log.txt, figures.tsv, tasks.csv, tasks.html, profile.json.
# Exit codes: 0, 1 if a part failed or a figure misses its bar, 2 without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
rehearse=
if [[ ${1:-} == --rehearse ]]; then
  rehearse=yes
  shift
fi
build=${1:-build/gpu} architecture=${2:-90a-real} python=${SLIMPACK_PYTHON:-python3}
deadline=$((SECONDS + ${SLIMPACK_SECONDS:-470}))
results="$build/results" bench="$build/bench/bench_gpu"
log="$results/log.txt" figures="$results/figures.tsv"

if [[ -z $rehearse ]] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && ! nvidia-smi -L >/dev/null 2>&1; then
  echo "gpu.sh: no NVIDIA GPU is seen on this machine; expected one (--rehearse goes on without)" >&2
  exit 2
fi
rm -rf "$results"
mkdir -p "$results"
: >"$figures"
summary=() failed=

say() { echo "$*" | tee -a "$log"; }

# Runs a command for at most so many seconds, and never beyond the deadline. Sets `status`.
part() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 begin=$SECONDS left=$((deadline - SECONDS)) how
  shift 2
  limit=$((limit < left ? limit : left))
  say "" && say "== $name (at $begin s, at most $limit s)"
  status=124
  if ((limit > 0)); then
    : >"$results/part.txt"
    timeout --kill-after=5 "$limit" "$@" 2>&1 | tee -a "$log" "$results/part.txt"
    status=${PIPESTATUS[0]}
  fi
  case $status in
    0) how="done" ;;
    124 | 137) how="STOPPED after its $limit s" ;;
    *) how="FAILED (exit code $status)" ;;
  esac
  say "== $name: $how, $((SECONDS - begin)) s"
  summary+=("| $name | $how | $((SECONDS - begin)) |")
  ((status == 0)) || failed=yes
}

figure() { printf '%s\t%s\n' "$1" "$2" >>"$figures"; }

# What the environment names of cuDNN, as arguments of CMake, which looks for the rest.
name_cudnn() {
  local name
  cudnn=(-DSLIMPACK_WITH_CUDNN=AUTO)
  if name=$(command -v "$python"); then cudnn+=(-DSLIMPACK_PACKAGES_PYTHON="$name"); fi
  for name in SLIMPACK_CUDNN_FRONTEND CUDNN_INCLUDE_DIR CUDNN_LIBRARY; do
    [[ -z ${!name:-} ]] || cudnn+=("-D$name=${!name}")
  done
}

# Whether the build, as it was configured, has cuDNN.
with_cudnn() {
  grep -q 'SLIMPACK_BENCH_CUDNN' "$build/bench/CMakeFiles/bench_gpu.dir/flags.make" "$build/build.ninja" 2>/dev/null
}

# Without warnings: those of a compiler that nobody has tried would end the build.
configure() {
  cmake -S . -B "$build" -DCMAKE_CXX_FLAGS=-w -DCMAKE_CUDA_FLAGS="-w -Xcompiler=-w" -DCMAKE_BUILD_TYPE=Release -DSLIMPACK_WITH_CUDA=ON -DSLIMPACK_CUDA_ARCHITECTURES="$architecture" \
    -DSLIMPACK_BUILD_TESTS=OFF -DSLIMPACK_BUILD_EXAMPLES=OFF -DSLIMPACK_INSTALL=OFF "$@"
}

build_all() { configure "$@" && cmake --build "$build" --target bench_gpu -j "${SLIMPACK_JOBS:-$(nproc)}"; }
export -f build_all configure
export build architecture

# Findings of a tool of compute-sanitizer: their number, or why there is none, as a figure.
sanitize() { # TOOL
  local tool=$1 out="$results/$1.txt" found
  part "compute-sanitizer $tool" 75 "$sanitizer" --tool "$tool" --error-exitcode 86 --log-file "$out" \
    "$bench" check-kernels --seed 1
  [[ ! -e $out ]] || tail -n 20 "$out" | tee -a "$log"
  found=$(sed -nE 's/.*(ERROR SUMMARY: |RACECHECK SUMMARY: )([0-9]+).*/\2/p' "$out" 2>/dev/null | tail -n 1)
  if grep -qiE 'device not supported|not supported on this' "$out" "$results/part.txt" 2>/dev/null; then
    figure "sanitizer/$tool" "not supported on this machine"
  elif ((status == 124 || status == 137)); then
    figure "sanitizer/$tool" "did not end in its time; findings so far: ${found:-none said}"
  elif ((status == 0 || status == 86)) && [[ -n $found ]]; then
    figure "sanitizer/$tool" "$found"
  else
    figure "sanitizer/$tool" "failed with exit code $status"
  fi
}

if nvcc=$(command -v nvcc); then  # libraries of Python's packages may want the toolkit's
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$toolkit/lib64"
fi
name_cudnn
part "build" 220 bash -c 'build_all "$@"' build "${cudnn[@]}"
if ((status != 0)) && with_cudnn; then
  say "The build failed: once more WITHOUT cuDNN"
  part "build without cuDNN" 150 bash -c 'build_all "$@"' build -DSLIMPACK_WITH_CUDNN=OFF
fi
if [[ ! -x $bench ]]; then
  say "bench_gpu was not built: nothing was measured"
  exit 1
fi
if ! with_cudnn; then
  say "WARNING: cuDNN IS LEFT OUT: our attention is compared with PyTorch's alone, if that is found (the top of gpu.sh says" \
    "what is missing)"
fi

part "check" 80 "$bench" check --figures "$figures"
part "attention" 110 "$bench" attention --figures "$figures"
if "$python" -c 'import torch' 2>/dev/null; then
  "$bench" shapes >"$results/shapes.tsv"
  part "PyTorch's attention" 60 "$python" -u bench/gpu/torch_attention.py "$results/shapes.tsv" "$figures"
else
  say "" && say "$python has no PyTorch: its attention is not timed"
fi
keep=()
if grep -q '^nlohmann_json_DIR:PATH=/' "$build/CMakeCache.txt"; then
  keep=(--profile "$results/profile.json")
else
  say "WARNING: nlohmann_json was not found: the profile is not kept"
fi
left=$((deadline - SECONDS - 20))
seconds=$((left < 105 ? left : 105))
part "stage" 200 "$bench" stage --figures "$figures" --tasks "$results/tasks.csv" --seconds $((seconds > 30 ? seconds : 30)) \
  ${keep[@]+"${keep[@]}"}
if [[ -s $results/tasks.csv ]]; then
  part "drawing" 20 "$bench" draw "$results/tasks.csv" "$results/tasks.html"
fi
sanitizer=$(command -v compute-sanitizer || ls "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")/compute-sanitizer" 2>/dev/null)
for tool in memcheck racecheck; do
  if [[ -n $sanitizer ]]; then
    sanitize "$tool"
  else
    figure "sanitizer/$tool" "compute-sanitizer is not there"
  fi
done

say "" && say "| part |  | seconds |" && say "| --- | --- | --- |"
for line in "${summary[@]}"; do say "$line"; done
say "| all | | $SECONDS |"
say ""
"$bench" verdict "$figures" 2>&1 | tee -a "$log"
((PIPESTATUS[0] == 0)) && [[ -z $failed ]]
