#!/usr/bin/env bash
# Installs what is missing on Debian 12, builds the slimpack command and runs the main job: plans 2048 real
# samples with Megatron-LM's packing and with SlimPack, and draws both on one time axis.
# Usage: run.sh [OPTION...]   further options of `slimpack compare`, for example: run.sh --iterations 4
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/install.sh g++ cmake ninja-build 'ccache?' libeigen3-dev libboost-dev libboost-program-options-dev \
  nlohmann-json3-dev

cmake --preset command
cmake --build --preset command

build/bin/slimpack compare --lengths examples/data/github.train.txt --count 2048 --truncate \
  --context 262144 --model llama-13b --device h100 --dp 16 --pp 8 \
  --planner megatron,slimpack --html compare.html "$@"

echo
echo "Both timelines, the memory of each stage and the packs: open compare.html in a browser."
echo "The command itself: build/bin/slimpack --help"
echo "What \`slimpack train\` and \`slimpack profile\` run: cmake --build --preset train"
