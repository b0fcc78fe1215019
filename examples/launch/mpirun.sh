#!/usr/bin/env bash
# Trains with two pipelines of two stages, one process per stage, started by mpirun.
# Usage: mpirun.sh LENGTHS [OPTION OF slimpack train]...
#   HOSTS=node1:2,node2:2 examples/launch/mpirun.sh lengths.txt --steps 100
#   GPU=1 examples/launch/mpirun.sh lengths.txt --steps 100
set -euo pipefail
slimpack=${SLIMPACK:-slimpack}
gpu=()  # with GPU=1 each process takes a GPU of its machine, whose attention knows heads of 64 and 128
if [[ ${GPU:-0} == 1 ]]; then gpu=(--device cuda --head-dim 64); fi
lengths=$1
shift
exec mpirun -n 4 ${HOSTS:+--host "$HOSTS"} \
  "$slimpack" train --lengths "$lengths" --count 32 --context 4096 --truncate --dp 2 --pp 2 "${gpu[@]}" "$@"
