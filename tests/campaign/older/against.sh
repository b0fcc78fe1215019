#!/usr/bin/env bash
# Compares slimpack's plans of random settings with those of an earlier version, at this version's prices and memory: builds the
# earlier planner, lets it write its plans, and prints how long steps are in relation to those.
# Usage: tests/campaign/older/against.sh COMMIT [SETTINGS [SEED [CAMPAIGN]]]
#   COMMIT: such as d921a79; SETTINGS: 1000; SEED: 2026; CAMPAIGN: the program of this version, in build/tests
set -euo pipefail
cd "$(dirname "$0")/../../.."
commit=${1:?expected a commit} settings=${2:-1000} seed=${3:-2026}
campaign=${4:-build/tests/tests/campaign/campaign}
if [[ ! -x $campaign ]]; then
  echo "against.sh: there is no program $campaign; expected cmake --build --preset tests --target campaign first" >&2
  exit 2
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir "$directory/plans"
git archive "$commit" include | tar -x -C "$directory"
"${CXX:-c++}" -std=c++20 -O2 "-DSLIMPACK_SOURCE_DIR=\"$PWD\"" -I"$directory/include" -I. \
  tests/campaign/older/write_plans.cpp tests/campaign/settings.cpp -o "$directory/write_plans"
"$directory/write_plans" "$directory/plans" "$seed" "$settings"
"$campaign" --seed "$seed" --settings "$settings" --patience 30 --against "$directory/plans"
