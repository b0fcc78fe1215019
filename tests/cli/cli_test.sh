#!/usr/bin/env bash
# Runs the slimpack command as a user would: what works, and every bad input. Usage: cli_test.sh BINARY LENGTHS
set -uo pipefail
slimpack=$1 lengths=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

fail() { echo "FAILED: $*"; failed=1; }

# refuses TEXT COMMAND...: exit code 2, one line on standard error that holds TEXT, nothing on standard output.
refuses() {
  local text=$1
  shift
  "$@" >"$folder/out" 2>"$folder/err" </dev/null
  local code=$?
  [[ $code == 2 ]] || fail "exit code $code, expected 2: $*"
  [[ $(wc -l <"$folder/err") == 1 ]] || fail "not one line on standard error: $*: $(cat "$folder/err")"
  grep -qF -- "$text" "$folder/err" || fail "'$text' is not in: $(cat "$folder/err")"
  [[ ! -s $folder/out ]] || fail "wrote to standard output: $*"
}

# works COMMAND...: exit code 0, nothing on standard error.
works() {
  "$@" >"$folder/out" 2>"$folder/err" </dev/null || fail "exit code $?: $*: $(cat "$folder/err")"
  [[ ! -s $folder/err ]] || fail "wrote to standard error: $*: $(cat "$folder/err")"
}

job=(--model llama-13b --device h100 --dp 4 --pp 8 --tp 4)
file() { printf '%b' "$2" >"$folder/$1"; echo "$folder/$1"; }

works "$slimpack" --version
works "$slimpack" --help
works "$slimpack" plan --help
works "$slimpack" presets
grep -q llama-150b "$folder/out" || fail "presets lack llama-150b"

works "$slimpack" plan --lengths "$lengths" --count 100 --context 65536 --truncate "${job[@]}" --planner slimpack -o "$folder/plan.json"
works "$slimpack" check "$folder/plan.json"
grep -q "valid; 4 pipelines" "$folder/out" || fail "check does not say valid"
works "$slimpack" trace "$folder/plan.json" -o "$folder/trace.json"
grep -q traceEvents "$folder/trace.json" || fail "no trace"
works "$slimpack" plan --lengths "$lengths" --first 7 --count 64 --context 65536 --split "${job[@]}" --planner megatron -o "$folder/m.json"
works "$slimpack" check "$folder/m.json"
works "$slimpack" compare --lengths "$lengths" --count 64 --context 65536 --truncate "${job[@]}" --iterations 3 --json --html "$folder/c.html"
for key in planner iterations step_seconds tokens_per_second_per_gpu speedup bubble_ratio max_over_mean_forward \
  max_over_mean_backward replica_imbalance peak_bytes packs planning_seconds gap; do
  [[ $(grep -c "\"$key\"" "$folder/out") == 2 ]] || fail "compare --json lacks $key"
done
grep -q '"iterations": 3' "$folder/out" || fail "not 3 iterations"
grep -q '</html>' "$folder/c.html" || fail "no page"
head -64 "$lengths" | "$slimpack" plan --lengths - --context 65536 --truncate "${job[@]}" >"$folder/stdin.json" || fail "standard input"
"$slimpack" check - <"$folder/stdin.json" >/dev/null || fail "check of standard input"
head -64 "$lengths" | "$slimpack" compare --context 65536 --truncate "${job[@]}" --equal-packs --tile 1 --no-merge --memory-bytes 9e10 >/dev/null || fail "options"

refuses "unknown command 'plam'" "$slimpack" plam
refuses "unrecognised option '--colour'" "$slimpack" plan --colour
refuses "context" "$slimpack" plan --lengths "$lengths"
refuses "can't read the lengths from '$folder/none'" "$slimpack" plan --lengths "$folder/none" --context 1024
refuses "holds no lengths" "$slimpack" plan --lengths "$(file empty '')" --context 1024
refuses "line 2: 'twelve'" "$slimpack" plan --lengths "$(file letters '5\ntwelve\n')" --context 1024
refuses "line 3: '0'" "$slimpack" plan --lengths "$(file zero '5\n7\n0\n')" --context 1024
refuses "line 1: '-3'" "$slimpack" plan --lengths "$(file negative '-3\n')" --context 1024
refuses "line 2: '9223372036854775808'" "$slimpack" plan --lengths "$(file big '1\n9223372036854775808\n')" --context 1024
refuses "line 2: 2000 tokens; expected at most the context of 1024" "$slimpack" plan --lengths "$(file long '5\n2000\n')" --context 1024
refuses "pp is 64; expected at most the 40 layers" "$slimpack" plan --lengths "$lengths" --count 99 --context 65536 --truncate --pp 64
refuses "dp is 16; expected at most the 8 samples" "$slimpack" plan --lengths "$lengths" --count 8 --context 65536 --truncate --pp 8 --dp 16 --tp 4
refuses "unknown model 'llama-9b'; expected one of llama-7b" "$slimpack" plan --lengths "$lengths" --context 65536 --model llama-9b
refuses "unknown device 'h900'" "$slimpack" plan --lengths "$lengths" --context 65536 --device h900
refuses "unknown planner 'magic'; expected one of megatron, slimpack" "$slimpack" plan --lengths "$lengths" --context 65536 --planner magic
refuses "merged pipelines" "$slimpack" plan --lengths "$(file huge '900000000\n5\n')" --context 1000000000 --dp 2 --pp 8
refuses "expected at least 30000" "$slimpack" plan --lengths "$lengths" --count 30000 --context 65536 --truncate
refuses "--truncate and --split" "$slimpack" plan --lengths "$lengths" --context 65536 --truncate --split
refuses "can't write" "$slimpack" plan --lengths "$lengths" --count 64 --context 65536 --truncate "${job[@]}" -o "$folder/no/such/plan.json"
refuses "can't write" "$slimpack" compare --lengths "$lengths" --count 64 --context 65536 --truncate "${job[@]}" --html "$folder/no/such/c.html"
refuses "can't read the plan" "$slimpack" check "$folder/none.json"
head -c 5000 "$folder/plan.json" >"$folder/cut.json"
refuses "not JSON" "$slimpack" check "$folder/cut.json"
refuses "plan" "$slimpack" check "$(file other.json '{"format": "other"}')"
refuses "not JSON" "$slimpack" trace "$folder/cut.json" -o "$folder/never.json"
[[ ! -e $folder/never.json ]] || fail "a partial output file is left"
[[ -z $(find "$folder" -name '*.partial') ]] || fail "a temporary file is left"

sed 's/"version":1/"version":7/' "$folder/plan.json" >"$folder/version.json"
refuses "version" "$slimpack" check "$folder/version.json"
sed '0,/"F0","F1"/s//"F1","F0"/' "$folder/plan.json" >"$folder/order.json"
"$slimpack" check "$folder/order.json" >"$folder/out" 2>"$folder/err"
[[ $? == 2 ]] || fail "a plan that breaks a rule passes"

[[ $failed == 0 ]] && echo "all checks of the command passed"
exit $failed
