#!/usr/bin/env bash
# Compiles each source in refused/, which has to fail, with the text that its first line gives.
# Usage: refused_test.sh COMPILER SOURCE_DIRECTORY
set -euo pipefail

compiler=$1 root=$2
failures=0
for source in "$root"/tests/contract/refused/*.cpp; do
  expected=$(sed -n '1s|^// refused: ||p' "$source")
  if [[ -z $expected ]]; then
    echo "$source: its first line has no text to expect" >&2
    failures=$((failures + 1))
  elif output=$("$compiler" -std=c++20 -fsyntax-only -I"$root/include" "$source" 2>&1); then
    echo "$source: it compiles; expected: $expected" >&2
    failures=$((failures + 1))
  elif [[ $output != *"$expected"* ]]; then
    printf '%s: it fails otherwise; expected: %s\n%s\n' "$source" "$expected" "$output" >&2
    failures=$((failures + 1))
  fi
done
((failures == 0))
