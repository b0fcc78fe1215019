#!/usr/bin/env bash
# Checks sources, and the headers that they use, by .clang-tidy with clang-tidy 14, Debian 12's.
# Usage: tidy.sh BUILD_FOLDER [REGEX]   of a configured build; of the sources' paths, by default the examples and
# the compiled planners: templates are checked where they are used, and these use all planners, the executor and the
# transports.
set -euo pipefail
build=$1 sources=${2-/(examples|kernels/planners)/.*cpp$}
cd "$(dirname "$0")/.."

if ! command -v run-clang-tidy-14 >/dev/null; then
  echo "tidy: clang-tidy 14 is not installed, not checked" >&2
  [[ -n ${CI-} ]] && exit 1
  exit 0
fi
.ci/tidy_sources.py "$build" "$PWD$sources" "$build/tidy"
if ! said=$(run-clang-tidy-14 -quiet -p "$build/tidy" 2>&1); then
  grep -v -e 'warnings generated' -e '^clang-tidy' <<<"$said" | .ci/tidy_sources.py "$build/tidy" >&2
  exit 1
fi
