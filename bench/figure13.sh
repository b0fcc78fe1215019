#!/usr/bin/env bash
# The settings of SlimPack's Figure 13: four models, three contexts, every planner on its own best layout. Prints a Markdown
# table, and the mean and the least speed-up over the better baseline and over megatron.
# Usage: figure13.sh COMMAND LENGTHS [SAMPLES [ITERATIONS [OPTION...]]]   COMMAND: the built slimpack, LENGTHS: a file,
#   OPTION: of `slimpack compare`, such as --tp-overlap 0; CONTEXT in it stands for the setting's context
set -euo pipefail
command=$1 lengths=$2 samples=${3:-512} iterations=${4:-4}
shift $(($# < 4 ? $# : 4))

row() { # MODEL GPUS CONTEXT: reads what compare has printed; the table's row, and a line for the last one
  python3 -c '
import json, sys
model, gpus, context = sys.argv[1:]
def cell(row):
    layout = " ".join(f"{name} {size}" for name, size in row["layout"].items() if name != "cp" or size > 1)
    return "{:.2f} ({})".format(row["step_seconds"], layout)
rows = json.load(sys.stdin)["rows"]
best = min(row["step_seconds"] for row in rows[:-1])
cells = [model, gpus, f"{int(context) // 1024}K", *map(cell, rows), "{:.2f}x".format(best / rows[-1]["step_seconds"])]
print("| " + " | ".join(cells) + " |")
print("speed-ups", best / rows[-1]["step_seconds"], rows[0]["step_seconds"] / rows[-1]["step_seconds"])' "$@"
}

echo "| model | GPUs | context | megatron s (layout) | dynamic-cp s (layout) | slimpack s (layout) | speed-up |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
for setting in "llama-7b 128" "llama-13b 128" "llama-70b 256" "llama-150b 256"; do
  read -r model gpus <<<"$setting"
  for context in 65536 131072 262144; do
    "$command" compare --quiet --lengths "$lengths" --count "$samples" --iterations "$iterations" --context "$context" --truncate \
      --model "$model" --device h100 --gpus "$gpus" --threads "$(nproc)" --planner megatron,dynamic-cp,slimpack --json \
      "${@//CONTEXT/$context}" | row "$model" "$gpus" "$context"
  done
done |
  awk '$1 != "speed-ups" { print; next }
    { ++rows
      for (i = 2; i <= 3; ++i) { sum[i] += log($i); if (rows == 1 || $i < least[i]) least[i] = $i } }
    END { printf "\nSpeed-ups, geometric mean and least: over the better baseline %.2fx %.2fx, over megatron %.2fx %.2fx.\n",
      exp(sum[2] / rows), least[2], exp(sum[3] / rows), least[3] }'
