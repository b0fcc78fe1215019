#!/usr/bin/env bash
# How equal packs and replicas of SlimPack's plans are: Llama 13B on 128 H100. Prints the Markdown table of docs/slimpack.md.
# Usage: balance.sh COMMAND LENGTHS   COMMAND: the built slimpack, LENGTHS: a file
set -euo pipefail
command=$1 lengths=$2

figure() { # name, of the rows that compare printed last
  grep -o "\"$1\": [0-9.e+-]*" <<<"$rows" | cut -d' ' -f2 | grep . || echo "no $1" >&2
}

echo "| samples | context | packs, tile 1 | packs, tile 128 | replicas | busiest stages |"
echo "| --- | --- | --- | --- | --- | --- |"
for samples in 512 2048; do
  for context in 65536 131072 262144; do
    line="| $samples | $((context / 1024))K |"
    for tile in 1 128; do
      rows=$("$command" compare --quiet --lengths "$lengths" --count "$samples" --context "$context" --truncate \
        --model llama-13b --device h100 --dp 16 --pp 8 --tile "$tile" --planner slimpack --json)
      line+=$(printf ' %.3f, %.3f |' "$(figure max_over_mean_forward)" "$(figure max_over_mean_backward)")
    done
    printf '%s %.3f | %.3f |\n' "$line" "$(figure replica_imbalance)" "$(figure busiest_stage_imbalance)"
  done
done
