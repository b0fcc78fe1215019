#!/usr/bin/env bash
# Compares how long slimpack plans with how long an earlier version planned: compiles both with the headers alone at -O2, and prints
# milliseconds for contexts of 64K, 128K and 256K, each the mean of four batches of real lengths.
# Usage: tests/campaign/older/times.sh COMMIT [SAMPLES]   COMMIT: such as d921a79; SAMPLES: of a batch, 2048
set -euo pipefail
cd "$(dirname "$0")/../../.."
commit=${1:?expected a commit} samples=${2:-2048}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
git archive "$commit" include | tar -x -C "$directory"
for include in "$directory/include" include; do
  "${CXX:-c++}" -std=c++20 -O2 -I"$include" tests/campaign/older/plan_times.cpp -o "$directory/plan_times"
  name=$commit
  if [[ $include == include ]]; then name=default; fi
  "$directory/plan_times" "$name" "$samples" < examples/data/github.train.txt
done
