#!/usr/bin/env bash
# What each technique of slimpack and of wlb gives, as Markdown tables: techniques are added one after another, then each is
# left out alone. Rows are `slimpack compare --ablation`.
# Usage: ablation.sh COMMAND LENGTHS [ITERATIONS]   COMMAND: the built slimpack, LENGTHS: a file, ITERATIONS: of wlb
set -euo pipefail
command=$1 lengths=$2 iterations=${3:-64}

# One table: a column for each context, a cell "step s (peak GB)", or tokens per second over the first row's.
table() { # TITLE FIGURE OPTION...   FIGURE: step or speedup
  local title=$1 figure=$2 context
  shift 2
  echo
  echo "### $title"
  echo
  for context in 64K 128K 256K; do
    "$command" compare --ablation --quiet --json --lengths "$lengths" --truncate --context "$context" --threads "$(nproc)" "$@"
  done | python3 -c '
import json, sys
text, decoder, columns, at = sys.stdin.read(), json.JSONDecoder(), [], 0
while at < len(text.rstrip()):
    document, at = decoder.raw_decode(text, at)
    columns.append({row["planner"]: row for row in document["rows"]})
    at += len(text[at:]) - len(text[at:].lstrip())
def layout(row):
    return " ".join(f"{name} {size}" for name, size in row["layout"].items() if name != "cp" or size > 1)
def cell(row):
    if row is None:
        return "no plan"
    if sys.argv[1] == "speedup":
        return "{:.3f}x ({:.2f})".format(row["speedup"], row["token_delay"])
    return "{:.3f} ({:.0f})".format(row["step_seconds"], row["peak_bytes"] / 1e9)
names = list(dict.fromkeys(name for column in columns for name in column))
order = max(columns, key=len)
names.sort(key=lambda name: list(order).index(name) if name in order else len(order))
print("| | 64K | 128K | 256K |\n| --- | --- | --- | --- |")
for name in names:
    print("| " + " | ".join([name] + [cell(column.get(name)) for column in columns]) + " |")
if sys.argv[2] == "layouts":
    for end in names:
        if end == "whole samples: megatron" or " = " in end:
            print("| layout of: " + end.lstrip("+ ") + " | " + " | ".join(layout(c[end]) if end in c else "" for c in columns) + " |")
' "$figure" "$([[ " $* " == *" --gpus "* ]] && echo layouts || echo fixed)"
}

best="--device h100 --count 512"
table "Llama 13B, 128 GPUs, 512 samples, each row on its own best layout: step s (peak GB)" step $best --model llama-13b --gpus 128
table "Llama 70B, 256 GPUs, 512 samples, each row on its own best layout: step s (peak GB)" step $best --model llama-70b --gpus 256
stages="--device h100 --count 2048 --model llama-70b --dp 4 --tp 8 --pp 8"
table "Llama 70B, 2048 samples, dp 4, tp 8, pp 8: step s (peak GB)" step $stages
table "The same with unlimited memory" step $stages --memory-bytes 1e15
table "The same with unlimited memory, 32 packs on each pipeline" step $stages --memory-bytes 1e15 --packs 32

documents="--device h100 --planner wlb --exchange all_gather"
table "wlb, Llama 7B, tp 8, cp 2, pp 4: tokens per second over the first row's (delay of a token)" speedup $documents \
  --iterations "$iterations" --model llama-7b --tp 8 --cp 2 --pp 4 --sequences 4
table "wlb, Llama 7B, 64 GPUs, 16 batches of 256 documents, each row on its own best layout" speedup $documents --model llama-7b \
  --gpus 64 --count 256 --iterations 16
