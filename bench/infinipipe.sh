#!/usr/bin/env bash
# Prints the tables of docs/infinipipe.md after InfiniPipe's Figures 8, 10 and 11: its cluster of 4 nodes with 8 A800, its batches of 512
# samples, each system on its own best layout. Usage: bench/infinipipe.sh COMMAND LENGTHS
set -euo pipefail
if (($# != 2)); then
  echo "usage: infinipipe.sh COMMAND LENGTHS" >&2
  exit 2
fi
command=$1 lengths=$2
# 400 Gb/s of InfiniBand for each node, of which messages achieve 0.9 (section 5.1).
cluster=(--device a800 --network-bandwidth 5.625e9)
systems=megatron,deepspeed,flexsp,seq1f1b,terapipe,chunkflow,infinipipe,slimpack

steps() { # PLANNERS OPTION...: seconds of each planner's step
  local planners=$1
  shift
  "$command" compare --quiet --lengths "$lengths" --truncate "${cluster[@]}" --planner "$planners" "$@" |
    awk 'NR > 1 && NF > 3 { printf " %s |", $2 }'
}

echo "## Figure 8: seconds of a step, 512 samples"
echo
echo "| model | context | ${systems//,/ | } |"
echo "| --- | --- |$(for _ in ${systems//,/ }; do printf ' --- |'; done)"
for model in llama-7b llama-13b llama-32b; do
  for context in 48K 96K 192K; do
    printf '| %s | %s |%s\n' "$model" "$context" \
      "$(steps "$systems" --model "$model" --count 512 --context "$context" --gpus 32)"
  done
done

echo
echo "## Figure 10: seconds of a step, llama-13b"
echo
echo "| samples | context | ${systems//,/ | } |"
echo "| --- | --- |$(for _ in ${systems//,/ }; do printf ' --- |'; done)"
for setting in "512 64K" "512 128K" "512 192K" "128 64K" "256 64K"; do
  read -r samples context <<<"$setting"
  printf '| %s | %s |%s\n' "$samples" "$context" \
    "$(steps "$systems" --model llama-13b --count "$samples" --context "$context" --gpus 32)"
done

echo
echo "## Figure 11: seconds of a step without parts of infinipipe, llama-13b, context 64K, 4 stages of 8 ranks"
echo
echo "| samples | memory | infinipipe | w/o wbc | w/o ckpt | full ckpt | per stage | one pipeline |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
for memory in 85e9 55e9 43e9; do
  for samples in 128 256 512; do
    own=(--model llama-13b --count "$samples" --context 64K --pp 4 --cp 8 --memory-bytes "$memory")
    line="| $samples | $((${memory%e9})) GB |"
    for options in "" --even-chunks "--recompute none" "--recompute full" "--recompute per-stage" --one-pipeline; do
      read -ra words <<<"$options"
      cell=$(steps infinipipe "${own[@]}" "${words[@]}" 2>/dev/null) || cell=" does not fit |"
      line+=$cell
    done
    echo "$line"
  done
done
