#!/usr/bin/env bash
# How much the speed-ups of WLB-LLM's Figures 12 and 13 over plain-4d depend on what is assumed: one assumption is changed at a
# time. A Markdown table for each job.
# Usage: assumptions_wlb.sh COMMAND LENGTHS [ITERATIONS]   COMMAND: the built slimpack, LENGTHS: a file
set -euo pipefail
command=$1 lengths=$2 iterations=${3:-128}
source "$(dirname "$0")/wlb_rows.sh"

lifted() { # NAME OPTION...: a row, of the job that `on` describes
  local name=$1 plain other cells=""
  shift
  plain=($(row --planner plain-4d "${on[@]}" "$@"))
  for planner in "plain-4d --sharding per-document" "plain-4d --sharding adaptive" "wlb --sharding per-sequence --given-order" \
    "wlb --sharding adaptive --given-order" "fixed-4d" "fixed-4d --sharding per-sequence"; do
    other=($(row --planner $planner "${on[@]}" "$@"))
    cells+=" | $(over "${other[0]}" "${plain[0]}")"
  done
  printf '| %s | %.3f%s |\n' "$name" "${plain[2]}" "$cells"
}

while read -r -a named; do
  on=($(job "${named[@]}"))
  echo
  echo "${named[0]}, $((named[1] / 1024))K; tp ${named[2]}, cp ${named[3]}, pp ${named[4]}"
  echo
  echo "| lifted | plain-4d s | per-document sharding | adaptive sharding | variable length and delay | all of these | fixed-4d | fixed-4d, sharded per sequence |"
  echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
  lifted "nothing"
  lifted "tensor parallelism's communication hidden: 0" --tp-overlap 0
  lifted "0.5" --tp-overlap 0.5
  lifted "0.9" --tp-overlap 0.9
  lifted "all of it" --tp-overlap 1
  lifted "NVLink at twice the rate" --nvlink-bandwidth 720e9
  lifted "the network at twice the rate" --network-bandwidth 90e9
  lifted "the network at half the rate" --network-bandwidth 22.5e9
  lifted "nodes of 16, as if two nodes were one" --devices-per-node 16
  exchange=ring lifted "keys exchanged by a ring that attention hides"
  lifted "attention's rates x 0.75" --attention-forward 0.45 --attention-backward 0.39
  lifted "attention's rates x 0.5" --attention-forward 0.3 --attention-backward 0.26
  lifted "attention's rates x 1.25" --attention-forward 0.75 --attention-backward 0.65
  lifted "micro-batches have no constant overhead" --pack-overhead 0
  lifted "slices pay nothing for their prefix" --free-prefix
  lifted "no synchronisation shown" --sync-overlap 1
  on[-1]=$((2 * on[-1])) # sequences
  lifted "global batches twice as large, in twice as many micro-batches"
done <<'TABLE'
llama-7b 131072 8 2 4 1
llama-7b 65536 4 2 4 1
wlb-550m 65536 2 2 4 2
wlb-70b 131072 16 4 4 1
TABLE
