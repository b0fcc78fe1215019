#!/usr/bin/env bash
# Runs the planners of documents on 4D layouts as a user would: in comparisons, and one iteration after another with
# a state file. Usage: documents_test.sh BINARY LENGTHS
set -uo pipefail
slimpack=$1 lengths=$2
source "$(dirname "$0")/checks.sh"

job=(--model llama-7b --device h100 --tp 8 --cp 2 --pp 4 --dp 2 --context 65536 --truncate)
queues=(--queues 16000,40000)
figure() {  # NAME ROW: a figure of a row of the last comparison
  grep "\"$1\"" "$folder/out" | sed -n "$2p" | grep -o '[0-9.e+-]*,\?$' | tr -d ,
}
holds() { awk "BEGIN { exit !($1) }" || fail "not $1: ${*:2}"; }

# Comparisons: every planner, tokens and time in all, whatever the number of threads.
works "$slimpack" compare --lengths "$lengths" --sequences 8 "${job[@]}" "${queues[@]}" --iterations 12 --json \
  --planner plain-4d,fixed-4d,wlb --html "$folder/c.html"
cp "$folder/out" "$folder/one.json"
grep -q '</html>' "$folder/c.html" || fail "no page"
for key in tokens token_delay; do
  [[ $(grep -c "\"$key\"" "$folder/out") == 3 ]] || fail "compare --json lacks $key"
done
holds "$(figure speedup 3) > 1" "wlb is not faster than plain-4d"
holds "$(figure token_delay 3) > 0" "nothing was late"
holds "$(figure tokens 3) <= $(figure tokens 1)" "wlb has trained more tokens than there are"
holds "$(figure token_delay 1) == 0 && $(figure token_delay 2) == 0" "a baseline is late"
for row in 1 2 3; do
  holds "($(figure tokens $row) / $(figure step_seconds $row) / 128 / $(figure tokens_per_second_per_gpu $row) - 1) ^ 2 < 1e-12" \
    "tokens per second are not tokens over seconds"
done
works "$slimpack" compare --lengths "$lengths" --sequences 8 "${job[@]}" "${queues[@]}" --iterations 12 --json \
  --planner plain-4d,fixed-4d,wlb --threads 4
diff <(grep -v planning_seconds "$folder/one.json") <(grep -v planning_seconds "$folder/out") >/dev/null ||
  fail "threads change the figures"
works "$slimpack" compare --lengths "$lengths" --sequences 8 "${job[@]}" "${queues[@]}" --iterations 12 --json \
  --planner plain-4d,wlb
holds "$(figure tokens 2) * $(figure iterations 2) == $(figure tokens 1) * 12" "wlb has not trained all tokens"
drained=$(figure iterations 2)
holds "$drained > 12" "no document of wlb has waited"
works "$slimpack" compare --lengths "$lengths" --sequences 8 "${job[@]}" "${queues[@]}" --iterations 12 --planner plain-4d,wlb
grep -q "^wlb: figures are of the $drained iterations that train all documents of the 12 batches$" "$folder/out" ||
  fail "compare does not say what is included: $(cat "$folder/out")"
works "$slimpack" compare --lengths "$lengths" --sequences 8 "${job[@]}" "${queues[@]}" --iterations 12 --planner plain-4d,wlb --no-drain
grep -qE "^wlb: after the last batch, [0-9.]+ % of the tokens still wait; they are not counted$" "$folder/out" ||
  fail "compare does not say what is left out: $(cat "$folder/out")"

# Queues are tuned on other batches than those compared: where there are none, no document waits.
head -n 64 "$lengths" >"$folder/all"
works "$slimpack" compare --lengths "$folder/all" --count 16 "${job[@]}" --iterations 4 --planner wlb --json
grep -v planning_seconds "$folder/out" >"$folder/tuned"
works "$slimpack" compare --lengths "$folder/all" --count 16 "${job[@]}" --iterations 4 --planner wlb --json --queues none
grep -v planning_seconds "$folder/out" | cmp -s - "$folder/tuned" || fail "queues are tuned on the batches that are compared"

works "$slimpack" compare --lengths "$lengths" --sequences 8 "${job[@]}" --iterations 8 --planner fixed-4d --window 4
for sharding in per-sequence per-document adaptive mixed; do
  works "$slimpack" compare --lengths "$lengths" --count 64 "${job[@]}" --iterations 2 --sharding $sharding \
    --planner plain-4d,fixed-4d,wlb --release balanced --given-order
done
for exchange in ring all_to_all cheapest all_gather; do
  works "$slimpack" compare --lengths "$lengths" --count 64 "${job[@]}" --exchange $exchange --planner megatron,wlb --quiet
done
for names in all_to_all,ulysses all_gather,all-gather; do
  for name in ${names/,/ }; do
    works "$slimpack" plan --lengths "$lengths" --count 64 "${job[@]}" --exchange $name -o "$folder/$name.json"
  done
  cmp -s "$folder/${names%,*}.json" "$folder/${names#*,}.json" || fail "$names are not the same exchange"
done
# All planners use the same prices: steps of a single sample differ only in how attention is modelled.
one=("$(file single '32768\n')" --context 65536 --model llama-7b --tp 8 --cp 2 --pp 4)
step() { grep -oE '"step":\{"seconds":[0-9.e+-]+' "$1" | grep -oE '[0-9.e+-]+$'; }
works "$slimpack" plan --lengths "${one[@]}" --planner megatron -o "$folder/megatron.json"
for planner in plain-4d fixed-4d wlb; do
  works "$slimpack" plan --lengths "${one[@]}" --planner $planner -o "$folder/single.json"
  holds "($(step "$folder/single.json") / $(step "$folder/megatron.json") - 1) ^ 2 < 0.01 ^ 2" "$planner has other prices"
done
for planner in megatron slimpack plain-4d fixed-4d wlb; do
  same=(--lengths "$lengths" --count 64 "${job[@]}" --planner $planner)
  works "$slimpack" plan "${same[@]}" -o "$folder/default.json"
  works "$slimpack" plan "${same[@]}" --exchange cheapest -o "$folder/cheapest.json"
  works "$slimpack" plan "${same[@]}" --exchange all_gather -o "$folder/gathered.json"
  cmp -s "$folder/default.json" "$folder/cheapest.json" || fail "the default exchange of $planner is another one"
  ! cmp -s "$folder/default.json" "$folder/gathered.json" || fail "$planner does not price the exchange"
done
for planner in plain-4d fixed-4d wlb; do
  works "$slimpack" plan --lengths "$lengths" --first 64 --count 64 "${job[@]}" --planner $planner -o "$folder/$planner.json"
  works "$slimpack" check "$folder/$planner.json"
  works "$slimpack" trace "$folder/$planner.json"
done

# Iterations by a state file: every line of the file in exactly one plan, as in one run.
rm -f "$folder"/s*
one=("$slimpack" plan --lengths "$lengths" "${job[@]}" "${queues[@]}" --planner wlb --state "$folder/s")
trained() {  # prints the document ids that a plan trains
  python3 - "$1" <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1]))
samples = [sample for pack in plan["forward"] for sample, _, _ in pack["slices"]]
assert len(samples) == len(set(samples)) and not set(samples) & set(plan["deferred"])
assert len(samples) + len(plan["deferred"]) == len(plan["tokens"])
print(*(plan["document_ids"][sample] for sample in samples), sep="\n")
PYTHON
}
for i in 0 1 2 3; do
  works "${one[@]}" --first $((i * 200)) --count 200 -o "$folder/p$i.json"
  works "$slimpack" check "$folder/p$i.json"
done
cp "$folder/s" "$folder/s-before"
drained=0
while "${one[@]}" --count 200 --drain -o "$folder/p$((4 + drained)).json" >/dev/null 2>"$folder/err"; do
  drained=$((drained + 1))
done
grep -q "nothing waits" "$folder/err" || fail "draining ends with: $(cat "$folder/err")"
[[ $drained -gt 0 ]] || fail "nothing was late"
if command -v python3 >/dev/null; then
  for plan in "$folder"/p?.json; do trained "$plan"; done | sort -n | cmp -s - <(seq 0 799) ||
    fail "not every document is trained once"
fi

# A plan that can't be written leaves the state; the next attempt gives the same plan.
cp "$folder/s-before" "$folder/s"
refuses "can't write" "${one[@]}" --first 800 --count 200 -o "$folder/no/such/plan.json"
cmp -s "$folder/s" "$folder/s-before" || fail "the state moved on without its plan"
works "${one[@]}" --first 800 --count 200 -o "$folder/again.json"
cp "$folder/s-before" "$folder/s"
works "${one[@]}" --first 800 --count 200 -o "$folder/once-more.json"
cmp -s "$folder/again.json" "$folder/once-more.json" || fail "the same state and batch give another plan"
# A caller who numbers iterations can ask again, whether or not the call before has moved the state on.
cp "$folder/s-before" "$folder/s"
works "${one[@]}" --iteration 4 --first 800 --count 200 -o "$folder/numbered.json"
cmp -s "$folder/again.json" "$folder/numbered.json" || fail "a number gives another plan"
cp "$folder/s" "$folder/s-after"
works "${one[@]}" --iteration 4 --first 800 --count 200 -o "$folder/repeated.json"
cmp -s "$folder/again.json" "$folder/repeated.json" || fail "the iteration asked for again is another one"
refuses_numbered() {  # TEXT OPTION...: and the state and the plan are as before
  refuses "$1" "${one[@]}" "${@:2}" -o "$folder/never.json"
  cmp -s "$folder/s" "$folder/s-after" || fail "the state was touched: $*"
}
for number in 3 6 99; do
  refuses_numbered "with the state '$folder/s': iteration is $number; expected 5, the next one, or 4, the last one, again" \
    --iteration $number --first 1000 --count 200
done
refuses_numbered "iteration 4 was packed from other documents; expected the same in the same order, or iteration 5" \
  --iteration 4 --first 1000 --count 200
refuses_numbered "iteration 4 was packed from other documents" --iteration 4 --first 800 --count 199
refuses_numbered "iteration 4 was packed from other documents" --iteration 4 --drain
refuses_numbered "iteration 4 was planned otherwise; expected the options and the version of slimpack" \
  --iteration 4 --first 800 --count 200 --sharding per-sequence
refuses_numbered "--iteration is -1; expected at least 0" --iteration -1 --first 800 --count 200
refuses "--iteration is given without --state; expected both" "$slimpack" plan --lengths "$lengths" --count 9 "${job[@]}" \
  --planner wlb --iteration 0
works "${one[@]}" --iteration 5 --first 1000 --count 200 -o "$folder/next.json"
for try in once twice; do works "${one[@]}" --iteration 6 --count 200 --drain -o "$folder/drained-$try.json"; done
cmp -s "$folder/drained-once.json" "$folder/drained-twice.json" || fail "what waits is planned otherwise when asked for again"
refuses "--iteration is 2, but there is no state '$folder/s-new'; expected 0, or the state" "$slimpack" plan \
  --lengths "$lengths" --count 200 "${job[@]}" --planner wlb --state "$folder/s-new" --iteration 2
for try in once twice; do  # queues that are tuned by the first call are those of the second
  works "$slimpack" plan --lengths "$lengths" --count 200 "${job[@]}" --planner wlb --state "$folder/s-new" --iteration 0 \
    -o "$folder/first-$try.json"
done
cmp -s "$folder/first-once.json" "$folder/first-twice.json" || fail "the first iteration is another one when asked for again"

# A process that was given up wakes when others have gone on. It has read the state once it opens its output; its plan is
# more than a pipe holds, so that it waits there for a reader.
mkfifo "$folder/pipe"
large=("${one[@]}" --iteration 0 --count 2000)
rm "$folder/s"
works "${large[@]}" -o "$folder/large.json"
cp "$folder/s" "$folder/s-large"
late() {  # STATE: planning the first iteration while the state becomes another one
  rm "$folder/s"
  "${large[@]}" -o "$folder/pipe" 2>"$folder/err" &
  local process=$!
  exec 9<"$folder/pipe"
  cp "$1" "$folder/s"
  cat <&9 >"$folder/late.json"
  exec 9<&-
  wait $process
}
late "$folder/s-large" || fail "asked for the same, a second process fails: $(cat "$folder/err")"
late "$folder/s-after"
[[ $? == 2 ]] || fail "a process goes on from a state that has changed"
grep -qF "the state '$folder/s' was changed while an iteration was planned from it" "$folder/err" ||
  fail "a changed state is not named: $(cat "$folder/err")"
cmp -s "$folder/s" "$folder/s-after" || fail "a changed state was overwritten"

# Options that are not given are the state's.
cp "$folder/s-before" "$folder/s"
works "$slimpack" plan --lengths "$lengths" "${job[@]}" --planner wlb --state "$folder/s" --first 800 --count 200 -o "$folder/taken.json"
cmp -s "$folder/again.json" "$folder/taken.json" || fail "the state's own options are not taken"

# Bad input leaves the state alone.
cp "$folder/s-before" "$folder/s"
keeps() {  # TEXT COMMAND...: refuses, and the state is as before
  refuses "$@"
  cmp -s "$folder/s" "$folder/s-before" || fail "the state was touched: $*"
}
next=("${one[@]}" --first 800 --count 200 -o "$folder/never.json")
keeps "--queues is '40000,16000'; expected rising lengths" "$slimpack" plan --lengths "$lengths" "${job[@]}" \
  --planner wlb --queues 40000,16000 --state "$folder/s"
keeps "with the state '$folder/s': the state was saved with threshold 0 16000; expected the stream's 17000" \
  "$slimpack" plan --lengths "$lengths" --count 200 "${job[@]}" --planner wlb --queues 17000,40000 --state "$folder/s"
keeps "the state was saved with max_delay 32" "${next[@]}" --max-delay 5
keeps "the state was saved with micro_batches" "${next[@]}" --micro-batches 16
keeps "the state was saved with another workload function" "${next[@]}" --attention-forward 0.5
keeps "--state is given for planner plain-4d, which remembers nothing" "$slimpack" plan --lengths "$lengths" --count 9 \
  "${job[@]}" --planner plain-4d --state "$folder/s"
keeps "--drain is given without --state" "$slimpack" plan --lengths "$lengths" --count 9 "${job[@]}" --planner wlb --drain
refuses_state() {  # TEXT: with the state file as it stands, which is then still the same
  cp "$folder/s" "$folder/s-bad"
  refuses "$1" "${next[@]}"
  cmp -s "$folder/s" "$folder/s-bad" || fail "a bad state was touched: $1"
}
head -c 100 "$folder/s-before" >"$folder/s"
refuses_state "with the state '$folder/s': the saved state has 100 bytes"
head -c 20 /dev/zero >"$folder/s"
refuses_state "the bytes are no saved state of a stream"
: >"$folder/s"
refuses_state "the state '$folder/s' is empty"
cp "$folder/s-before" "$folder/s"
printf '\377' | dd of="$folder/s" bs=1 seek=200 conv=notrunc 2>/dev/null
refuses_state "the saved state's checksum is wrong"
cp "$lengths" "$folder/s"
refuses_state "the bytes are no saved state of a stream"
rm "$folder/s" && mkdir "$folder/s"
refuses "can't read the state '$folder/s'" "${next[@]}"
rmdir "$folder/s"
[[ ! -e $folder/never.json ]] || fail "a refused plan was written"

refuses "cp is 2; expected at most the 1 tokens" "$slimpack" plan --lengths "$(file one '1\n')" "${job[@]}" --planner wlb
refuses "cp is 2; expected at most the 1 tokens" "$slimpack" plan --lengths "$(file one '1\n')" "${job[@]}" --planner plain-4d
refuses "--queues is 'a,b'" "$slimpack" plan --lengths "$lengths" --count 9 "${job[@]}" --planner wlb --queues a,b
refuses "--queues is '5,'" "$slimpack" plan --lengths "$lengths" --count 9 "${job[@]}" --planner wlb --queues 5,
refuses "threshold 0 is 99999999999 tokens; expected at most" "$slimpack" plan --lengths "$lengths" --count 9 "${job[@]}" \
  --planner wlb --queues 99999999999
refuses "--release is 'never'; expected full or balanced" "$slimpack" plan --lengths "$lengths" "${job[@]}" --release never
refuses "--sharding is 'odd'" "$slimpack" plan --lengths "$lengths" "${job[@]}" --sharding odd
refuses "--window is 0" "$slimpack" plan --lengths "$lengths" "${job[@]}" --window 0
refuses "--max-delay is -1" "$slimpack" plan --lengths "$lengths" "${job[@]}" --max-delay -1
refuses "--micro-batches is 0" "$slimpack" plan --lengths "$lengths" "${job[@]}" --micro-batches 0
refuses "--count and --sequences exclude each other" "$slimpack" plan --lengths "$lengths" "${job[@]}" --count 3 --sequences 3
refuses "--sequences and --split exclude each other" "$slimpack" plan --lengths "$lengths" --context 999 --split --sequences 3
refuses "--iterations is 9000; expected at most" "$slimpack" compare --lengths "$lengths" "${job[@]}" --sequences 3 --iterations 9000
refuses "/long, line 3: document 2 (number 1 of the batch) has 9001 tokens; expected 1 to the 9000 that a micro-batch can hold" \
  "$slimpack" plan --lengths "$(file long '5\n7\n9001\n8\n')" --first 1 "${job[@]}" --planner wlb --max-tokens 9000
refuses "do not fit into" "$slimpack" plan --lengths "$(file long '300000\n300000\n')" --context 4000000 --model llama-70b --tp 8 \
  --pp 4 --cp 2 --planner plain-4d --memory-bytes 4.5e10

[[ $failed == 0 ]] && echo "all checks of the planners of documents passed"
exit $failed
