#!/usr/bin/env bash
# Measures on this machine's GPU what docs/gpu-results.md has a row for, in parts that each end in less than 8 minutes:
#   attention   checks operators, attention and whole steps against the CPU's in double; times attention, and libraries'
#   stage       times a stage of llama-13b, and compares it with what its profile predicts
#   sanitizers  looks for bad accesses and races
#   verdict     prints every figure that the parts have kept, its bar, and whether it was met (needs no GPU)
# Each of the first three builds bench_gpu, unless BUILD_DIRECTORY has it. Each of their steps is a process of its own, with
# a time of its own: one that fails, hangs or is stopped costs its own figures and no others. A wait in a kernel ends with
# an error after seconds, a minute at most.
#
# Usage: gpu.sh [--rehearse] PART [BUILD_DIRECTORY [ARCHITECTURE]]   defaults: build/gpu, 90a-real
# --rehearse goes through a part's steps without a GPU.
# Leaves in BUILD_DIRECTORY/results: PART.log, PART.tsv with the figures, tasks.csv, tasks.html, profile.json.
# Exit codes: 0; 1 if a step failed, a library to compare with is missing or a figure misses its bar; 2 without a GPU or of
# wrong arguments.
#
# Needs: CUDA's toolkit of at least 12.8 (nvcc, cuBLASLt; the compute-sanitizer for its part), CMake 3.25, a C++20
# compiler, make or ninja, and Eigen 3.4 with its CMake files; nlohmann_json to keep the profile; and to compare with,
# cuDNN of at least 9.6 with its front end, and PyTorch. Nothing is downloaded: gpu_fetch.sh, on a machine with a network,
# puts Eigen, nlohmann_json and the front end into a folder, which is used where it is build/carried.
# Environment, all optional:
#   SLIMPACK_WITHOUT         of cudnn, pytorch: what there need not be (by commas): the comparison then counts less
#   SLIMPACK_ROWS            64: whole steps and the stage take attention's kernels by mma.sync, also on Hopper
#   SLIMPACK_SECONDS         of the whole call, default 465     SLIMPACK_STEP_SECONDS   of a step, at most
#   SLIMPACK_JOBS            compilers at a time, default: all cores
#   SLIMPACK_RESULTS         folder of the results, in place of BUILD_DIRECTORY/results
#   SLIMPACK_CARRIED         folder of gpu_fetch.sh, default build/carried
#   SLIMPACK_PYTHON          default python3, whose packages may have cuDNN, the front end and PyTorch
#   SLIMPACK_CUDNN_FRONTEND, CUDNN_INCLUDE_DIR, CUDNN_LIBRARY   where these are, if CMake does not find them
#   SLIMPACK_LENGTHS         file of lengths for the stage, default: of examples/data
#   SLIMPACK_BENCH           a bench_gpu that is already built
set -uo pipefail
cd "$(dirname "$0")/.." || exit
rehearse=
if [[ ${1:-} == --rehearse ]]; then
  rehearse=yes
  shift
fi
part=${1:-}
build=${2:-build/gpu} architecture=${3:-90a-real} python=${SLIMPACK_PYTHON:-python3}
deadline=$((SECONDS + ${SLIMPACK_SECONDS:-465}))
results=${SLIMPACK_RESULTS:-$build/results} bench=${SLIMPACK_BENCH:-$build/bench/bench_gpu}
log="$results/$part.log" figures="$results/$part.tsv"
rows=()
[[ -z ${SLIMPACK_ROWS:-} ]] || rows=(--rows "$SLIMPACK_ROWS")

case $part in
  attention | stage | sanitizers | verdict) ;;
  *)
    echo "gpu.sh: the part is '$part'; expected attention, stage, sanitizers or verdict" >&2
    exit 2
    ;;
esac
if [[ -z $rehearse && $part != verdict ]] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && ! nvidia-smi -L >/dev/null 2>&1; then
  echo "gpu.sh: no NVIDIA GPU is seen on this machine; expected one for the part $part" >&2
  exit 2
fi

say() { echo "$*" | tee -a "$log"; }

# Prints all figures so far; those of parts that have not run are not measured.
verdict() {
  local files=()
  for name in attention stage sanitizers; do
    [[ ! -e $results/$name.tsv ]] || files+=("$results/$name.tsv")
  done
  if ((${#files[@]} == 0)); then
    echo "gpu.sh: there are no figures in $results; expected some part's" >&2
    return 2
  fi
  "$bench" verdict "${files[@]}"
}
if [[ $part == verdict ]]; then
  verdict
  exit
fi

mkdir -p "$results"
rm -f "$log" "$figures"
: >"$figures"
summary=() failed=

# Runs a command for at most so many seconds, and never beyond the deadline. Sets `status`.
step() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 begin=$SECONDS left=$((deadline - SECONDS)) how
  shift 2
  limit=$((limit < ${SLIMPACK_STEP_SECONDS:-$limit} ? limit : ${SLIMPACK_STEP_SECONDS:-$limit}))
  limit=$((limit < left ? limit : left))
  say "" && say "== $name (at $begin s, at most $limit s)"
  status=124
  if ((limit > 0)); then
    : >"$results/step.txt"
    timeout --kill-after=5 "$limit" "$@" 2>&1 | tee -a "$log" "$results/step.txt"
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

# A part of bench_gpu, which keeps figures.
measure() { # NAME SECONDS ARGUMENT...
  local name=$1 limit=$2
  shift 2
  step "$name" "$limit" "$bench" "$@" --figures "$figures"
}

figure() { printf '%s\t%s\n' "$1" "$2" >>"$figures"; }

is_missing_allowed() { [[ ",${SLIMPACK_WITHOUT:-}," == *",$1,"* ]]; }

# A library that there should be to compare with, and is not.
lack() { # NAME WHAT
  if is_missing_allowed "$1"; then
    say "WITHOUT $1, as SLIMPACK_WITHOUT has it: our attention is compared with less"
  else
    say "MISSING: $2; expected it to compare our attention with (SLIMPACK_WITHOUT=$1 says that there is none)"
    summary+=("| $1 | MISSING | |")
    failed=yes
  fi
}

# Where the build looks for what is carried along, and for cuDNN, as arguments of CMake.
name_libraries() {
  local name carried=${SLIMPACK_CARRIED:-build/carried} nvcc
  libraries=(-DSLIMPACK_WITH_CUDNN=AUTO)
  if [[ -d $carried ]]; then
    carried=$(realpath "$carried")
    export CMAKE_PREFIX_PATH="$carried/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
    export PYTHONPATH="$carried/python${PYTHONPATH:+:$PYTHONPATH}"
  fi
  if name=$(command -v "$python"); then libraries+=(-DSLIMPACK_PACKAGES_PYTHON="$name"); fi
  for name in SLIMPACK_CUDNN_FRONTEND CUDNN_INCLUDE_DIR CUDNN_LIBRARY; do
    [[ -z ${!name:-} ]] || libraries+=("-D$name=${!name}")
  done
  if nvcc=$(command -v nvcc); then # libraries of Python's packages may want the toolkit's
    LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$(dirname "$(readlink -f "$nvcc")")")/lib64"
    export LD_LIBRARY_PATH
  fi
}

# Whether the build, as it was configured, has cuDNN.
with_cudnn() {
  grep -q 'SLIMPACK_BENCH_CUDNN' "$build/bench/CMakeFiles/bench_gpu.dir/flags.make" "$build/build.ninja" 2>/dev/null
}

# Without warnings: those of a compiler that nobody has tried would end the build.
build_all() {
  cmake -S . -B "$build" -DCMAKE_CXX_FLAGS=-w -DCMAKE_CUDA_FLAGS="-w -Xcompiler=-w" -DCMAKE_BUILD_TYPE=Release -DSLIMPACK_WITH_CUDA=ON \
    -DSLIMPACK_CUDA_ARCHITECTURES="$architecture" -DSLIMPACK_CUDA_BOUNDED_WAITS=ON -DSLIMPACK_BUILD_TESTS=OFF \
    -DSLIMPACK_BUILD_EXAMPLES=OFF -DSLIMPACK_INSTALL=OFF "$@" &&
    cmake --build "$build" --target bench_gpu -j "${SLIMPACK_JOBS:-$(nproc)}"
}
export -f build_all
export build architecture

make_bench() {
  [[ -z ${SLIMPACK_BENCH:-} ]] || return 0
  name_libraries
  step "build" 240 bash -c 'build_all "$@"' build "${libraries[@]}"
  if ((status != 0)) && with_cudnn; then
    say "The build failed: once more WITHOUT cuDNN"
    step "build without cuDNN" 150 bash -c 'build_all "$@"' build -DSLIMPACK_WITH_CUDNN=OFF
  fi
  if [[ ! -x $bench ]]; then
    say "bench_gpu was not built: nothing was measured"
    exit 1
  fi
}

attention_part() {
  local ways way
  mapfile -t ways < <("$bench" ways 2>/dev/null)
  ((${#ways[@]} > 0)) || ways=(mma_sync wgmma cudnn cudnn_fixed cudnn_fast)
  [[ " ${ways[*]} " == *" cudnn_fast "* ]] || lack cudnn "cuDNN or its front end, when bench_gpu was built"
  for way in "${ways[@]}"; do
    [[ $way == cudnn_f* ]] || measure "check of attention by $way" 40 check attention --by "$way"
  done
  for way in "${ways[@]}"; do measure "attention by $way" 50 attention --by "$way"; done
  if "$python" -c 'import torch' 2>/dev/null; then
    "$bench" shapes >"$results/shapes.tsv"
    step "PyTorch's attention" 60 "$python" -u bench/gpu/torch_attention.py "$results/shapes.tsv" "$figures"
  else
    lack pytorch "PyTorch, for $python"
  fi
  measure "check of operators" 30 check operators
  measure "check of whole steps" 60 check steps ${rows[@]+"${rows[@]}"}
  for way in "${ways[@]}"; do
    [[ $way == cudnn* ]] || measure "check of the timed attention by $way" 40 check timed --by "$way"
  done
  measure "slicing" 40 slicing
  measure "memory-bound operators" 20 memory-bound
}

stage_part() {
  local keep=() left seconds
  if [[ -n ${SLIMPACK_BENCH:-} ]] || grep -q '^nlohmann_json_DIR:PATH=/' "$build/CMakeCache.txt"; then
    keep=(--profile "$results/profile.json")
  else
    say "WARNING: nlohmann_json was not found: the profile is not kept"
  fi
  one_stage() { # LIMIT ARGUMENT...
    left=$((deadline - SECONDS - 40)) seconds=$(($1 - 50))
    seconds=$((left < seconds ? left : seconds))
    measure "stage ${*:2}" "$1" stage --tasks "$results/tasks.csv" --seconds $((seconds > 30 ? seconds : 30)) \
      ${keep[@]+"${keep[@]}"} "${@:2}"
  }
  one_stage 230 ${rows[@]+"${rows[@]}"}
  if ((status != 0 && status != 2 && ${#rows[@]} == 0)); then
    say "The stage failed: once more with attention's kernels by mma.sync"
    one_stage 150 --rows 64
    figure "stage/kernels" "by mma.sync: with those by wgmma the stage failed"
  fi
  if [[ -s $results/tasks.csv ]]; then
    step "drawing" 20 "$bench" draw "$results/tasks.csv" "$results/tasks.html"
  fi
}

# Findings of a tool of compute-sanitizer in one part of bench_gpu: their number, or why there is none, as a figure.
sanitize() { # FIGURE TOOL ARGUMENT...
  local name=$1 tool=$2 out found
  shift 2
  out="$results/${name//[^a-z]/_}.txt"
  step "compute-sanitizer $tool, $*" 75 "$sanitizer" --tool "$tool" --error-exitcode 86 --log-file "$out" "$bench" "$@" --seed 1
  [[ ! -e $out ]] || tail -n 20 "$out" | tee -a "$log"
  found=$(sed -nE 's/.*(ERROR SUMMARY: |RACECHECK SUMMARY: )([0-9]+).*/\2/p' "$out" 2>/dev/null | tail -n 1)
  if grep -qiE 'device not supported|not supported on this' "$out" "$results/step.txt" 2>/dev/null; then
    figure "$name" "not supported on this machine"
  elif ((status == 124 || status == 137)); then
    figure "$name" "$*: did not end in its time; findings so far: ${found:-none said}"
  elif ((status == 0 || status == 86)) && [[ -n $found ]]; then
    figure "$name" "$found"
  else
    figure "$name" "$*: failed with exit code $status"
  fi
}

# Racecheck reports what is no race where the copy engine writes: so wgmma's findings are a figure without a bar.
sanitizers_part() {
  local tool
  sanitizer=$(command -v compute-sanitizer || ls "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")/compute-sanitizer" 2>/dev/null)
  if [[ -z $sanitizer ]]; then
    say "compute-sanitizer is not there; expected it next to nvcc"
    failed=yes
    return
  fi
  for tool in memcheck racecheck; do
    sanitize "sanitizer/$tool, operators" "$tool" check operators
    sanitize "sanitizer/$tool, mma.sync" "$tool" check attention --by mma_sync
  done
  for tool in memcheck racecheck; do
    sanitize "sanitizer/$tool, wgmma" "$tool" check attention --by wgmma
  done
}

make_bench
"${part}_part"
rm -f "$results/step.txt"

say "" && say "| step |  | seconds |" && say "| --- | --- | --- |"
for line in "${summary[@]}"; do say "$line"; done
say "| all | | $SECONDS |"
say ""
verdict 2>&1 | tee -a "$log"
((PIPESTATUS[0] == 0)) && [[ -z $failed ]]
