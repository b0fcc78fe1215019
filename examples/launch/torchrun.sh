#!/usr/bin/env bash
# Trains with two pipelines of two stages, as torchrun starts processes: each finds its rank in RANK, WORLD_SIZE,
# LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Where there is no torchrun, this script starts them itself, on this machine.
# Usage: torchrun.sh LENGTHS [OPTION OF slimpack train]...
#   On two machines, the same on both, with NODE 0 on the first and 1 on the second:
#   NODES=2 NODE=0 MASTER_ADDR=node1 examples/launch/torchrun.sh lengths.txt --steps 100
#   GPU=1 examples/launch/torchrun.sh lengths.txt --steps 100
set -euo pipefail
slimpack=${SLIMPACK:-slimpack}
gpu=()  # with GPU=1 each process takes a GPU of its machine, whose attention knows heads of 64 and 128
if [[ ${GPU:-0} == 1 ]]; then gpu=(--device cuda --head-dim 64); fi
lengths=$1
shift
nodes=${NODES:-1} node=${NODE:-0}
here=$((4 / nodes))  # processes of this machine
export MASTER_ADDR=${MASTER_ADDR:-localhost} MASTER_PORT=${MASTER_PORT:-29500}
train=("$slimpack" train --lengths "$lengths" --count 32 --context 4096 --truncate --dp 2 --pp 2 "${gpu[@]}" "$@")

if command -v torchrun >/dev/null; then
  exec torchrun --no-python --nnodes "$nodes" --node-rank "$node" --nproc-per-node "$here" \
    --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" "${train[@]}"
fi

processes=()
for ((local = 0; local < here; ++local)); do
  RANK=$((node * here + local)) WORLD_SIZE=4 LOCAL_RANK=$local "${train[@]}" &
  processes+=($!)
done
status=0
for process in "${processes[@]}"; do
  wait "$process" || status=$?
done
exit "$status"
