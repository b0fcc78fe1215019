#!/usr/bin/env bash
# Runs a program that uses a GPU where it can't see one, and as the machine is.
# Usage: device_test.sh PROGRAM
set -euo pipefail

fail() {
  echo "device_test: $*" >&2
  exit 1
}

# Whether for want of a driver or of a GPU: a message, nothing else, and exit code 2.
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
status=0
out=$(CUDA_VISIBLE_DEVICES='' "$1" 2>"$messages") || status=$?
err=$(<"$messages")
[[ $status == 2 ]] || fail "without a GPU it exits with $status instead of 2"
[[ -z $out ]] || fail "without a GPU it prints: $out"
[[ $err == "$(basename "$1"): "*expected* ]] || fail "without a GPU it says: $err"

status=0
"$1" || status=$?
[[ $status == 0 || $status == 2 ]] || fail "it exits with $status"
