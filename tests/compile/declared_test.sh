#!/usr/bin/env bash
# Fails when a file that includes planners' headers, and links the compiled planners, reads what these were compiled from.
# Usage: declared_test.sh COMPILER SOURCE_DIRECTORY
set -euo pipefail

compiler=$1 root=$2
planners=(bytescale chunk_pipelines deepspeed dynamic_cp dynapipe flexsp hotspa hydraulis megatron slimpack)

# Prints which of some headers a file reads that includes planners' headers.
read_headers() {  # PATTERN PLANNERS [COMPILER_OPTION...]
  local pattern=$1 includes
  includes=$(printf '#include "slimpack/planners/%s.hpp"\n' $2)
  "$compiler" -std=c++20 "${@:3}" -I"$root/include" -MM -x c++ - <<<"$includes" |
    grep -oE 'slimpack/[a-z_0-9/]+\.hpp' | grep -E "/($pattern)\.hpp$"
}

check() {  # PATTERN PLANNER...
  local pattern=$1 searched
  shift
  if [[ -z $(read_headers "$pattern" "$*" || true) ]]; then
    echo "the headers alone do not read the search; expected that they define the planners" >&2
    exit 1
  fi
  if searched=$(read_headers "$pattern" "$*" -DSLIMPACK_COMPILED_PLANNERS); then
    printf 'with the compiled planners, these are compiled again for each file:\n%s\n' "$searched" >&2
    exit 1
  fi
}

check 'planners/[a-z_]+_search|slicing/.*|schedule/schedule|partition/distribute' "${planners[@]}"
