#!/usr/bin/env bash
# Without a GPU, each part of bench_gpu and of gpu.sh that needs one says so in one line and exits with 2, and all others
# work. With a made-up bench_gpu, a step of gpu.sh that fails, hangs or lacks something leaves the others' figures. And
# bench_gpu configures where there is nothing but CUDA's toolkit and Eigen.
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

for part in ways "check operators" "check attention" "check timed" "check steps" attention slicing memory-bound stage; do
  # shellcheck disable=SC2086
  ends 2 env CUDA_VISIBLE_DEVICES= "$bench" $part --figures "$folder/none.tsv"
  [[ $(wc -l <"$folder/err") == 1 && $(cat "$folder/err") == "bench_gpu: "*expected* ]] ||
    fail "'$part' says '$(cat "$folder/err")'; expected one line"
  [[ ! -s $folder/out && ! -e $folder/none.tsv ]] || fail "'$part' gave results without a GPU"
done
for wrong in "" "checks" "check" "check more" "check steps more" "check steps --seed" "check steps --seed x" "check steps --speed 1" \
  "attention --by flash" "stage --rows 128" "verdict"; do
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
printf 'check/steps\t0.5\n' >"$folder/more.tsv"
ends 1 "$bench" verdict "$folder/figures.tsv" "$folder/more.tsv"
grep -q '^| 4096 after 0 | forward | .* | met |$' "$folder/out" || fail "$(cat "$folder/out")"

{
  echo "plan,pass,pack,tokens,seconds,predicted"
  for i in 1 2 3 4 5; do echo "slices,forward,$i,4096,0.01$i,0.012"; done
} >"$folder/tasks.csv"
ends 0 "$bench" draw "$folder/tasks.csv" "$folder/tasks.html"
grep -q '<polygon' "$folder/tasks.html" || fail "nothing is drawn"
ends 2 "$bench" draw "$folder/no.csv" "$folder/tasks.html"

# The script, part by part, where there is no GPU.
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  for part in attention stage sanitizers; do
    ends 2 env SLIMPACK_RESULTS="$folder/dry" bench/gpu.sh "$part" "$folder/no"
    [[ $(wc -l <"$folder/err") == 1 && $(cat "$folder/err") == "gpu.sh: "*"expected one for the part $part" && ! -s $folder/out ]] ||
      fail "gpu.sh $part says '$(cat "$folder/out" "$folder/err")'; expected one line"
    [[ ! -e $folder/dry && ! -e $folder/no ]] || fail "gpu.sh $part left something"
  done
fi
for wrong in "" all "verdict $folder/no"; do
  # shellcheck disable=SC2086
  ends 2 bench/gpu.sh $wrong
done

# A bench_gpu that is made up: it keeps a figure by the name of its arguments, then does what FAILING has for them.
cat >"$folder/bench_gpu" <<'FAKE'
#!/usr/bin/env bash
figures= words=()
while (($# > 0)); do
  case $1 in
    --figures) figures=$2 && shift 2 ;;
    --tasks | --seconds | --seed | --profile) shift 2 ;;
    *) words+=("$1") && shift ;;
  esac
done
case ${words[0]} in
  ways) printf '%s\n' $WAYS && exit ;;
  shapes | draw) exit ;;
  verdict) cat "${words[@]:1}" && exit ;;
esac
[[ -z $figures ]] || printf '%s\t1\n' "${words[*]}" >>"$figures"
case "$FAILING" in
  "fail ${words[*]}") exit 134 ;;
  "hang ${words[*]}") exec sleep 100 ;;
esac
FAKE
mkdir "$folder/tools"
cat >"$folder/tools/compute-sanitizer" <<'FAKE'
#!/usr/bin/env bash
while [[ $1 == --* ]]; do
  [[ $1 != --log-file ]] || log=$2
  shift 2
done
"$@" || exit
echo "ERROR SUMMARY: 0 errors" >"$log"
FAKE
chmod +x "$folder/bench_gpu" "$folder/tools/compute-sanitizer"

# Runs a part with it; the first of gpu.sh's parts that did not take it would be built.
rehearse() { # STATUS FAILING PART
  ends "$1" env FAILING="$2" WAYS="${WAYS-mma_sync wgmma cudnn cudnn_fixed cudnn_fast}" SLIMPACK_BENCH="$folder/bench_gpu" \
    SLIMPACK_RESULTS="$folder/results" SLIMPACK_PYTHON=no_python SLIMPACK_WITHOUT="${WITHOUT-pytorch}" SLIMPACK_STEP_SECONDS=2 \
    PATH="$folder/tools:$PATH" bench/gpu.sh --rehearse "$3"
}
all_but() { # FIGURE FILE: how many figures the file has apart from one
  grep -cvxF "$1"$'\t1' "$folder/results/$2" || true
}
rehearse 0 "" attention
count=$(all_but "" attention.tsv)
((count == 14)) || fail "attention keeps $count figures: $(cat "$folder/results/attention.tsv")"
for failing in "attention --by wgmma" "check attention --by cudnn" "check steps" "memory-bound"; do
  rehearse 1 "fail $failing" attention
  [[ $(all_but "$failing" attention.tsv) == $((count - 1)) ]] || fail "'$failing' took figures of others: $(cat "$folder/out")"
  [[ $(grep -c 'FAILED (exit code 134) | ' "$folder/out") == 1 ]] || fail "it is not said that '$failing' failed"
done
rehearse 1 "hang attention --by mma_sync" attention
[[ $(all_but "attention --by mma_sync" attention.tsv) == $((count - 1)) ]] || fail "a step that hangs took figures of others"
grep -q '^| attention by mma_sync | STOPPED after its 2 s | ' "$folder/out" || fail "it is not said that a step was stopped"

# Another part leaves what this one has kept; a stage that fails runs again without wgmma.
cp "$folder/results/attention.tsv" "$folder/before.tsv"
rehearse 1 "fail stage" stage
[[ $(all_but stage stage.tsv) == 2 ]] && grep -q $'^stage --rows 64\t1$' "$folder/results/stage.tsv" &&
  grep -q $'^stage/kernels\tby mma.sync' "$folder/results/stage.tsv" || fail "the stage keeps $(cat "$folder/results/stage.tsv")"
rehearse 1 "fail check operators" sanitizers
[[ $(all_but "" sanitizers.tsv) == 6 && $(grep -c "failed with exit code 134" "$folder/results/sanitizers.tsv") == 2 ]] ||
  fail "sanitizers keep $(cat "$folder/results/sanitizers.tsv")"
cmp -s "$folder/before.tsv" "$folder/results/attention.tsv" || fail "other parts changed attention's figures"
rehearse 0 "" verdict
[[ $(wc -l <"$folder/out") == $((count + 3 + 6)) ]] || fail "the verdict is not of all parts: $(cat "$folder/out")"

# What the comparison lacks is said, and is no success unless it was foretold.
WITHOUT= rehearse 1 "" attention
grep -q '^MISSING: PyTorch' "$folder/out" || fail "a lack of PyTorch is not said: $(cat "$folder/out")"
WAYS="mma_sync wgmma" rehearse 1 "" attention
grep -q '^MISSING: cuDNN' "$folder/out" || fail "a lack of cuDNN is not said: $(cat "$folder/out")"
WAYS="mma_sync" WITHOUT=cudnn,pytorch rehearse 0 "" attention
grep -q '^WITHOUT cudnn' "$folder/out" || fail "it is not said that cuDNN is left out"

without=()
for package in benchmark Catch2 nlohmann_json GLPK Cbc highs Boost MPI NCCL CUDNN; do
  without+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
done
ends 0 cmake -S . -B "$folder/build" -DSLIMPACK_WITH_CUDA=ON -DSLIMPACK_BUILD_TESTS=OFF -DSLIMPACK_BUILD_EXAMPLES=OFF \
  -DSLIMPACK_INSTALL=OFF "${without[@]}"
ends 0 cmake --build "$folder/build" --target help
grep -q 'bench_gpu' "$folder/out" || fail "bench_gpu is no target where only CUDA's toolkit and Eigen are"
