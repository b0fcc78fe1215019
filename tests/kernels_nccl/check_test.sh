#!/usr/bin/env bash
# Runs the program that checks NCCL, over TCP and under mpirun: where it can't see a GPU, by hosts' memory with ranks that die or
# stand still, and as the machine is, as one rank.
# Usage: check_test.sh PROGRAM [MPIRUN]
set -uo pipefail
program=$1 mpirun=${2-}
source "$(dirname "$0")/../cli/checks.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
if [[ -n $mpirun ]]; then export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS+:$ASAN_OPTIONS}; fi  # OpenMPI has many

over_tcp() {  # RANKS OPTION...: leaves statuses, outR and errR
  local ranks=$1 rank processes=() status
  shift
  export MASTER_ADDR=localhost MASTER_PORT=$((20000 + RANDOM % 10000)) WORLD_SIZE=$ranks
  for ((rank = 0; rank < ranks; ++rank)); do
    (RANK=$rank LOCAL_RANK=$rank exec timeout --kill-after=10 60 "$program" "$@" >"$folder/out$rank" 2>"$folder/err$rank" </dev/null) &
    processes[rank]=$!
  done
  statuses=()
  for ((rank = 0; rank < ranks; ++rank)); do
    status=0
    wait "${processes[rank]}" 2>/dev/null || status=$?
    statuses+=("$status")
  done
  unset MASTER_ADDR MASTER_PORT WORLD_SIZE
}
says() {  # RANK TEXT: it has ended with 2, printed nothing, and said so
  [[ ${statuses[$1]} == 2 ]] || fail "rank $1 ended with ${statuses[$1]}, expected 2"
  [[ ! -s $folder/out$1 ]] || fail "rank $1 prints: $(<"$folder/out$1")"
  grep -qE "^rank $1: .*$2" "$folder/err$1" || fail "rank $1 does not say '$2': $(<"$folder/err$1")"
}
under_mpi() {  # RANKS OPTION...: leaves status, out and err
  local ranks=$1
  shift
  status=0
  timeout --kill-after=10 60 "$mpirun" -n "$ranks" "$program" "$@" >"$folder/out" 2>"$folder/err" </dev/null || status=$?
}

refuses "'--what' is no option; expected --fail" "$program" --what
refuses "--timeout is '1x'; expected a whole number" "$program" --timeout 1x
refuses "--timeout is 0; expected at least 1" "$program" --timeout 0
refuses "--fail ends the line; expected a value" "$program" --fail 1
refuses "--fail is 'leave'; expected kill or stall" "$program" --fail 1 leave
refuses "rank 0 of 1 is to fail; expected one of at least two ranks" "$program" --host --fail 0 kill
works "$program" --host
grep -qx 'rank 0: all is well on the host' "$folder/out" || fail "one rank says: $(<"$folder/out")"

# Without a GPU.
CUDA_VISIBLE_DEVICES='' over_tcp 2
for rank in 0 1; do says $rank expected; done

# By hosts' memory: all operations, and what the others say of a rank that fails.
over_tcp 3 --host
for rank in 0 1 2; do
  [[ ${statuses[rank]} == 0 ]] || fail "rank $rank ended with ${statuses[rank]}: $(<"$folder/err$rank")"
  grep -qx "rank $rank: all is well on the host" "$folder/out$rank" || fail "rank $rank says: $(<"$folder/out$rank")"
done
for failing in 0 1; do
  over_tcp 3 --host --fail $failing kill
  [[ ${statuses[failing]} == 137 ]] || fail "rank $failing ended with ${statuses[failing]} instead of being killed"
  for rank in 0 1 2; do
    if [[ $rank != "$failing" ]]; then says $rank "rank $failing .*is gone"; fi
  done
done
over_tcp 3 --host --fail 1 stall --timeout 1
for rank in 0 1 2; do says $rank 'rank 1 \(round 2\) does not answer'; done

if [[ -n $mpirun ]]; then
  CUDA_VISIBLE_DEVICES='' under_mpi 2
  [[ $status == 2 ]] || fail "without a GPU mpirun ends with $status instead of 2"
  for rank in 0 1; do
    grep -qE "^rank $rank: .*expected" "$folder/err" || fail "without a GPU rank $rank does not say so under mpirun: $(<"$folder/err")"
  done
  under_mpi 3 --host
  [[ $status == 0 && $(grep -c 'all is well on the host' "$folder/out") == 3 ]] || fail "under mpirun: $status: $(<"$folder/err")"
  under_mpi 3 --host --fail 1 kill
  [[ $status == 137 ]] || fail "mpirun ends with $status when a rank is killed, expected 137"
  for rank in 0 2; do
    grep -qE "^rank $rank: rank 1 \(round 2\) is gone, its process has ended" "$folder/err" ||
      fail "rank $rank does not say under mpirun that rank 1 is gone: $(<"$folder/err")"
  done
  under_mpi 3 --host --fail 1 stall --timeout 1
  [[ $status == 2 ]] || fail "mpirun ends with $status when a rank stands still, expected 2"
  for rank in 0 2; do
    grep -qE "^rank $rank: rank 1 \(round 2\) does not answer" "$folder/err" ||
      fail "rank $rank does not say under mpirun that rank 1 does not answer: $(<"$folder/err")"
  done
fi

# As the machine is.
status=0
"$program" >"$folder/out" 2>"$folder/err" </dev/null || status=$?
[[ $status == 0 || $status == 2 ]] || fail "it exits with $status"
[[ $status == 0 ]] || grep -q '^rank 0: .*expected' "$folder/err" || fail "it says: $(<"$folder/err")"

[[ $failed == 0 ]] && echo "all checks of the program passed"
exit $failed
