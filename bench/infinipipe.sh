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

# The paper's models with degrees of sequence parallelism up to 32, which have to divide the heads.
llama_7b=(--model llama-7b)
llama_13b=(--model llama-13b --heads 32 --kv-heads 32 --head-dim 160)
llama_32b=(--model llama-32b --heads 32 --kv-heads 32 --head-dim 208)

steps() { # PLANNERS OPTION...: seconds of each planner's step
  local planners=$1
  shift
  for planner in ${planners//,/ }; do
    "$command" compare --quiet --lengths "$lengths" --truncate "${cluster[@]}" --planner "$planner" "$@" 2>/dev/null |
      awk 'NR > 1 { printf " %s |", $2 }' || printf ' does not fit |'
  done
}

echo "## Figure 8: seconds of a step, 512 samples"
echo
echo "| model | context | ${systems//,/ | } |"
echo "| --- | --- |$(for _ in ${systems//,/ }; do printf ' --- |'; done)"
for model in llama_7b llama_13b llama_32b; do
  declare -n sizes=$model
  for context in 48K 96K 192K; do
    printf '| %s | %s |%s\n' "${model//_/-}" "$context" \
      "$(steps "$systems" "${sizes[@]}" --count 512 --context "$context" --gpus 32)"
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
    "$(steps "$systems" "${llama_13b[@]}" --count "$samples" --context "$context" --gpus 32)"
done

echo
echo "## Figure 11: seconds of a step without parts of infinipipe, llama-13b, context 64K, 4 stages of 8 ranks"
echo
echo "| samples | memory | infinipipe | w/o wbc | w/o ckpt | full ckpt | per stage | one pipeline |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
for memory in 85e9 43e9; do
  for samples in 128 256 512; do
    own=("${llama_13b[@]}" --count "$samples" --context 64K --pp 4 --cp 8 --memory-bytes "$memory")
    line="| $samples | $((${memory%e9})) GB |"
    for options in "" --even-chunks "--recompute none" "--recompute full" "--recompute per-stage" --one-pipeline; do
      read -ra words <<<"$options"
      line+=$(steps infinipipe "${own[@]}" "${words[@]}")
    done
    echo "$line"
  done
done
