#!/usr/bin/env bash
# Prints the table of docs/dynamic-cp.md: seconds of a step of megatron, dynamic-cp, slimpack, and dynamic-cp with nested groups, and
# their gaps. Usage: bench/figures_dynamic_cp.sh COMMAND LENGTHS, such as build/tests/bin/slimpack examples/data/github.train.txt
set -euo pipefail
if (($# != 2)); then
  echo "usage: figures_dynamic_cp.sh COMMAND LENGTHS" >&2
  exit 2
fi
command=$1 lengths=$2

steps() { # SAMPLES CONTEXT OPTION...: a cell for each planner
  local samples=$1 context=$2
  shift 2
  "$command" compare --quiet --lengths "$lengths" --count "$samples" --context "$context" --truncate \
    --model llama-13b --device h100 "$@" | awk 'NR > 1 { printf " %s (%s) |", $2, $(NF - 1) }'
}

echo "| samples | context | layout | megatron | dynamic-cp | slimpack | nested groups |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
for layout in "--dp 16 --pp 8" "--dp 16 --tp 8 --pp 1"; do
  read -ra options <<< "$layout"
  for samples in 512 2048; do
    for context in 64K 128K 256K; do
      printf '| %s | %s | %s |%s%s\n' "$samples" "$context" "${layout//--/}" \
        "$(steps "$samples" "$context" "${options[@]}" --planner megatron,dynamic-cp,slimpack)" \
        "$(steps "$samples" "$context" "${options[@]}" --planner dynamic-cp --nested-groups)"
    done
  done
done
