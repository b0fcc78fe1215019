#!/usr/bin/env bash
# SlimPack's Figures 14 to 16: durations of whole-sample packs and of slices. Llama 7B on 128 H100, both planners on one layout;
# the first 512 samples of the file. Writes docs/pack-durations-NAME.svg, or to DIRECTORY.
# Usage: violins.sh COMMAND NAME LENGTHS [DIRECTORY]   COMMAND: the built slimpack, LENGTHS: a file
set -euo pipefail
command=$1 name=$2 lengths=$3 directory=${4:-$(dirname "$0")/../docs}

"$command" compare --quiet --lengths "$lengths" --count 512 --context 128K --truncate --model llama-7b --device h100 \
  --dp 8 --tp 4 --pp 4 --planner megatron,slimpack --svg "$directory/pack-durations-$name.svg"
