#!/usr/bin/env bash
# How much the speed-ups of SlimPack's Figure 13 depend on what is assumed, as Markdown tables: one assumption is changed at a
# time. Then the paper's comparison, with megatron alone: for each number of stages, and with a baseline that may choose less.
# Layouts have tp 8, because trying these alone takes a fraction of the time.
# Usage: assumptions.sh COMMAND LENGTHS [SAMPLES [ITERATIONS]]   COMMAND: the built slimpack, LENGTHS: a file
set -euo pipefail
command=$1 lengths=$2 samples=${3:-512} iterations=${4:-4}
here=$(dirname "$0")

lifted() { # NAME SAMPLES OPTION...: a row
  local name=$1 count=$2
  shift 2
  "$here/figure13.sh" "$command" "$lengths" "$count" "$iterations" --tp 8 "$@" |
    awk -v name="$name" '/^Speed-ups/ { gsub(/[,.]( |$)/, " "); print "| " name " | " $11 ", " $10 " | " $15 ", " $14 " |" }'
}

echo "| lifted | over the better baseline: least, mean | over \`megatron\`: least, mean |"
echo "| --- | --- | --- |"
lifted "nothing" "$samples"
lifted "tensor parallelism's communication hidden: 0" "$samples" --tp-overlap 0
lifted "0.5" "$samples" --tp-overlap 0.5
lifted "0.9" "$samples" --tp-overlap 0.9
lifted "keys exchanged by a ring alone, hidden" "$samples" --exchange ring
lifted "by a ring alone, half of it hidden" "$samples" --exchange ring --ring-overlap 0.5
lifted "by a ring alone, not hidden" "$samples" --exchange ring --ring-overlap 0
lifted "ring or all-to-all, the ring not hidden" "$samples" --ring-overlap 0
lifted "by all-to-all alone" "$samples" --exchange all_to_all
lifted "by all-gather alone" "$samples" --exchange all_gather
lifted "attention's rates x 0.75" "$samples" --attention-forward 0.45 --attention-backward 0.39
lifted "attention's rates x 1.25" "$samples" --attention-forward 0.75 --attention-backward 0.65
lifted "the paper's links, NVLink's 400 GB/s for both directions" "$samples" --nvlink-bandwidth 160e9
lifted "the paper's links at their full rates in each direction" "$samples" --nvlink-bandwidth 400e9 --network-bandwidth 50e9
lifted "slices pay nothing for their prefix" "$samples" --free-prefix
lifted "packs have no constant overhead" "$samples" --pack-overhead 0
lifted "\`megatron\` fills packs up to the context" "$samples" --pack-tokens CONTEXT
iterations=1 lifted "the same samples in one batch" $((samples * iterations))

seconds() { # MODEL GPUS CONTEXT OPTION...: of a step, or - if memory does not suffice
  local found
  if found=$("$command" compare --quiet --lengths "$lengths" --count "$samples" --iterations "$iterations" --truncate \
    --device h100 --threads "$(nproc)" --json --model "$1" --gpus "$2" --context "$3" --tp 8 "${@:4}" 2>&1); then
    awk -F': *|,' '/"step_seconds"/ { print $2 }' <<<"$found"
  else
    grep -qE 'fit into|before any token' <<<"$found" || { echo "$found" >&2 && return 1; }
    echo -
  fi
}
least_cp() { # MODEL GPUS CONTEXT PP OPTION...: with the least context parallelism that memory allows, as the paper says
  local found=- cp
  for ((cp = 1; cp * 8 * $4 <= $2 && ${#found} == 1; cp *= 2)); do
    found=$(seconds "$1" "$2" "$3" --pp "$4" --cp "$cp" --given-cp --planner megatron "${@:5}")
  done
  echo "$found"
}

echo
echo "Seconds of slimpack's step with tp 8 and a given number of stages, and its speed-up over megatron on as many stages:"
echo
for model in llama-7b llama-13b llama-70b llama-150b; do
  gpus=$([[ $model == llama-7b || $model == llama-13b ]] && echo 128 || echo 256)
  for context in 65536 131072 262144; do
    for pp in 1 2 4 8 16; do
      on=("$model" "$gpus" "$context" --pp "$pp")
      steps=("$(seconds "${on[@]}" --planner slimpack)" "$(seconds "${on[@]}" --planner megatron)")
      if [[ $model == llama-150b || $model == llama-13b && $context == 262144 ]]; then # the paper's text has figures
        fill=(--pack-tokens "$context")
        steps+=("$(seconds "${on[@]}" --planner megatron "${fill[@]}")" "$(least_cp "$model" $gpus $context $pp)"
          "$(least_cp "$model" $gpus $context $pp "${fill[@]}")")
      fi
      echo "$model $((context / 1024))K $pp ${steps[*]}"
    done
  done
done | python3 -c '
import sys
inf = float("inf")
stages = [1, 2, 4, 8, 16]
runs = {}  # of a setting, of a number of stages: seconds of slimpack and of each baseline
for line in sys.stdin:
    model, context, pp, *seconds = line.split()
    runs.setdefault((model, context), {})[int(pp)] = [inf if s == "-" else float(s) for s in seconds]

print("| model | context |", " | ".join(f"pp {pp}" for pp in stages), "|")
print("| --- | --- |" + " --- |" * len(stages))
for setting, run in runs.items():
    cells = [f"{ours:.2f} ({theirs / ours:.2f}x)" if ours < inf else "-" for ours, theirs, *_ in map(run.get, stages)]
    print("|", " | ".join([*setting, *cells]), "|")

runs = {setting: run for setting, run in runs.items() if len(run[1]) > 2}
free, filled, least, both = 1, 2, 3, 4
def row(name, ratio):
    cells = [ratio(run) for run in runs.values()]
    print("|", " | ".join([name, *(f"{c:.2f}x" if 0 < c < inf else "-" for c in cells)]), "|")
def best(run, which, stages=stages):
    return min(run[pp][which] for pp in stages)
def own(which, stages=stages):  # each on its best number of stages
    return lambda run: best(run, which, stages) / best(run, 0)
def same(which, pp):
    return lambda run: run[pp][which] / run[pp][0] if run[pp][0] < inf else inf
print("\nSpeed-up over megatron, which may choose less and less:\n")
print("| megatron |", " | ".join(" ".join(setting) for setting in runs), "|")
print("| --- |" + " --- |" * len(runs))
print("| **the paper** | 2.8x | 1.15x | 1.54x | 1.68x |")
row("chooses stages, packs and cp, as here", own(free))
row("packs filled up to the context", own(filled))
row("the least cp that fits", own(least))
row("at least 2 stages", own(free, stages[1:]))
row("at least 4 stages", own(free, stages[2:]))
for pp in stages[1:4]:
    row(f"{pp} stages, slimpack as well", same(free, pp))
    row(f"{pp} stages, slimpack as well; packs filled up to the context", same(filled, pp))
    row(f"{pp} stages, slimpack as well; packs filled, the least cp that fits", same(both, pp))
'
