#!/usr/bin/env bash
# The settings of SlimPack's Figure 13: four models, three contexts. Every planner runs each layout of the model's GPUs
# that keeps tensor parallelism within a node; its best one counts. Prints a Markdown table.
# Usage: figure13.sh COMMAND LENGTHS [SAMPLES [ITERATIONS]]   COMMAND: the built slimpack, LENGTHS: a file
set -euo pipefail
command=$1 lengths=$2 samples=${3:-512} iterations=${4:-4}

# Least step time of a planner over all layouts, and the layout.
best() { # planner model gpus context
  local planner=$1 model=$2 gpus=$3 context=$4 least=inf layout=none
  for tp in 1 2 4 8; do
    for pp in 4 8 16; do
      local dp=$((gpus / tp / pp))
      ((dp >= 1)) || continue
      local rows
      rows=$("$command" compare --lengths "$lengths" --count "$samples" --iterations "$iterations" --context "$context" \
        --truncate --model "$model" --device h100 --dp "$dp" --tp "$tp" --pp "$pp" --planner "$planner" --json 2>/dev/null) || continue
      local seconds
      seconds=$(grep -o '"step_seconds": [0-9.e+-]*' <<<"$rows" | cut -d' ' -f2)
      if awk -v a="$seconds" -v b="$least" 'BEGIN { exit !(b == "inf" || a < b) }'; then
        least=$seconds layout="dp $dp tp $tp pp $pp"
      fi
    done
  done
  echo "$least;$layout"
}

echo "| model | GPUs | context | megatron s (layout) | slimpack s (layout) | speed-up |"
echo "| --- | --- | --- | --- | --- | --- |"
for setting in "llama-7b 128" "llama-13b 128" "llama-70b 256" "llama-150b 256"; do
  read -r model gpus <<<"$setting"
  for context in 65536 131072 262144; do
    IFS=';' read -r baseline baseline_layout <<<"$(best megatron "$model" "$gpus" "$context")"
    IFS=';' read -r ours our_layout <<<"$(best slimpack "$model" "$gpus" "$context")"
    awk -v m="$model" -v g="$gpus" -v c="$context" -v b="$baseline" -v bl="$baseline_layout" -v o="$ours" -v ol="$our_layout" 'BEGIN {
      printf "| %s | %d | %dK | %.2f (%s) | %.2f (%s) | %.2fx |\n", m, g, c / 1024, b, bl, o, ol, b / o }'
  done
done
