#!/usr/bin/env bash
# Prints the tables of docs/hydraulis.md after Hydraulis' Figures 10 to 13 and Tables 1 and 2, and those of what slices add: seconds of a
# step on the paper's cluster of A800, each system with its best layout or strategy, and what bench_hydraulis prints.
# Usage: bench/hydraulis.sh COMMAND BENCH LENGTHS [BATCHES]   COMMAND: the built slimpack, BENCH: bench_hydraulis, LENGTHS: a file,
#   BATCHES: of each setting that COMMAND plans, 4 by default
set -euo pipefail
if (($# < 3 || $# > 4)); then
  echo "usage: hydraulis.sh COMMAND BENCH LENGTHS [BATCHES]" >&2
  exit 2
fi
command=$1 bench=$2 lengths=$3 batches=${4:-4}
systems=megatron,deepspeed,dynapipe,bytescale,hotspa,slimpack,hydraulis,hydraulis-slices
# The authors' code (PKU-DAIR/Hetu) has 64 heads, which tensor parallelism of 8 divides.
llama_7b=(--model llama-7b)
llama_13b=(--model llama-13b)
llama_32b=(--model llama-32b --heads 64 --kv-heads 64 --head-dim 104)

samples() { # CONTEXT TOKENS: whose mean is so many tokens
  awk -v context="$1" -v tokens="$2" '{ sum += $1 < context ? $1 : context }
    END { count = int(tokens * NR / sum + 0.5); print (count > 0 ? count : 1) }' "$lengths"
}
steps() { # SYSTEMS OPTION...: mean seconds of each system's step
  local system
  for system in ${1//,/ }; do
    "$command" compare --quiet --lengths "$lengths" --truncate --device a800 --planner "$system" "${@:2}" 2>/dev/null |
      awk 'NR == 2 { printf " %s |", $2 }' || printf ' does not fit |'
  done
}
heading() { # COLUMN...
  printf '| %s ' "$@" && echo '|'
  printf '| --- %.0s' "$@" && echo '|'
}
each_batch() { # SYSTEM COUNT OPTION...: the same with a layout for each batch
  local i
  for ((i = 0; i < batches; ++i)); do
    steps "$1" --first $((i * $2)) --count "$2" "${@:3}"
    echo
  done | awk '{ sum += $1 } END { printf " %.3f |", sum / NR }'
}
rows() { # SYSTEMS: a row for each line "MODEL GPUS CONTEXT TOKENS" that it reads
  local model gpus context tokens count
  while read -r model gpus context tokens; do
    declare -n sizes=$model
    count=$(samples "$context" "$tokens")
    printf '| %s | %s | %sK | %s |' "${model//_/-}" "$gpus" $((context / 1024)) "$count"
    on=("${sizes[@]}" --gpus "$gpus" --context "$context")
    each_batch megatron "$count" "${on[@]}"
    steps "$1" "${on[@]}" --count "$count" --iterations "$batches"
    echo
  done
}

echo "## Figure 10: seconds of a step, each system at its best"
echo
heading model GPUs context samples "megatron, a layout for each batch" ${systems//,/ }
for cluster in "llama_7b 8" "llama_7b 16" "llama_13b 16" "llama_13b 32" "llama_32b 32" "llama_32b 64"; do
  printf '%s\n' "$cluster 16384 100000" "$cluster 32768 100000" "$cluster 32768 200000"
done | rows "$systems"

echo
echo "## Figure 11: seconds of a step, each system at its best"
echo
heading model GPUs context samples "megatron, a layout for each batch" ${systems//,/ }
rows "$systems" <<'SETTINGS'
llama_7b 16 32768 200000
llama_7b 32 32768 200000
llama_7b 64 32768 200000
llama_7b 16 65536 200000
llama_7b 16 131072 200000
llama_7b 16 32768 100000
llama_7b 16 32768 400000
llama_7b 16 32768 800000
SETTINGS

echo
echo "## Groups of ranks for each sample: seconds of a step, context 32K"
echo
heading model GPUs samples megatron dynamic-cp bytescale hydraulis
for setting in "llama_7b 8 200000" "llama_13b 32 100000" "llama_32b 32 200000" "llama_32b 64 200000"; do
  read -r model gpus tokens <<<"$setting"
  declare -n sizes=$model
  count=$(samples 32768 "$tokens")
  printf '| %s | %s | %s |' "${model//_/-}" "$gpus" "$count"
  steps megatron,dynamic-cp,bytescale,hydraulis "${sizes[@]}" --gpus "$gpus" --context 32K --count "$count" --iterations "$batches"
  echo
done

echo
echo "## Slices on unequal pipelines: seconds of a step"
echo
heading model GPUs memory context samples slimpack hydraulis hydraulis-slices "over the better"
while read -r model gpus memory context count; do
  declare -n sizes=$model
  found=$(steps slimpack,hydraulis,hydraulis-slices "${sizes[@]}" --gpus "$gpus" --memory-bytes "$memory" --context "$context" \
    --count "$count" --iterations "$batches")
  printf '| %s | %s | %s GB | %sK | %s |%s %s |\n' "${model//_/-}" "$gpus" "${memory%e9}" $((context / 1024)) "$count" "$found" \
    "$(awk '{ best = $1 < $3 ? $1 : $3; print (best + 0 > 0 && $5 + 0 > 0 ? sprintf("%.2f %%", 100 * (best / $5 - 1)) : "-") }' <<<"$found")"
done <<'SETTINGS'
llama_7b 8 85.2e9 32768 64
llama_7b 8 40e9 65536 256
llama_7b 16 40e9 131072 64
llama_7b 24 85.2e9 65536 128
llama_13b 16 85.2e9 65536 128
llama_13b 16 50e9 131072 64
llama_13b 24 85.2e9 131072 256
llama_13b 32 50e9 65536 256
llama_32b 48 85.2e9 65536 128
SETTINGS

for section in "figure10 8" "figure11 4" "reasons 8" "figure12 16" "figure13 16" "table1 8" "table2 10"; do
  read -r name count <<<"$section"
  echo
  "$bench" "$name" "$lengths" "$count"
done
