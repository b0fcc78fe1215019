#!/usr/bin/env bash
# Runs ranks under mpirun and checks how the run ends: with which status, and that each rank left says
# why. A run that hangs is a failure after a minute.
# Usage: run.sh MPIRUN BINARY CASE RANKS [SEED] [shared|messages]
set -euo pipefail

mpirun=$1 binary=$2 name=$3 ranks=$4 seed=${5-1} way=${6-shared}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS+:$ASAN_OPTIONS}  # OpenMPI has many

arguments=("$name" "$seed" "$way")
if [[ $name == training ]]; then arguments=(); fi

status=0
output=$(timeout --kill-after=10 60 "$mpirun" -n "$ranks" "$binary" "${arguments[@]}" 2>&1) || status=$?

fail() {
  printf '%s\n' "$name on $ranks ranks, seed $seed, $way: $*" "$output" >&2
  exit 1
}

expect_status() {
  [[ $status == "$1" ]] || fail "mpirun ended with $status; expected $1"
}

# Each of the given ranks says something that matches the pattern.
expect_of() {
  local pattern=$1 rank
  shift
  for rank in "$@"; do
    grep -qE "^rank $rank: $pattern" <<<"$output" || fail "rank $rank does not say: $pattern"
  done
}

mapfile -t all < <(seq 0 $((ranks - 1)))
mapfile -t others < <(seq 0 $((ranks - 1)) | grep -vx 1)
waited='rank [0-9] \(F[0-9]\) has waited [0-9.]+ s for rank [0-9] to send message 7'

case $name/$way in
  training/*)
    expect_status 0
    ;;
  contract/* | refusals/*)
    expect_status 0
    [[ -z $output ]] || fail "said something"
    ;;
  killed/shared)
    expect_status 137  # what mpirun makes of a rank that was killed
    expect_of "rank 1 \(F1\) is gone, its process has ended: $waited" "${others[@]}"
    ;;
  frozen/shared | stopped/shared)
    expect_status 2
    expect_of "rank 1 \(F1\) does not answer: $waited" "${others[@]}"
    ;;
  killed/messages | frozen/messages)  # mpirun may be faster than the timeout; the run ends in any case
    if [[ $name == frozen ]]; then expect_status 2; else expect_status 137; fi
    ;;
  leaves/shared)
    expect_status 2
    expect_of 'rank [0-9]+ \(.*\) waits in a circle: .*rank 1 \(the end of the run\)' "${all[@]}"
    ;;
  aborts/shared)
    expect_status 2
    expect_of 'rank 1 \(F1\) failed: the loss is NaN' "${all[@]}"
    ;;
  throws/shared)
    expect_status 2
    expect_of 'the plan is for another model' 1
    expect_of 'rank 1 \(F1\) failed: the plan is for another model' "${others[@]}"
    ;;
  computes/* | polls/* | aborts/messages)
    expect_status 2
    expect_of 'rank 1 (\(F1\) )?failed: the loss is NaN' "${all[@]}"
    ;;
  circle/shared)
    expect_status 2
    expect_of 'rank [0-9] \(F[0-9]\) waits in a circle: rank [0-9] \(F[0-9]\) has waited' "${all[@]}"
    ;;
  larger/*)
    expect_status 2
    expect_of 'rank 1 has sent more than 8 bytes as message 9; expected 8 by rank 0' "${all[@]}"
    ;;
  smaller/*)
    expect_status 2
    expect_of 'rank 1 has sent 8 bytes as message 9; expected 16 by rank 0' "${all[@]}"
    ;;
  collectives/*)
    expect_status 2
    expect_of "rank [0-9] has sent .* bytes as a collective's message; expected [0-9]+ by rank [0-9]" "${all[@]}"
    ;;
  forgets/*)
    expect_status 2
    expect_of 'rank 1 failed: its run ends with 1 transfers that were not waited for' "${all[@]}"
    ;;
  *) fail "there is no such case" ;;
esac
