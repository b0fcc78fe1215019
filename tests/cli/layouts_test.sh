#!/usr/bin/env bash
# Chooses layouts and planners as a user would: --gpus, --layouts and the planner auto. Usage: layouts_test.sh BINARY LENGTHS
set -uo pipefail
slimpack=$1 lengths=$2
source "$(dirname "$0")/checks.sh"

batch=(--lengths "$lengths" --first 4096 --count 48 --context 32768 --truncate --model llama-7b --device h100 --quiet)
json() { python3 -c "import json, sys; d = json.load(open(sys.argv[1])); r = d['rows']; print($1)" "${2:-$folder/out}"; }
is_true() { [[ $(json "$1") == True ]] || fail "not $1: ${*:2}"; }
no_times() { grep -v planning_seconds "$1"; }

# Every planner on its own best layout: that of a sweep over all layouts that its table has, those it left out among them.
swept() {  # ROW PLANNER OPTION...: a row of the last comparison against the planner's figures on each of the row's layouts
  local row=$1 planner=$2 best
  shift 2
  json "'\n'.join(' '.join(str(x[k]) for k in ('dp', 'tp', 'cp', 'pp')) for x in r[$row]['layouts'])" >"$folder/layouts"
  best=$(while read -r dp tp cp pp; do
    "$slimpack" compare "${batch[@]}" "$@" --dp "$dp" --tp "$tp" --cp "$cp" --pp "$pp" --planner "$planner" --json 2>/dev/null |
      grep -oE '"tokens_per_second_per_gpu": [0-9.e+-]+' | grep -oE '[0-9.e+-]+$'
  done <"$folder/layouts" | sort -g | tail -1)
  is_true "r[$row]['planner'] == '$planner' and r[$row]['tokens_per_second_per_gpu'] == $best" "$planner: a sweep's best"
}
works "$slimpack" compare "${batch[@]}" --gpus 16 --planner megatron,slimpack --layouts --json
cp "$folder/out" "$folder/chosen.json"
is_true "all(x['fate'] != 'refused' or x['reason'] for q in r for x in q['layouts'])"
is_true "all(x['dp'] * x['tp'] * x['cp'] * x['pp'] == 16 for q in r for x in q['layouts'])"
is_true "len({(x['dp'], x['tp'], x['cp'], x['pp']) for x in r[0]['layouts']}) == len(r[0]['layouts']) == len(r[1]['layouts'])"
is_true "any(x['fate'] == 'pruned' for x in r[1]['layouts'])"
swept 0 megatron
swept 1 slimpack
two=(--iterations 2 --queues none)
works "$slimpack" compare "${batch[@]}" "${two[@]}" --gpus 8 --planner plain-4d,fixed-4d,wlb,slimpack --layouts --json
swept 0 plain-4d "${two[@]}"
swept 1 fixed-4d "${two[@]}"
swept 2 wlb "${two[@]}"
swept 3 slimpack "${two[@]}"

# Planners that have sequence parallelism alone plan on layouts without tensor parallelism and stages; flexsp on one.
works "$slimpack" compare "${batch[@]}" --gpus 16 --planner deepspeed,flexsp --layouts --json
is_true "all(x['tp'] == x['pp'] == 1 for q in r for x in q['layouts']) and len(r[0]['layouts']) == 5 and len(r[1]['layouts']) == 1"
is_true "r[1]['tokens_per_second_per_gpu'] >= r[0]['tokens_per_second_per_gpu'] * (1 - 1e-9)" "flexsp is slower than deepspeed"
swept 0 deepspeed
swept 1 flexsp
refuses "planner flexsp plans on none of the layouts, such as" "$slimpack" plan "${batch[@]}" --gpus 8 --pp 2 --planner flexsp

# On any number of threads, the same bytes.
for threads in 2 8; do
  works "$slimpack" compare "${batch[@]}" --gpus 16 --planner megatron,slimpack --layouts --json --threads $threads
  cmp -s <(no_times "$folder/out") <(no_times "$folder/chosen.json") || fail "$threads threads change the figures"
done

# Sizes that are given are kept; uneven stages are layouts as well.
works "$slimpack" compare "${batch[@]}" --gpus 16 --tp 4 --pp 2 --planner slimpack --layouts --json
is_true "all(x['tp'] == 4 and x['pp'] == 2 for x in r[0]['layouts'])"
works "$slimpack" compare "${batch[@]}" --gpus 12 --pp 12 --planner slimpack --json
is_true "r[0]['layout']['pp'] == 12" "32 layers on 12 stages"

# Over several batches one layout counts, the best of all together.
works "$slimpack" compare "${batch[@]}" --gpus 8 --planner slimpack --iterations 3 --layouts --json
cp "$folder/out" "$folder/three.json"
is_true "r[0]['iterations'] == 3"
read -r dp tp cp pp < <(json "' '.join(str(r[0]['layouts'][0][k]) for k in ('dp', 'tp', 'cp', 'pp'))")
works "$slimpack" compare "${batch[@]}" --dp "$dp" --tp "$tp" --cp "$cp" --pp "$pp" --planner slimpack --iterations 3 --json
[[ $(json "r[0]['step_seconds']") == $(json "r[0]['step_seconds']" "$folder/three.json") ]] || fail "not the same three batches"

# Techniques: from whole samples to the planner itself, then all but one.
four=(--dp 2 --tp 2 --pp 4)
same() {  # ROW OPTION...: a row of the last comparison has the figures that `compare` prints for a planner by itself
  local row=$1 step
  shift
  step=$("$slimpack" compare "${batch[@]}" "$@" --json | grep -oE '"step_seconds": [0-9.e+-]+' | grep -oE '[0-9.e+-]+$')
  is_true "r[$row]['step_seconds'] == $step" "$*"
}
works "$slimpack" compare "${batch[@]}" "${four[@]}" --ablation --json
is_true "[x['planner'] for x in r][:1] == ['whole samples: megatron']"
is_true "[x['planner'].split()[0] for x in r[2:8]] == ['+'] * 6 and all(x['planner'].startswith('all but ') for x in r[8:])"
cp "$folder/out" "$folder/techniques.json"
same 0 "${four[@]}" --planner megatron
same 1 "${four[@]}" --planner slimpack --packs 8 --symmetric --no-merge --no-filling --no-injection
same 4 "${four[@]}" --planner slimpack --no-merge --no-injection
same 7 "${four[@]}" --planner slimpack
same 10 "${four[@]}" --planner slimpack --symmetric
works "$slimpack" compare "${batch[@]}" "${four[@]}" --ablation --packs 8 --json
is_true "not any('number of packs' in x['planner'] for x in r)" "the number of packs is given"
works "$slimpack" compare "${batch[@]}" --dp 1 --tp 2 --cp 2 --pp 2 --ablation --planner wlb --json
same 0 --dp 1 --tp 2 --cp 2 --pp 2 --planner plain-4d
same 1 --dp 1 --tp 2 --cp 2 --pp 2 --planner wlb --queues none --sharding per-sequence --given-order
same 5 --dp 1 --tp 2 --cp 2 --pp 2 --planner wlb
works "$slimpack" compare "${batch[@]}" "${four[@]}" --ablation --memory-bytes 20e9
grep -qE '^[a-z+].*: .*memory' "$folder/out" || fail "no reason of a technique without a plan: $(cat "$folder/out")"
works "$slimpack" compare "${batch[@]}" "${four[@]}" --ablation --memory-bytes 20e9 --json
is_true "len(r) + len(d['without']) == 13 and 'memory' in d['without'][0]" "reasons in JSON"
refuses "--ablation is given for the planner megatron; expected slimpack or wlb" \
  "$slimpack" compare "${batch[@]}" "${four[@]}" --ablation --planner megatron

# The text has the layouts of the rows, and the tables.
works "$slimpack" compare "${batch[@]}" --gpus 8 --planner megatron,slimpack --layouts
grep -qE '^planner .* layout$' "$folder/out" || fail "no column of layouts"
[[ $(grep -cE '^ +dp +tp +cp +pp +step s +peak GB +gap$' "$folder/out") == 2 ]] || fail "not two tables of layouts"
works "$slimpack" compare "${batch[@]}" --dp 2 --tp 4 --planner slimpack
! grep -q layout "$folder/out" || fail "layouts where none was chosen"

# plan writes the plan of the best layout; compare's page shows memory on it.
works "$slimpack" plan "${batch[@]}" --gpus 8 -o "$folder/plan.json"
works "$slimpack" check "$folder/plan.json"
works "$slimpack" compare "${batch[@]}" --gpus 8 --planner megatron,auto --html "$folder/page.html"
grep -q '</html>' "$folder/page.html" || fail "no page"

works "$slimpack" compare --lengths "$lengths" --count 200 --context 32768 --truncate --model llama-7b --device a800 --gpus 16 \
  --planner hotspa,hydraulis --html "$folder/page.html"
grep -q '</html>' "$folder/page.html" || fail "no page of phases and unequal pipelines"

# If the optimiser's states stay with a layout, other strategies pay for what moves.
strategies=("${batch[@]}" --dp 8 --tp 2 --planner hotspa,hydraulis --json)  # neither chooses that layout for itself
works "$slimpack" compare "${strategies[@]}"
cp "$folder/out" "$folder/free.json"
works "$slimpack" compare "${strategies[@]}" --keep-optimiser
for row in 0 1; do
  [[ $(python3 -c "import json, sys
free, kept = (json.load(open(f))['rows'][$row]['tokens_per_second_per_gpu'] for f in sys.argv[1:])
print(kept < free)" "$folder/free.json" "$folder/out") == True ]] || fail "row $row pays nothing for optimiser states that stay"
done
refuses "--keep-optimiser and --gpus exclude each other" "$slimpack" plan "${batch[@]}" --gpus 16 --planner hydraulis --keep-optimiser

# auto is the best of all, and says why.
works "$slimpack" compare "${batch[@]}" --dp 8 --json --planner megatron,deepspeed,flexsp,auto
is_true "r[-1]['tokens_per_second_per_gpu'] >= max(q['tokens_per_second_per_gpu'] for q in r)"
planners=(megatron dynapipe bytescale slimpack plain-4d fixed-4d wlb)
works "$slimpack" compare "${batch[@]}" --tp 4 --pp 2 --dp 2 --iterations 2 --json --planner "$(IFS=,; echo "${planners[*]}")",auto
is_true "r[-1]['planner'] == 'auto' and r[-1]['chosen'] in [q['planner'] for q in r]"
is_true "r[-1]['tokens_per_second_per_gpu'] == max(q['tokens_per_second_per_gpu'] for q in r)"
works "$slimpack" plan "${batch[@]}" --gpus 8 --planner auto -o "$folder/auto.json"
works "$slimpack" check "$folder/auto.json"
grep -qE 'note: auto chose [a-z0-9-]+ \(dp [0-9]+, tp [0-9]+, cp [0-9]+, pp [0-9]+\): the next best, .*(longer|as long) per trained token' "$folder/out" ||
  fail "no note why auto chose"
works "$slimpack" compare "${batch[@]}" --gpus 4 --planner auto
grep -qE '^auto: [a-z]' "$folder/out" || fail "auto does not say what it chose"

refuses "--layouts is given without --gpus; expected both" "$slimpack" compare "${batch[@]}" --layouts
refuses "the number of devices is 0" "$slimpack" plan "${batch[@]}" --gpus 0
refuses "8 devices have no layout with dp 3" "$slimpack" plan "${batch[@]}" --gpus 8 --dp 3
refuses "layouts can be planned" "$slimpack" plan "${batch[@]}" --gpus 2 --memory-bytes 2e10
refuses "line 2: sample 1 has 900000000 tokens; memory holds at most" "$slimpack" plan \
  --lengths "$(file huge '5\n900000000\n')" --context 1000000000 --gpus 16 --quiet
for planner in hotspa hydraulis hydraulis-slices; do
  refuses "huge, line 2: a sample of 900000000 tokens fits no" "$slimpack" plan --lengths "$(file huge '5\n900000000\n')" \
    --context 1000000000 --gpus 16 --planner $planner --quiet
  ! grep -q 'layout' "$folder/err" || fail "$planner refuses a layout, and chooses none"
done
refuses "(tp 8, cp 2, pp 1) comes closest with 418580, and lacks 128685 GB on a device for it" "$slimpack" plan --lengths "$(file huge '5\n900000000\n')" \
  --context 1000000000 --gpus 16 --planner hydraulis --quiet
refuses "--gpus is given with --state" "$slimpack" plan "${batch[@]}" --gpus 8 --planner wlb --state "$folder/state"
refuses "no planner has a plan: megatron: " "$slimpack" plan --lengths "$(file huge '5\n900000000\n')" --context 1000000000 \
  --dp 2 --planner auto --quiet

[[ $failed == 0 ]] && echo "all checks of layouts passed"
exit $failed
