#!/usr/bin/env bash
# WLB-LLM's Figures 12 to 15 by `slimpack compare`, as Markdown tables. wlb-paper is the paper's own way: two tuned queues, the
# better sharding of each micro-batch, micro-batches in the order of their packing.
# Usage: figures_wlb.sh COMMAND LENGTHS [ITERATIONS]   COMMAND: the built slimpack, LENGTHS: a file
set -euo pipefail
command=$1 lengths=$2 iterations=${3:-128}

source "$(dirname "$0")/wlb_rows.sh"

speedups() { # a job's options: plain's step, then speed-ups and delays
  local plain fixed paper ours balanced
  plain=($(row --planner plain-4d "$@")) fixed=($(row --planner fixed-4d "$@"))
  paper=($(row --planner wlb --sharding adaptive --given-order "$@")) ours=($(row --planner wlb "$@"))
  balanced=($(row --planner wlb --release balanced "$@"))
  printf '%.3f | %s | %s (%.2f) | %s (%.2f) | %s (%.2f) |\n' "${plain[2]}" "$(over "${fixed[0]}" "${plain[0]}")" \
    "$(over "${paper[0]}" "${plain[0]}")" "${paper[1]}" "$(over "${ours[0]}" "${plain[0]}")" "${ours[1]}" \
    "$(over "${balanced[0]}" "${plain[0]}")" "${balanced[1]}"
}

echo "Figure 12"
echo
echo "| model | context | tp, cp, pp, dp | plain-4d s | fixed-4d | wlb-paper (delay) | wlb (delay) | wlb, balanced (delay) |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
while read -r model context tp cp pp dp; do
  echo -n "| $model | $((context / 1024))K | $tp, $cp, $pp, $dp | "
  speedups $(job "$model" "$context" "$tp" "$cp" "$pp" "$dp")
done <<'TABLE'
wlb-550m 65536 2 2 4 2
wlb-550m 131072 2 4 4 1
llama-7b 65536 4 2 4 1
llama-7b 131072 8 2 4 1
wlb-30b 65536 8 2 4 1
wlb-30b 131072 8 4 4 1
wlb-70b 65536 16 4 4 1
wlb-70b 131072 16 4 4 1
TABLE

echo
echo "Figure 13: llama-7b, 128K"
echo
echo "| step | over plain-4d |"
echo "| --- | --- |"
seven=$(job llama-7b 131072 8 2 4 1)
plain=($(row --planner plain-4d $seven))
step() { # name option...
  local name=$1 this
  shift
  this=($(row "$@" $seven))
  echo "| $name | $(over "${this[0]}" "${plain[0]}") |"
}
step "per-document sharding" --planner plain-4d --sharding per-document
step "adaptive sharding" --planner plain-4d --sharding adaptive
step "mixed sharding" --planner plain-4d --sharding mixed
step "variable length and delay" --planner wlb --sharding per-sequence --given-order
step "all of these, adaptive" --planner wlb --sharding adaptive --given-order
step "all of these, mixed" --planner wlb --given-order
step "and the fastest order" --planner wlb
step "and balanced release" --planner wlb --release balanced

echo
echo "Figure 14: llama-7b, tp 8, cp 2, pp 4"
echo
echo "| context | plain-4d s | fixed-4d | wlb-paper (delay) | wlb (delay) | wlb, balanced (delay) |"
echo "| --- | --- | --- | --- | --- | --- |"
for context in 32768 65536 98304 131072 163840; do
  echo -n "| $((context / 1024))K | "
  speedups $(job llama-7b "$context" 8 2 4 1)
done

echo
echo "More micro-batches: llama-7b, tp 8, cp 2, pp 4, 128K"
echo
echo "| micro-batches | wlb (delay) | wlb, balanced (delay) |"
echo "| --- | --- | --- |"
more=($(job llama-7b 131072 8 2 4 1))
base=($(row --planner plain-4d "${more[@]}"))
for count in 4 6 8 12; do
  ours=($(row --planner wlb --micro-batches "$count" "${more[@]}"))
  balanced=($(row --planner wlb --release balanced --micro-batches "$count" "${more[@]}"))
  printf '| %s | %s (%.2f) | %s (%.2f) |\n' "$count" "$(over "${ours[0]}" "${base[0]}")" "${ours[1]}" \
    "$(over "${balanced[0]}" "${base[0]}")" "${balanced[1]}"
done

echo
echo "Figure 15: one layer of llama-7b, tp 2, cp 4, with its communication, no output head"
echo
echo "| sharding | 64K | 128K |"
echo "| --- | --- | --- |"
layer() { # context sharding: seconds without synchronisation
  "$command" plan --quiet --lengths "$lengths" --truncate --first "$3" --sequences 1 --device h100 --planner plain-4d \
    --exchange all_gather --model llama-7b --layers 1 --vocab 8 --context "$1" --tp 2 --cp 4 --sharding "$2" |
    grep -o '"pipeline_seconds":[0-9.e+-]*' | cut -d: -f2
}
layers() { # context sharding: of sequences from several places of the file
  for i in $(seq 0 63); do layer "$1" "$2" $((i * 300)); done | awk '{ s += $1 } END { print s }'
}
base64k=$(layers 65536 per-sequence) base128k=$(layers 131072 per-sequence)
for sharding in per-document adaptive mixed; do
  echo "| $sharding | $(over "$base64k" "$(layers 65536 $sharding)") | $(over "$base128k" "$(layers 131072 $sharding)") |"
done
