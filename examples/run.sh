#!/usr/bin/env bash
# Installs what is missing on Debian 12, builds the slimpack command and runs the main job: plans 2048 real
# samples with Megatron-LM's packing, with Megatron Core's Dynamic Context Parallelism and with SlimPack, on the best
# layout of each and on the same one, and draws the latter on one time axis.
# Usage: run.sh [OPTION...]   further options of `slimpack compare`, for example: run.sh --iterations 4
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/install.sh g++ cmake ninja-build 'ccache?' libeigen3-dev libboost-dev libboost-program-options-dev \
  nlohmann-json3-dev

cmake --preset command
cmake --build --preset command

batch=(--lengths examples/data/github.train.txt --count 2048 --truncate --context 256K --model llama-13b --device h100
  --planner megatron,dynamic-cp,slimpack --threads "$(nproc)")

echo "Each planner on the layout of 128 GPUs that is best for it:"
build/bin/slimpack compare "${batch[@]}" --gpus 128 "$@"
echo
echo "All on 16 pipelines of 8 stages:"
build/bin/slimpack compare "${batch[@]}" --dp 16 --pp 8 --html compare.html "$@"

echo
echo "Timelines, the memory of each stage and the packs: open compare.html in a browser."
echo "The command itself: build/bin/slimpack --help"
echo "What \`slimpack train\` and \`slimpack profile\` run: cmake --build --preset train"
