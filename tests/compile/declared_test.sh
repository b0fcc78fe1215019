#!/usr/bin/env bash
# Fails when a file that includes planners' headers, and links the compiled planners, reads what these were compiled from.
# Usage: declared_test.sh COMPILER SOURCE_DIRECTORY
set -euo pipefail

compiler=$1 root=$2
source='#include "slimpack/planners/bytescale.hpp"
#include "slimpack/planners/chunk_pipelines.hpp"
#include "slimpack/planners/deepspeed.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/dynapipe.hpp"
#include "slimpack/planners/flexsp.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"'

# Prints which headers of the search a file reads.
read_headers() {  # [COMPILER_OPTION...]
  "$compiler" -std=c++20 "$@" -I"$root/include" -MM -x c++ - <<<"$source" | grep -oE 'slimpack/[a-z_0-9/]+\.hpp' |
    grep -E '/(planners/[a-z_]+_search|slicing/.*|schedule/schedule|partition/distribute)\.hpp$'
}

if [[ -z $(read_headers || true) ]]; then
  echo "the headers alone do not read the search; expected that they define the planners" >&2
  exit 1
fi
if searched=$(read_headers -DSLIMPACK_COMPILED_PLANNERS); then
  printf 'with the compiled planners, these are compiled again for each file:\n%s\n' "$searched" >&2
  exit 1
fi
