#!/usr/bin/env bash
# Prints the table of docs/hydraulis.md: steps of systems on the paper's cluster of A800, each with its best layout or strategy.
# Usage: bench/hydraulis.sh COMMAND LENGTHS
set -euo pipefail
if (($# != 2)); then
  echo "usage: hydraulis.sh COMMAND LENGTHS" >&2
  exit 2
fi
command=$1 lengths=$2
planners=(megatron deepspeed dynapipe bytescale hotspa slimpack hydraulis hydraulis-slices)

step() { # PLANNER OPTION...
  local planner=$1
  shift
  "$command" compare --quiet --lengths "$lengths" --truncate --device a800 --planner "$planner" "$@" 2>/dev/null |
    awk 'NR > 1 { printf " %s |", $2 }' || printf ' does not fit |'
}

printf '| model | GPUs | samples | context |'
printf ' %s |' "${planners[@]}"
printf '\n| --- | --- | --- | --- |'
printf ' --- |%.0s' "${planners[@]}"
printf '\n'
for job in "llama-7b 16" "llama-13b 32" "llama-32b 64"; do
  read -r model gpus <<<"$job"
  for samples in 64 256; do
    for context in 16K 32K; do
      printf '| %s | %s | %s | %s |' "$model" "$gpus" "$samples" "$context"
      for planner in "${planners[@]}"; do
        step "$planner" --model "$model" --gpus "$gpus" --count "$samples" --context "$context"
      done
      printf '\n'
    done
  done
done
