#!/usr/bin/env bash
# Without a GPU, each part of bench_gpu that needs one says so in one line and exits with 2, and all others work. And
# it configures where there is nothing but CUDA's toolkit and Eigen.
# Usage: bench_test.sh BENCH_GPU SOURCES
set -euo pipefail
bench=$1 sources=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "bench_test.sh: $*" >&2
  exit 1
}

# Runs a command that has to end with a status, and keeps what it says.
ends() { # STATUS COMMAND...
  local expected=$1 status=0
  shift
  "$@" >"$folder/out" 2>"$folder/err" || status=$?
  ((status == expected)) || fail "'$*' ended with $status; expected $expected: $(cat "$folder/out" "$folder/err")"
}

for part in check check-kernels attention stage; do
  ends 2 env CUDA_VISIBLE_DEVICES= "$bench" "$part" --figures "$folder/none.tsv"
  [[ $(wc -l <"$folder/err") == 1 && $(cat "$folder/err") == "bench_gpu: "*expected* ]] ||
    fail "'$part' says '$(cat "$folder/err")'; expected one line"
  [[ ! -s $folder/out && ! -e $folder/none.tsv ]] || fail "'$part' gave results without a GPU"
done
for wrong in "" "checks" "check more" "check --seed" "check --seed x" "check --speed 1" "verdict"; do
  # shellcheck disable=SC2086
  ends 2 "$bench" $wrong
done

ends 0 "$bench" shapes
[[ $(grep -c $'^4096 after [0-9]*\t4096:[0-9]*$' "$folder/out") == 4 ]] || fail "the slices are missing in 'shapes'"
cd "$sources"
ends 0 "$bench" plans h200
grep -q '^| slices | ' "$folder/out" || fail "'plans' says '$(cat "$folder/out")'"

printf 'attention/4096 after 0/forward/ours, wgmma\t2e-4\nattention/4096 after 0/forward/cuDNN\t1.5e-4\n' >"$folder/figures.tsv"
ends 0 "$bench" verdict "$folder/figures.tsv"
grep -q '^| 4096 after 0 | forward | .* | 0.75 | >= 0.7 | met |$' "$folder/out" || fail "$(cat "$folder/out")"
printf 'check/steps\t0.5\n' >>"$folder/figures.tsv"
ends 1 "$bench" verdict "$folder/figures.tsv"

{
  echo "plan,pass,pack,tokens,seconds,predicted"
  for i in 1 2 3 4 5; do echo "slices,forward,$i,4096,0.01$i,0.012"; done
} >"$folder/tasks.csv"
ends 0 "$bench" draw "$folder/tasks.csv" "$folder/tasks.html"
grep -q '<polygon' "$folder/tasks.html" || fail "nothing is drawn"
ends 2 "$bench" draw "$folder/no.csv" "$folder/tasks.html"

without=()
for package in benchmark Catch2 nlohmann_json GLPK Cbc highs Boost MPI NCCL CUDNN; do
  without+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
done
ends 0 cmake -S . -B "$folder/build" -DSLIMPACK_WITH_CUDA=ON -DSLIMPACK_BUILD_TESTS=OFF -DSLIMPACK_BUILD_EXAMPLES=OFF \
  -DSLIMPACK_INSTALL=OFF "${without[@]}"
ends 0 cmake --build "$folder/build" --target help
grep -q 'bench_gpu' "$folder/out" || fail "bench_gpu is no target where only CUDA's toolkit and Eigen are"
