#!/usr/bin/env bash
# Trains with the slimpack command as a user would, on threads and under mpirun, and ends runs in every way that they
# can end. Usage: train_test.sh BINARY LENGTHS [MPIRUN]
set -uo pipefail
slimpack=$1 lengths=$2 mpirun=${3-}
source "$(dirname "$0")/checks.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
if [[ -n $mpirun ]]; then export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS+:$ASAN_OPTIONS}; fi  # OpenMPI has many

small=(--hidden 32 --heads 2 --kv-heads 1 --head-dim 16 --ffn 64 --vocab 64)
batch=(--lengths "$lengths" --count 6 --context 200 --truncate --tile 16)
train=("$slimpack" train "${batch[@]}" "${small[@]}")
losses() { sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$folder/out"; }

# same FILE FILE TOLERANCE: as many losses in both, which differ by no more, relatively.
same() {
  paste "$1" "$2" | awk -v most="$3" 'NF != 2 || ($1 - $2) ^ 2 > (most * $1) ^ 2 { bad = 1 } END { exit bad || NR == 0 }'
}

# The loss falls, and memory is as predicted.
works "$slimpack" train "${batch[@]/#200/1000}" "${small[@]}" --dp 2 --pp 2 --steps 8 --learning-rate 2e-2 --json
losses | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR == 8 && last < 0.9 * first) }' || fail "the loss does not fall: $(losses)"
awk -F'[:,]' '/"peak_bytes"/ { peak = $2 } /"predicted_bytes"/ { n++; if (peak < 0.95 * $2 || peak > 1.05 * $2) bad = 1 }
  END { exit bad || n != 4 }' "$folder/out" || fail "memory is not within 5 % of the prediction: $(cat "$folder/out")"
for pass in forward backward; do
  grep -A1 "\"$pass\": {" "$folder/out" | grep -q '"tasks": [1-9]' || fail "no $pass tasks"
done
works "${train[@]}" --steps 2
grep -qE '^ +2 +[0-9.]+ +[0-9.]+ +[0-9.]+$' "$folder/out" || fail "no line of step 2: $(cat "$folder/out")"
grep -q 'median error' "$folder/out" || fail "no summary"

# The same model, however its steps are planned.
same_losses() {  # TOLERANCE OPTION...: as with one rank
  local tolerance=$1
  shift
  works "${train[@]}" --layers 4 --steps 3 --json "$@"
  losses >"$folder/losses"
  same "$folder/losses" "$folder/$tolerance" "$tolerance" || fail "$* trains another model: $(cat "$folder/losses")"
}
works "${train[@]}" --layers 4 --steps 3 --json
losses >"$folder/1e-5"
works "${train[@]}" --layers 4 --steps 3 --json --real double
losses >"$folder/1e-10"
! cmp -s "$folder/1e-5" "$folder/1e-10" || fail "float is double"
same_losses 1e-10 --real double --dp 2 --pp 2
same_losses 1e-10 --real double --dp 3 --pp 1 --planner megatron
same_losses 1e-10 --real double --dp 4 --pp 1 --planner dynamic-cp
same_losses 1e-10 --real double --dp 2 --pp 2 --planner dynapipe
same_losses 1e-10 --real double --dp 3 --pp 2 --planner bytescale
same_losses 1e-10 --real double --pp 4 --packs 5 --symmetric
same_losses 1e-10 --real double --cp 2 --pp 2
[[ $(grep -c peak_bytes "$folder/out") == 4 ]] || fail "cp 2 and pp 2 are not four ranks: $(cat "$folder/out")"
same_losses 1e-10 --real double --dp 2 --cp 2 --planner megatron
same_losses 1e-5 --dp 2 --pp 3 --packs 7
cp "$folder/losses" "$folder/six.losses"

# Planners of documents train all of them, each with its text, however long it waits.
documents=("$slimpack" train --lengths "$lengths" --sequences 4 --context 256 --truncate --steps 4 "${small[@]}" --layers 2 --json)
trained() { sed -n 's/.*"tokens": \([0-9]*\),.*/\1/p' "$folder/out" | awk '{ sum += $1 } END { print sum }'; }
works "${documents[@]}" --planner plain-4d --evaluate 2
losses >"$folder/plain"
tokens=$(trained)
[[ $(grep -c '"unseen_loss"' "$folder/out") == 2 ]] || fail "not two evaluations: $(cat "$folder/out")"
works "${documents[@]}" --planner plain-4d
losses | cmp -s - "$folder/plain" || fail "evaluations change what is trained"
works "${documents[@]}" --planner wlb --queues none
losses >"$folder/losses"
same "$folder/losses" "$folder/plain" 1e-5 || fail "documents have other texts in plans of wlb: $(cat "$folder/losses")"
works "${documents[@]}" --planner wlb --cp 2
[[ $(trained) == "$tokens" ]] || fail "wlb with its own queues trains $(trained) tokens, expected $tokens"
works "${documents[@]}" --planner wlb --queues 100,200 --dp 2
[[ $(trained) == "$tokens" ]] || fail "wlb trains $(trained) tokens, expected $tokens"
(( $(losses | wc -l) > 4 )) || fail "no document has waited"
works "${documents[@]}" --planner fixed-4d --window 2
[[ $(trained) == "$tokens" ]] || fail "fixed-4d trains $(trained) tokens, expected $tokens"
works "${documents[@]}" --planner plain-4d --topics 3
losses | cmp -s - "$folder/plain" && fail "topics change nothing"
works "${train[@]}" --steps 2 --evaluate 1
[[ $(grep -cE '^unseen +[0-9.]+$' "$folder/out") == 2 ]] || fail "no lines of evaluations: $(cat "$folder/out")"

# A sample that two pipelines hold together.
merged=("$slimpack" train --lengths "$(file long '1000\n100\n50\n70\n')" --context 1000 --hidden 32 --heads 2 --kv-heads 2
  --head-dim 16 --ffn 64 --vocab 64 --layers 4 --real double --json)
works "${merged[@]}"
losses >"$folder/merged"
for exchange in ring all_to_all; do
  works "${merged[@]}" --dp 2 --pp 2 --exchange "$exchange"
  grep peak_bytes "$folder/out" >"$folder/$exchange"
  losses >"$folder/losses"
  same "$folder/losses" "$folder/merged" 1e-10 || fail "merged packs ($exchange) train another model: $(cat "$folder/losses")"
done
cmp -s "$folder/ring" "$folder/all_to_all" && fail "no packs are merged"
works "${merged[@]}" --dp 4 --exchange all_to_all  # of four ranks, only two can share the two heads
losses >"$folder/losses"
same "$folder/losses" "$folder/merged" 1e-10 || fail "four ranks with two heads train another model: $(cat "$folder/losses")"

# Tensor-parallel ranks train the same model, merged or not, in memory as predicted.
shared=("$slimpack" train "${batch[@]}" --hidden 32 --heads 4 --kv-heads 4 --head-dim 8 --ffn 64 --vocab 64 --layers 3 --real double --steps 3)
works "${shared[@]}" --json
losses >"$folder/shared"
for layout in '--tp 2' '--tp 4' '--cp 2 --pp 2' '--tp 2 --cp 2' '--dp 2 --cp 2 --exchange all_to_all' '--tp 2 --dp 2 --pp 2' '--tp 2 --dp 2 --planner megatron'; do
  # shellcheck disable=SC2086
  works "${shared[@]}" --json $layout
  losses >"$folder/losses"
  same "$folder/losses" "$folder/shared" 1e-10 || fail "$layout trains another model: $(cat "$folder/losses")"
  awk -F'[:,]' '/"peak_bytes"/ { peak = $2 } /"predicted_bytes"/ { n++; if (peak < 0.9 * $2 || peak > 1.05 * $2) bad = 1 }
    END { exit bad || n < 2 }' "$folder/out" || fail "memory with $layout is not as predicted: $(cat "$folder/out")"
done
works "${shared[@]}" --json --tp 2 --pp 2
losses >"$folder/tensor.losses"
[[ $(grep -c '"tensor_rank": 1' "$folder/out") == 2 ]] || fail "tp 2 and pp 2 are not four ranks: $(cat "$folder/out")"
works "${shared[@]}" --tp 2
grep -qE '^pipeline 0 +0 tp 1 ' "$folder/out" || fail "no memory of the second tensor-parallel rank: $(cat "$folder/out")"
works "${train[@]}" --steps 3 --json --seed 2
losses | cmp -s - "$folder/1e-5" && fail "the seed changes nothing"

# A plan for other devices and another model.
works "$slimpack" plan "${batch[@]}" --model llama-13b --layers 4 --dp 2 --pp 2 --exchange ring -o "$folder/plan.json"
plan=("$slimpack" train --plan "$folder/plan.json" "${small[@]}")
works "${plan[@]}" --steps 2 --json
losses >"$folder/plan.losses"
works "$slimpack" plan "${batch[@]}" --model llama-13b --layers 4 --tp 4 -o "$folder/tensor.json"
works "$slimpack" train --plan "$folder/tensor.json" "${small[@]}" --steps 2 --json --whole-stages
[[ $(grep -c peak_bytes "$folder/out") == 1 ]] || fail "a whole stage is not one rank: $(cat "$folder/out")"
losses >"$folder/losses"
same "$folder/losses" "$folder/plan.losses" 1e-5 || fail "a whole stage trains another model: $(cat "$folder/losses")"

# Context-parallel ranks of a plan are ranks of the run: two on each of two stages. They exchange keys as the plan says.
works "$slimpack" plan "${batch[@]}" --model llama-13b --layers 4 --dp 1 --cp 2 --pp 2 --exchange all_to_all -o "$folder/context.json"
refuses "F0 is merged of 2 members that share heads; expected a divisor of the 1 key/value heads" \
  "$slimpack" train --plan "$folder/context.json" "${small[@]}" --steps 2
works "$slimpack" plan "${batch[@]}" --model llama-13b --layers 4 --dp 1 --cp 2 --pp 2 --exchange ring -o "$folder/context.json"
works "$slimpack" train --plan "$folder/context.json" "${small[@]}" --steps 2 --json
[[ $(grep -c peak_bytes "$folder/out") == 4 ]] || fail "cp 2 and pp 2 are not four ranks: $(cat "$folder/out")"
losses >"$folder/losses"
same "$folder/losses" "$folder/plan.losses" 1e-5 || fail "context-parallel ranks train another model: $(cat "$folder/losses")"

# Bad input.
refuses "expected --plan FILE, or --lengths FILE --context C" "$slimpack" train
refuses "--dp is about planning" "${plan[@]}" --dp 2
refuses "the model has 5 layers; expected the 4 that the plan is for" "${plan[@]}" --layers 5
refuses "kv_heads is 3; expected a divisor" "$slimpack" train --plan "$folder/plan.json" --kv-heads 3
refuses "hidden is 0; expected a positive number" "$slimpack" train --plan "$folder/plan.json" --hidden 0
refuses "can't read the plan '$folder/none.json'" "$slimpack" train --plan "$folder/none.json"
head -c 1000 "$folder/plan.json" >"$folder/cut.json"
refuses "not JSON" "$slimpack" train --plan "$folder/cut.json"
sed '0,/"F0",/s///' "$folder/plan.json" >"$folder/order.json"  # a stage that never runs F0
refuses "breaks the plan format in" "$slimpack" train --plan "$folder/order.json" "${small[@]}"
refuses "bytes, but 1000 bytes are there; expected " "${plan[@]}" --memory 1e3
refuses " for weights, gradients and optimiser needs " "${plan[@]}" --memory 1e3
refuses "are there; expected " "$slimpack" train --plan "$folder/plan.json" --hidden 2000000 --vocab 2000000
refuses "MiB, but 1.1 MiB are there; expected " "${plan[@]}" --memory 1.2e6
refuses "expected less than the 1e-06 GB of a device" "${train[@]}" --memory 1e3
refuses "nan; expected a finite number" "${plan[@]}" --steps 9 --learning-rate 1e30 --json
refuses "expected a finite number" "${train[@]}" --steps 9 --learning-rate 1e200 --real double --json
refuses "tp is 2; expected a divisor of the 1 key/value heads of model" "${train[@]}" --tp 2
refuses "tp is 4; expected a divisor of the 2 key/value heads" "$slimpack" train --plan "$folder/tensor.json" --hidden 32 --heads 4 --kv-heads 2 --head-dim 8
refuses "--whole-stages is given without --plan" "${train[@]}" --whole-stages
refuses "--steps is 0; expected at least 1" "${train[@]}" --steps 0
refuses "--steps is 99999; expected at most" "${train[@]}" --steps 99999
refuses "--real is 'half'; expected float or double" "${train[@]}" --real half
refuses "--learning-rate is -1; expected a positive number" "${train[@]}" --learning-rate -1
refuses "--learning-rate is nan" "${train[@]}" --learning-rate nan
refuses "--seed is -1; expected at least 0" "${train[@]}" --seed -1
refuses "--memory is 0; expected a positive number" "${train[@]}" --memory 0
refuses "--timeout is -2; expected a positive number" "${train[@]}" --timeout -2
refuses "tp * cp is 2; expected a divisor of the 1 key/value heads, which ranks share, or --exchange ring" \
  "${train[@]}" --cp 2 --exchange all_to_all
refuses "--transport is 'pigeon'; expected threads, mpi, tcp or auto" "${train[@]}" --transport pigeon
refuses "--start-timeout is 0; expected a positive number" "${train[@]}" --start-timeout 0
refuses "WORLD_SIZE is not set; expected the number of ranks" "${train[@]}" --transport tcp
RANK=4 WORLD_SIZE=4 refuses "RANK is '4'; expected a rank, 0 to 3" "${train[@]}"
RANK=0 WORLD_SIZE=4 refuses "LOCAL_RANK is not set" "${train[@]}"
SLURM_PROCID=0 MASTER_ADDR=localhost refuses "SLURM_NTASKS is not set" "${train[@]}"
SLURM_PROCID=0 SLURM_NTASKS=8 refuses "srun has started 8 processes, but MASTER_ADDR is not set" "${train[@]}"
SLURM_PROCID=0 SLURM_NTASKS=8 works "${train[@]}" --transport threads
refuses "unknown planner 'magic'" "${train[@]}" --planner magic
refuses "planner hotspa chooses its pipelines itself" "${train[@]}" --planner hotspa
refuses "planner flexsp plans for ranks that shard parameters (ZeRO-3), which no back end has" "${train[@]}" --planner flexsp
refuses "expected float, which master weights are on GPUs" "${train[@]}" --device cuda --real double
refuses "--links is 'wire'; expected nccl, host or auto" "${train[@]}" --links wire
refuses "--links is 'nccl'; expected no such option without --device cuda" "${train[@]}" --links nccl
refuses "--attention is 'theirs'; expected ours or cudnn" "${train[@]}" --device cuda --attention theirs
refuses "--attention is 'cudnn'; expected no such option without --device cuda" "${train[@]}" --attention cudnn
refuses "--attention-workspace is 0; expected a positive number" "${train[@]}" --attention-workspace 0
# Without cuDNN's part, or else without a GPU.
CUDA_VISIBLE_DEVICES='' refuses "; expected " "${train[@]}" --device cuda --attention cudnn
refuses "--no-graphs is given; expected no such option without --device cuda" "${train[@]}" --no-graphs

# On a GPU: where none can be seen, it says what is missing.
CUDA_VISIBLE_DEVICES='' refuses "; expected " "${train[@]}" --device cuda
grep -qE 'CUDA|GPU|driver' "$folder/err" || fail "it does not say that a GPU is missing: $(cat "$folder/err")"
has_cuda=1
grep -q 'has no CUDA' "$folder/err" && has_cuda=0
declare -A lacking=(
  [none]='no NVIDIA driver answers on this machine; expected one that serves CUDA'
  [driver]='the NVIDIA driver serves CUDA up to 12.8, but this program was built with CUDA 13.0; expected '
  [architecture]='GPU 0 \(test GPU\) has compute capability 7.0; expected at least 8.0'
  [code]='slimpack has no code for GPU 0 \(test GPU, compute capability 9.0\); expected it among'
)
gpu=("$slimpack" train "${batch[@]}" "${small[@]/#16/64}" --device cuda)
if [[ $has_cuda == 1 ]]; then
  refuses "tp is 2; expected 1: on GPUs, a rank holds all weights of its stage" "${gpu[@]}" --tp 2
  for lack in "${!lacking[@]}"; do
    SLIMPACK_TEST_GPU=$lack refuses "" "${gpu[@]}" --dp 2
    grep -qE "${lacking[$lack]}" "$folder/err" || fail "of $lack, threads say: $(cat "$folder/err")"
  done
fi

# Under mpirun.
mpi() {  # RANKS COMMAND...: leaves status, out and err
  local ranks=$1
  shift
  timeout --kill-after=10 60 "$mpirun" -n "$ranks" "$@" >"$folder/out" 2>"$folder/err" </dev/null
  status=$?
  echo "$status" >"$folder/status"
}
all_refuse() {  # TEXT RANKS COMMAND...: mpirun ends with 2, nothing is printed, and every rank says it
  local text=$1 ranks=$2
  shift 2
  mpi "$ranks" "$@"
  [[ $status == 2 ]] || fail "mpirun ended with $status, expected 2: $*: $(cat "$folder/err")"
  [[ ! -s $folder/out ]] || fail "wrote to standard output: $*"
  for ((rank = 0; rank < ranks; ++rank)); do
    grep -qE "^rank $rank: .*$text" "$folder/err" || fail "rank $rank does not say '$text': $(cat "$folder/err")"
  done
}
by_rank() {  # COMMAND...: in which RANK stands for the rank
  printf '%s' "$*" | sed 's/RANK/$OMPI_COMM_WORLD_RANK/g'
}
ends_when() {  # SIGNAL STATUS TEXT: rank 1 gets the signal in the middle of training
  local signal=$1 expected=$2 text=$3 run
  rm -f "$folder"/rank* "$folder/out"
  mpi 4 bash -c "$(by_rank "echo \$\$ >$folder/rankRANK; exec" "${plan[*]}" --steps 1000000 --timeout 3)" &
  run=$!
  for ((i = 0; i < 300; ++i)); do
    if grep -qE '^ +3 ' "$folder/out" 2>/dev/null; then break; fi
    sleep 0.1
  done
  kill -"$signal" "$(cat "$folder/rank1")" || fail "there is no rank 1"
  wait "$run"
  [[ $(cat "$folder/status") == "$expected" ]] || fail "mpirun ended with $(cat "$folder/status"), expected $expected"
  for rank in 0 2 3; do
    grep -qE "^rank $rank: rank 1 \(.*\) $text" "$folder/err" ||
      fail "rank $rank does not say that rank 1 $text: $(cat "$folder/err")"
  done
}
if [[ -n $mpirun ]]; then
  mpi 4 "${plan[@]}" --steps 2 --json
  [[ $status == 0 && ! -s $folder/err ]] || fail "under mpirun: $status: $(cat "$folder/err")"
  losses | cmp -s - "$folder/plan.losses" || fail "processes train otherwise than threads"
  mpi 6 "${train[@]}" --layers 4 --steps 3 --json --dp 2 --pp 3 --packs 7
  losses | cmp -s - "$folder/six.losses" || fail "processes train otherwise than threads"
  mpi 4 "${shared[@]}" --json --tp 2 --pp 2
  losses | cmp -s - "$folder/tensor.losses" || fail "tensor-parallel processes train otherwise than threads"

  all_refuse 'there are 3 ranks; expected the 4 that the plan is for' 3 "${plan[@]}"
  all_refuse 'there are 5 ranks; expected the 4 that the plan is for' 5 "${plan[@]}"
  all_refuse 'the loss of F[0-9] is -?nan; expected a finite number' 4 "${plan[@]}" --steps 9 --learning-rate 1e30 --json
  all_refuse 'stage [01] of pipeline [01] for weights, gradients and optimiser needs .*, but 1000 bytes are there; expected ' 4 "${plan[@]}" --memory 1e3
  all_refuse 'breaks the plan format' 4 "$slimpack" train --plan "$folder/order.json" "${small[@]}"
  works "$slimpack" plan "${batch[@]}" --first 6 --model llama-13b --layers 4 --dp 2 --pp 2 --exchange ring -o "$folder/plan3.json"
  for rank in 0 1 2; do cp "$folder/plan.json" "$folder/plan$rank.json"; done
  all_refuse 'ranks do not agree on the plan: rank 3 has' 4 \
    bash -c "$(by_rank exec "$slimpack" train --plan "$folder/planRANK.json" "${small[@]}")"
  all_refuse 'ranks do not agree on the learning rate: rank 3 has 0.003; expected 0.001 as on the other 3 of 4 ranks' 4 \
    bash -c "exec ${plan[*]} --learning-rate \$([[ \$OMPI_COMM_WORLD_RANK == 3 ]] && echo 3e-3 || echo 1e-3)"
  rm "$folder/plan2.json"
  all_refuse "can't read the plan '$folder/plan2.json'" 4 \
    bash -c "$(by_rank exec "$slimpack" train --plan "$folder/planRANK.json" "${small[@]}")"

  ends_when KILL 137 'is gone, its process has ended'
  ends_when STOP 2 'does not answer'
fi

# As processes that torchrun, or srun, would start: each has its own environment, and no MPI.
started() {  # LAUNCHER RANK RANKS COMMAND...
  local launcher=$1 rank=$2 ranks=$3
  shift 3
  local variables=(RANK="$rank" WORLD_SIZE="$ranks" LOCAL_RANK="$rank")
  if [[ $launcher == slurm ]]; then
    variables=(SLURM_PROCID="$rank" SLURM_NTASKS="$ranks" SLURM_LOCALID="$rank")
  fi
  exec env "${variables[@]}" MASTER_ADDR=localhost MASTER_PORT="$port" timeout --kill-after=10 60 "$@" \
    >"$folder/out$rank" 2>"$folder/err$rank" </dev/null
}
launch() {  # LAUNCHER RANKS COMMAND...: leaves statuses, outR and errR
  local launcher=$1 ranks=$2 rank processes=()
  shift 2
  port=$((20000 + RANDOM % 10000))
  for ((rank = ranks - 1; rank >= 0; --rank)); do
    (started "$launcher" "$rank" "$ranks" "$@") &
    processes[rank]=$!
  done
  statuses=()
  for ((rank = 0; rank < ranks; ++rank)); do
    wait "${processes[rank]}"
    statuses+=($?)
  done
  cp "$folder/out0" "$folder/out"
}
each_says() {  # TEXT RANKS: every rank has ended with 2, and said it
  local rank
  for ((rank = 0; rank < $2; ++rank)); do
    [[ ${statuses[rank]} == 2 ]] || fail "rank $rank ended with ${statuses[rank]}, expected 2"
    grep -qE "^rank $rank: .*$1" "$folder/err$rank" || fail "rank $rank does not say '$1': $(cat "$folder/err$rank")"
  done
}
for launcher in torchrun slurm; do
  launch $launcher 4 "${plan[@]}" --steps 2 --json
  [[ ${statuses[*]} == "0 0 0 0" ]] || fail "over TCP: ${statuses[*]}: $(cat "$folder"/err?)"
  losses | cmp -s - "$folder/plan.losses" || fail "processes over TCP train otherwise than threads"
done
launch torchrun 4 "${shared[@]}" --json --tp 2 --pp 2
[[ ${statuses[*]} == "0 0 0 0" ]] || fail "tensor-parallel ranks over TCP: ${statuses[*]}: $(cat "$folder"/err?)"
losses | cmp -s - "$folder/tensor.losses" || fail "tensor-parallel processes over TCP train otherwise than threads"
launch torchrun 3 "${plan[@]}"
each_says 'there are 3 ranks; expected the 4 that the plan is for' 3

# Of two processes, one differs in one thing that decides the result: both name it, and both values.
pair=("$slimpack" train "${batch[@]}" --pp 2 --hidden 32 --heads 2 --kv-heads 1 --head-dim 16 --vocab 64)
differ() {  # FIELD COMMAND...: of rank 1
  local field=$1
  shift
  launch torchrun 2 bash -c "if [[ \$RANK == 1 ]]; then exec $*; fi; exec ${pair[*]}"
  each_says "ranks do not agree on the $field: rank 1 has [^;]*; expected [^;]* as on the other 1 of 2 ranks" 2
}
launch torchrun 2 "${pair[@]}"
[[ ${statuses[*]} == "0 0" ]] || fail "two alike: ${statuses[*]}: $(cat "$folder"/err?)"
differ 'learning rate' "${pair[@]}" --learning-rate 2e-3
differ 'seed of the weights' "${pair[@]}" --seed 2
differ 'precision' "${pair[@]}" --real double
differ 'exchange of keys and values' "${pair[@]}" --exchange all_to_all
differ "model's feed-forward size" "${pair[@]}" --ffn 96
differ 'number of steps' "${pair[@]}" --steps 2
differ 'token ids' "${pair[@]}" --first 6
mkdir "$folder/other"
cp "$slimpack" "$(dirname "$slimpack")/slimpack-train" "$folder/other"
printf x >>"$folder/other/slimpack-train"
differ 'build' "$folder/other/slimpack" "${pair[@]:1}"

launch torchrun 4 "${plan[@]}" --steps 9 --learning-rate 1e30 --json
each_says 'the loss of F[0-9] is -?nan; expected a finite number' 4
RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=9 refuses \
  "rank 1 could not reach rank 0 at localhost:9 within 0.2 s" "${train[@]}" --start-timeout 0.2
RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$port refuses \
  "ranks 1, 2 did not come to localhost:$port within 0.2 s; expected 3 ranks" "${train[@]}" --start-timeout 0.2

# One rank without a GPU that it can use, or all of them: each says why, at once.
if [[ $has_cuda == 1 ]]; then
  refuses "tp is 2; expected 1: on GPUs, a rank holds all weights of its stage" "${gpu[@]}" --tp 2
  for lack in "${!lacking[@]}"; do
    why=${lacking[$lack]//GPU 0/GPU [01]}
    began=$SECONDS
    SLIMPACK_TEST_GPU=$lack launch torchrun 2 "${gpu[@]}" --pp 2
    each_says "$why" 2
    # Of two ranks, the second alone: its neighbour's GPU is good.
    launch torchrun 2 bash -c "SLIMPACK_TEST_GPU=\$([[ \$RANK == 1 ]] && echo $lack || echo good) exec ${gpu[*]} --pp 2"
    each_says "$why" 2
    grep -qE '^rank 0: rank 1 ' "$folder/err0" || fail "rank 0 does not say that it is rank 1: $(cat "$folder/err0")"
    ((SECONDS - began < 30)) || fail "ranks waited $((SECONDS - began)) s for one without a GPU"
  done
  # The examples' lines come as far as to ask for GPUs.
  scripts=("$(dirname "$0")/../../examples/launch/torchrun.sh")
  if [[ -n $mpirun && $(command -v mpirun) ]]; then scripts+=("${scripts[0]/torchrun/mpirun}"); fi
  for script in "${scripts[@]}"; do
    GPU=1 SLIMPACK=$slimpack SLIMPACK_TEST_GPU=none MASTER_PORT=$((20000 + RANDOM % 10000)) timeout 60 \
      bash "$script" "$lengths" --steps 1 >"$folder/out" 2>"$folder/err" </dev/null
    grep -qE "^rank [0-3]: ${lacking[none]}" "$folder/err" || fail "$script says: $(cat "$folder/err")"
  done
  if [[ -n $mpirun ]]; then
    for lack in "${!lacking[@]}"; do
      why=${lacking[$lack]//GPU 0/GPU [01]}
      SLIMPACK_TEST_GPU=$lack all_refuse "$why" 2 "${gpu[@]}" --pp 2
      all_refuse "$why" 2 bash -c "SLIMPACK_TEST_GPU=\$([[ \$OMPI_COMM_WORLD_RANK == 1 ]] && echo $lack || echo good) exec ${gpu[*]} --pp 2"
      grep -qE '^rank 0: rank 1 ' "$folder/err" || fail "rank 0 does not say under mpirun that it is rank 1: $(cat "$folder/err")"
    done
  fi
fi

# A rank that is killed, or stops, in the middle of training.
over_tcp_ends_when() {  # SIGNAL TEXT
  local rank processes=()
  port=$((20000 + RANDOM % 10000))
  rm -f "$folder"/out?
  for rank in 0 1 2 3; do
    (
      export RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank MASTER_ADDR=localhost MASTER_PORT=$port
      exec "${plan[@]}" --steps 1000000 --timeout 3 >"$folder/out$rank" 2>"$folder/err$rank" </dev/null
    ) &
    processes[rank]=$!
  done
  for ((i = 0; i < 300; ++i)); do
    if grep -qE '^ +3 ' "$folder/out0" 2>/dev/null; then break; fi
    sleep 0.1
  done
  kill -"$1" "${processes[1]}"
  for rank in 0 2 3; do
    wait "${processes[rank]}"
    status=$?
    [[ $status == 2 ]] || fail "rank $rank ended with $status, expected 2"
    grep -qE "^rank $rank: rank 1 (\(.*\) )?$2" "$folder/err$rank" ||
      fail "rank $rank does not say that rank 1 $2: $(cat "$folder/err$rank")"
  done
  kill -KILL "${processes[1]}" 2>/dev/null
  wait "${processes[1]}" 2>/dev/null
}
over_tcp_ends_when KILL 'is gone: its connection'
over_tcp_ends_when STOP 'does not answer: '

[[ $failed == 0 ]] && echo "all checks of training passed"
exit $failed
