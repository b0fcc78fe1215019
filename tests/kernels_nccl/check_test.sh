#!/usr/bin/env bash
# Runs the program that checks NCCL where it can't see a GPU, as two ranks, and as the machine is, as one.
# Usage: check_test.sh PROGRAM
set -euo pipefail

fail() {
  echo "check_test: $*" >&2
  exit 1
}

messages=$(mktemp -d)
trap 'rm -rf "$messages"' EXIT
export MASTER_ADDR=localhost MASTER_PORT=$((20000 + RANDOM % 10000)) WORLD_SIZE=2
ranks=()
for rank in 0 1; do
  CUDA_VISIBLE_DEVICES='' RANK=$rank LOCAL_RANK=$rank "$1" >"$messages/out$rank" 2>"$messages/err$rank" &
  ranks+=($!)
done
for rank in 0 1; do
  status=0
  wait "${ranks[rank]}" || status=$?
  [[ $status == 2 ]] || fail "without a GPU rank $rank exits with $status instead of 2"
  [[ ! -s $messages/out$rank ]] || fail "without a GPU rank $rank prints: $(<"$messages/out$rank")"
  grep -q "^rank $rank: .*expected" "$messages/err$rank" || fail "without a GPU rank $rank says: $(<"$messages/err$rank")"
done

status=0
env -u WORLD_SIZE "$1" || status=$?
[[ $status == 0 || $status == 2 ]] || fail "it exits with $status"
