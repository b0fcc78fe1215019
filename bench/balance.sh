#!/usr/bin/env bash
# How equal packs and replicas of SlimPack's plans are: Llama 13B on 128 H100. Prints the Markdown table of docs/slimpack.md.
# Usage: balance.sh COMMAND LENGTHS   COMMAND: the built slimpack, LENGTHS: a file
set -euo pipefail
command=$1 lengths=$2

figure() { # its name, in the row that compare printed last; fails if there is none
  grep -o "\"$1\": [0-9.e+-]*" <<<"$row" | cut -d' ' -f2
}

echo "| samples | context | packs, tile 1 | packs, tile 128 | replicas | busiest stages |"
echo "| --- | --- | --- | --- | --- | --- |"
for samples in 512 2048; do
  for context in 65536 131072 262144; do
    line="| $samples | $((context / 1024))K |"
    for tile in 1 128; do
      row=$("$command" compare --quiet --lengths "$lengths" --count "$samples" --context "$context" --truncate \
        --model llama-13b --device h100 --dp 16 --pp 8 --tile "$tile" --planner slimpack --json)
      forward=$(figure max_over_mean_forward)
      backward=$(figure max_over_mean_backward)
      line+=$(printf ' %.3f, %.3f |' "$forward" "$backward")
    done
    replicas=$(figure replica_imbalance)
    busiest=$(figure busiest_stage_imbalance)
    printf '%s %.3f | %.3f |\n' "$line" "$replicas" "$busiest"
  done
done
