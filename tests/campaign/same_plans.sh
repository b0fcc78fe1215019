#!/usr/bin/env bash
# Builds the campaign with GCC and Clang at -O0 and -O3, lets each build write the plans of random settings with 1 and with 16
# threads, and fails if any file differs.
# Usage: tests/campaign/same_plans.sh [SETTINGS [SEED [DIRECTORY]]]
#   SETTINGS: 200; DIRECTORY: where builds and plans go, and stay; a temporary one, removed at the end, if it is not given
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
settings=${1:-200} seed=${2:-1}
if [[ $# -ge 3 ]]; then
  mkdir -p "$3"
  directory=$(cd "$3" && pwd)
else
  directory=$(mktemp -d)
  trap 'rm -rf "$directory"' EXIT
fi

launcher=()
if command -v ccache > /dev/null; then launcher=(ccache); fi

build() { # COMPILER LEVEL OUTPUT
  local source objects=()
  for source in "$root"/tests/campaign/*.cpp "$root"/kernels/planners/*.cpp; do
    objects+=("$3.$(basename "$source").o")
    printf '%s\0' "$source" "${objects[-1]}"
  done |
    xargs -0 -n 2 -P "$(nproc)" bash -c '"${@:1:$#-2}" -c "${@: -2:1}" -o "${@: -1}"' build "${launcher[@]}" "$1" -std=c++20 \
      "$2" -DSLIMPACK_CAMPAIGN_JSON -DSLIMPACK_COMPILED_PLANNERS "-DSLIMPACK_SOURCE_DIR=\"$root\"" -I"$root/include" -I"$root"
  "$1" "$3".*.o -pthread -o "$3"
}

first=
for compiler in g++ clang++; do
  if ! command -v "$compiler" > /dev/null; then
    echo "same_plans.sh: there is no $compiler; expected g++ and clang++" >&2
    exit 2
  fi
  for level in -O0 -O3; do
    program=$directory/campaign$level-$compiler
    build "$compiler" "$level" "$program"
    for threads in 1 16; do
      plans=$directory/plans$level-$compiler-$threads
      rm -rf "$plans"
      "$program" --settings "$settings" --seed "$seed" --threads "$threads" --patience 1e9 --write "$plans" > /dev/null
      first=${first:-$plans}
      if ! diff -rq "$first" "$plans"; then
        echo "same_plans.sh: $compiler $level with $threads threads makes other plans (seed $seed)" >&2
        exit 1
      fi
    done
  done
done
echo "seed $seed: the same $(find "$first" -type f | wc -l) plans of $settings settings, byte for byte, from GCC and Clang," \
  "-O0 and -O3, 1 and 16 threads"
