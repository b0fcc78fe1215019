#!/usr/bin/env bash
# Prints the table of docs/infinipipe.md on what recomputation by pack and stage brings, and offloading as a third choice, over memory
# sizes: Llama 13B on 32 A800 with 4 stages. Usage: bench/checkpointing.sh COMMAND LENGTHS
set -euo pipefail
if (($# != 2)); then
  echo "usage: checkpointing.sh COMMAND LENGTHS" >&2
  exit 2
fi
command=$1 lengths=$2

step() { # PLANNER OPTION...
  local planner=$1
  shift
  "$command" compare --quiet --lengths "$lengths" --count 512 --truncate --model llama-13b --device a800 --pp 4 \
    --planner "$planner" "$@" 2>/dev/null | awk 'NR > 1 { printf " %s |", $2 }' || printf ' does not fit |'
}

echo "| context | layout | memory | megatron | by pack | offload | slimpack per stage | by pack | offload |" \
  "infinipipe per stage | by pack | offload |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for context in 64K 128K; do
  for layout in "--cp 8" "--dp 2 --cp 4" "--dp 4 --tp 2"; do
    for memory in 85 70 60 50 45 40; do
      read -ra options <<<"--context $context $layout --memory-bytes ${memory}e9"
      printf '| %s | %s | %s GB |%s%s%s%s%s%s%s%s%s\n' "$context" "${layout//--/}" "$memory" \
        "$(step megatron "${options[@]}")" "$(step megatron --adaptive-recompute "${options[@]}")" \
        "$(step megatron --adaptive-recompute --adaptive-offload "${options[@]}")" \
        "$(step slimpack --recompute per-stage "${options[@]}")" "$(step slimpack "${options[@]}")" \
        "$(step slimpack --adaptive-offload "${options[@]}")" \
        "$(step infinipipe --recompute per-stage "${options[@]}")" "$(step infinipipe "${options[@]}")" \
        "$(step infinipipe --adaptive-offload "${options[@]}")"
    done
  done
done
