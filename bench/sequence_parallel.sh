#!/usr/bin/env bash
# Prints the tables of docs/sequence-parallel.md. Usage: bench/sequence_parallel.sh COMMAND LENGTHS, such as
# build/tests/bin/slimpack examples/data/github.train.txt
set -euo pipefail
shopt -s inherit_errexit
if (($# != 2)); then
  echo "usage: sequence_parallel.sh COMMAND LENGTHS" >&2
  exit 2
fi
command=$1 lengths=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# A GPT of 13B whose heads 16 and 32 ranks can divide, on 400 Gb/s for each node of 8, 0.9 of which is achieved.
model=(--model llama-13b --heads 32 --kv-heads 32 --head-dim 160 --device a800 --quiet)
links=(--network-bandwidth 5.625e9)

passes() { # DEGREE TOKENS OPTION...: seconds of both passes, of which nothing is recomputed
  local degree=$1 tokens=$2
  shift 2
  echo "$tokens" >"$folder/one"
  "$command" plan "${model[@]}" --lengths "$folder/one" --context "$tokens" --dp 1 --cp "$degree" --planner deepspeed \
    --memory-bytes 1e13 --zero-overlap 1 -o "$folder/plan.json" "$@" >/dev/null
  python3 -c "
import json, sys
plan = json.load(open(sys.argv[1]))
print(*(plan[p][0]['seconds'][0] for p in ('forward', 'backward')))" "$folder/plan.json"
}

echo "| degree | context | paper: step s, all-to-all | ours: step s, all-to-all | all-to-all s: paper, ours | the rest s: paper, ours | ours, forward without a mask |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
while read -r degree context paper share; do
  tokens=$((context * 1024))
  shown=$(passes "$degree" "$tokens" "${links[@]}")
  hidden=$(passes "$degree" "$tokens" --network-bandwidth 9e29 --nvlink-bandwidth 9e29)
  python3 - "$degree" "$context" "$paper" "$share" $shown $hidden <<'END'
import sys
degree, context = map(int, sys.argv[1:3])
paper, share, forward, backward, forward_alone, backward_alone = map(float, sys.argv[3:])
step, rest = forward + backward, forward_alone + backward_alone
# A mask leaves out half of the attention: 2 FLOPs for each of hidden * tokens^2 pairs and layer, at 0.6 of 312 TFLOP/s.
mask = 2 * 40 * 5120 * (context * 1024) ** 2 / (0.6 * 312e12) / degree
print(f"| {degree} | {context}K | {paper:.3f}, {share:.1f} % | {step:.3f}, {100 * (1 - rest / step):.1f} % | {paper * share / 100:.3f}, "
      f"{step - rest:.3f} | {paper * (1 - share / 100):.3f}, {rest:.3f} | {forward_alone + mask:.3f} |")
END
done <<'END'
8 32 1.128 7.4
8 48 2.101 5.9
8 72 4.202 4.5
8 108 8.793 3.2
8 162 18.922 2.2
16 32 1.188 47.5
16 48 1.936 43.7
16 72 3.378 37.6
16 108 6.262 30.4
16 162 12.207 23.4
32 32 0.854 51.5
32 48 1.307 50.5
32 72 2.147 46.1
32 108 3.766 39.4
32 162 7.005 31.8
END

echo
echo "| context | ZeRO-3 hidden | deepspeed s (cp) | flexsp s | speed-up | megatron s | infinipipe s | slimpack s |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
compare() { # CONTEXT PLANNERS OPTION...: lines of planner, step and layout
  "$command" compare "${model[@]}" "${links[@]}" --lengths "$lengths" --count 512 --context "$1" --truncate --gpus 32 --planner "$2" --json "${@:3}" |
    python3 -c "
import json, sys
for r in json.load(sys.stdin)['rows']: print(f\"{r['step_seconds']:.2f}\", r['layout']['cp'])"
}
for context in 48K 96K 192K; do
  others=$(compare "$context" megatron,infinipipe,slimpack | awk '{ printf " %s |", $1 }')
  for overlap in 0 0.5 1; do
    compare "$context" deepspeed,flexsp --zero-overlap "$overlap" |
      awk -v context="$context" -v overlap="$overlap" -v others="$others" 'NR == 1 { own = $1; cp = $2 }
        NR == 2 { printf "| %s | %s | %s (%s) | %s | %.2fx |%s\n", context, overlap, own, cp, $1, own / $1, others }'
  done
done
