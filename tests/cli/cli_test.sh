#!/usr/bin/env bash
# Runs the slimpack command as a user would: what works, and every bad input. Usage: cli_test.sh BINARY LENGTHS
set -uo pipefail
slimpack=$1 lengths=$2
source "$(dirname "$0")/checks.sh"

job=(--model llama-13b --device h100 --dp 4 --pp 8 --tp 4)
batch=(--lengths "$lengths" --count 64 --context 65536 --truncate)

works "$slimpack" --version
works "$slimpack" --help
works "$slimpack" plan --help
works "$slimpack" presets
grep -q llama-150b "$folder/out" || fail "presets lack llama-150b"
grep -qE '^device .* GEMM F GEMM B attn F attn B ' "$folder/out" || fail "presets do not name each pass's fractions"
grep -qE '^h100 +989 +0\.66 +0\.66 +0\.60 +0\.52 ' "$folder/out" || fail "presets lack h100's fractions"

works "$slimpack" plan --lengths "$lengths" --count 100 --context 65536 --truncate "${job[@]}" --planner slimpack -o "$folder/plan.json"
works "$slimpack" check "$folder/plan.json"
grep -q "valid; 4 pipelines" "$folder/out" || fail "check does not say valid"
grep -q "not checked.*: version, model.vocab, device, .*, step.peak_bytes$" "$folder/out" || fail "check does not say what it can't check"
[[ $(grep -c ': note: ' "$folder/out") == $(grep -o '"notes":.*' "$folder/plan.json" | grep -o '"[^"]* [^"]*"' | wc -l) ]] ||
  fail "check does not show the plan's notes"
works "$slimpack" trace "$folder/plan.json" -o "$folder/trace.json"
grep -q traceEvents "$folder/trace.json" || fail "no trace"
works "$slimpack" plan --lengths "$lengths" --first 7 --count 64 --context 65536 --split "${job[@]}" --planner megatron -o "$folder/m.json"
works "$slimpack" check "$folder/m.json"
works "$slimpack" compare --lengths "$lengths" --count 64 --context 65536 --truncate "${job[@]}" --iterations 3 --json --html "$folder/c.html" \
  --svg "$folder/c.svg"
for key in planner iterations step_seconds tokens_per_second_per_gpu speedup bubble_ratio max_over_mean_forward \
  max_over_mean_backward replica_imbalance busiest_stage_imbalance peak_bytes packs planning_seconds gap; do
  [[ $(grep -c "\"$key\"" "$folder/out") == 2 ]] || fail "compare --json lacks $key"
done
grep -q '"iterations": 3' "$folder/out" || fail "not 3 iterations"
grep -q '</html>' "$folder/c.html" || fail "no page"
[[ $(grep -o '<polygon' "$folder/c.svg" | wc -l) == 8 ]] || fail "not a violin for each planner, pass and chart"
head -64 "$lengths" | "$slimpack" plan --lengths - --context 65536 --truncate "${job[@]}" >"$folder/stdin.json" || fail "standard input"
"$slimpack" check - <"$folder/stdin.json" >/dev/null || fail "check of standard input"
head -64 "$lengths" | "$slimpack" compare --context 65536 --truncate "${job[@]}" --equal-packs --tile 1 --no-merge --memory-bytes 9e10 >/dev/null || fail "options"

# Whatever a preset sets can be set otherwise: the plan file has the value, and the figures follow.
changed() {  # JSON option...: the plan differs from the preset's, and its file holds the text
  local text=$1
  shift
  works "$slimpack" plan "${batch[@]}" "${job[@]}" "$@" -o "$folder/changed.json"
  grep -qF -- "$text" "$folder/changed.json" || fail "$* leaves no $text in the plan"
  ! cmp -s "$folder/preset.json" "$folder/changed.json" || fail "$* changes nothing"
}
works "$slimpack" plan "${batch[@]}" "${job[@]}" -o "$folder/preset.json"
changed '"name":"llama-13b-modified"' --vocab 64000
changed '"layers":48' --layers 48
changed '"name":"h100-modified"' --peak-flops 5e14
changed '"gemm_efficiency":0.5,"gemm_backward_efficiency":0.5,' --gemm-efficiency 0.5
changed '"gemm_efficiency":0.66,"gemm_backward_efficiency":0.5,' --gemm-backward-efficiency 0.5
changed '"gemm_efficiency":0.5,"gemm_backward_efficiency":0.25,' --gemm-backward-efficiency 0.25 --gemm-efficiency 0.5
changed '"attention_forward":0.25' --attention-forward 0.25
changed '"attention_backward":0.25' --attention-backward 0.25
changed '"memory_bytes":7e+10' --memory-bytes 7e10
changed '"memory_bandwidth":1e+12' --memory-bandwidth 1e12
changed '"pack_overhead":0.001' --pack-overhead 0.001
changed '"intra_node_bandwidth":2e+11' --nvlink-bandwidth 2e11
changed '"inter_node_bandwidth":9e+09' --network-bandwidth 9e9
changed '"inter_node_latency":0.125' --network-latency 0.125
changed '"intra_node_latency":0.0625' --nvlink-latency 0.0625
changed '"host_latency":0.0625' --host-latency 0.0625
changed '"host_bandwidth":1e+09' --host-bandwidth 1e9 --offload 0.5
changed '"devices_per_node":2' --devices-per-node 2
changed '"tokens"' --sync-overlap 0.5
changed '"tokens"' --tp-overlap 0
changed '"tokens"' --free-prefix
changed '"tokens"' --cp 2 --exchange ring --ring-overlap 0
changed '"tokens"' --zero 3
changed '"tokens"' --reserve-bytes 1e10

# A batch's plan does not depend on the number of threads, and the figures are means over the iterations.
works "$slimpack" compare "${batch[@]}" "${job[@]}" --iterations 7 --json
grep -v planning_seconds "$folder/out" >"$folder/one.json"
works "$slimpack" compare "${batch[@]}" "${job[@]}" --iterations 7 --json --threads 100000 --quiet
grep -v planning_seconds "$folder/out" | cmp -s - "$folder/one.json" || fail "threads change the figures"

# An output takes the place of a file as a whole: links are followed, permissions kept, neighbours left alone.
plan=("$slimpack" plan "${batch[@]}" "${job[@]}" -o)
echo old >"$folder/target.json" && chmod 640 "$folder/target.json" && ln -s target.json "$folder/link.json"
echo mine >"$folder/link.json.partial" && echo mine >"$folder/target.json.partial" && mkdir "$folder/a.json.partial"
works "${plan[@]}" "$folder/link.json"
[[ -L $folder/link.json ]] || fail "the link is gone"
[[ $(stat -c %a "$folder/target.json") == 640 ]] || fail "permissions changed"
works "${plan[@]}" "$folder/a.json"
[[ -d $folder/a.json.partial && $(cat "$folder"/*.json.partial 2>/dev/null) == $'mine\nmine' ]] || fail "a neighbour was touched"
rm -r "$folder"/*.json.partial
works "$slimpack" check "$folder/link.json"
works "$slimpack" check "$folder/a.json"

# What takes more than a second says on standard error how far it is, and nowhere else. These take as long as the
# reader of their output lets them wait.
mkfifo "$folder/late"
says_progress() {  # TEXT COMMAND...: a line with TEXT while the command waits for a reader of the pipe
  local text=$1
  shift
  : >"$folder/err"
  "$@" >"$folder/out" 2>"$folder/err" </dev/null &
  local command=$!
  for ((i = 0; i < 600; ++i)); do
    [[ ! -s $folder/err ]] || break
    sleep 0.1
  done
  timeout 60 cat "$folder/late" >"$folder/read" || fail "nothing was written to the pipe: $*"
  wait "$command" || fail "exit code $?: $*"
  grep -qE "^slimpack: $text plans made in [0-9]+ s, now slimpack\$" "$folder/err" || fail "no progress: $*"
  ! grep -qF ' plans made in ' "$folder/out" "$folder/read" || fail "progress is not on standard error: $*"
}
says_progress '[01] of 1' "${plan[@]}" "$folder/late"
[[ ! -s $folder/out ]] || fail "wrote to standard output"
"$slimpack" check - <"$folder/read" >/dev/null || fail "what the pipe's reader got is no plan"
says_progress '[0-6] of 6' "$slimpack" compare "${batch[@]}" "${job[@]}" --iterations 3 --json --html "$folder/late"
[[ $(head -c 1 "$folder/out") == '{' ]] || fail "standard output is not the figures alone"
"${plan[@]}" "$folder/late" --quiet 2>"$folder/err" &
sleep 1.5
timeout 60 cat "$folder/late" >/dev/null
wait $! && [[ ! -s $folder/err ]] || fail "--quiet is not quiet: $(cat "$folder/err")"
rm "$folder/late"

# No room for standard output.
if [[ -c /dev/full ]]; then
  refuses "standard output can't be written" bash -c '"$@" >/dev/full' - "$slimpack" presets
  refuses "standard output can't be written" bash -c '"$@" >/dev/full' - "$slimpack" --help
  refuses "standard output can't be written" bash -c '"$@" >/dev/full' - "$slimpack" check "$folder/plan.json"
  refuses "can't write '/dev/full'" "${plan[@]}" /dev/full
fi

# The command starts at once: it loads nothing that planning does not use.
if command -v ldd >/dev/null; then
  heavy=$(ldd "$slimpack" | grep -iE 'cuda|cublas|cudnn|nccl|nvrtc|mpi|glpk|cbc')
  [[ -z $heavy ]] || fail "the command loads $heavy"
fi

# What trains and measures is a program next to the command's file, whatever link the command is called by: it gets the
# arguments from the command's name on, and its exit code counts.
mkdir "$folder/bin" && cp "$slimpack" "$folder/bin/slimpack" && ln -s bin/slimpack "$folder/linked"
for name in train profile; do
  rm -f "$folder/bin/slimpack-train"
  refuses "slimpack $name can't start '$(realpath "$folder")/bin/slimpack-train'" "$folder/bin/slimpack" $name --help
  printf '#!/bin/sh\nprintf "%%s," "$@"\nexit 7\n' >"$folder/bin/slimpack-train"
  chmod +x "$folder/bin/slimpack-train"
  said=$(PATH= "$folder/linked" $name --plan 'a file' -x)
  [[ $? == 7 && $said == "$name,--plan,a file,-x," ]] || fail "slimpack $name hands over '$said'"
done

refuses "no command; expected plan, compare" "$slimpack"
refuses "unknown command 'plam'" "$slimpack" plam
refuses "unrecognised option '--colour'" "$slimpack" plan --colour
refuses "context" "$slimpack" plan --lengths "$lengths"
refuses "can't read the lengths from '$folder/none'" "$slimpack" plan --lengths "$folder/none" --context 1024
refuses "holds no lengths" "$slimpack" plan --lengths "$(file empty '')" --context 1024
refuses "line 2: 'twelve'" "$slimpack" plan --lengths "$(file letters '5\ntwelve\n')" --context 1024
refuses "line 1: '5\\x00x' is no length; expected" "$slimpack" plan --lengths "$(file null '5\0000x\n')" --context 1024
refuses "line 3: '0'" "$slimpack" plan --lengths "$(file zero '5\n7\n0\n')" --context 1024
refuses "line 1: '-3'" "$slimpack" plan --lengths "$(file negative '-3\n')" --context 1024
refuses "line 2: '9223372036854775808'" "$slimpack" plan --lengths "$(file big '1\n9223372036854775808\n')" --context 1024
refuses "line 2: 2000 tokens; expected at most the context of 1024" "$slimpack" plan --lengths "$(file long '5\n2000\n')" --context 1024
refuses "pp is 64; expected at most the 40 layers" "$slimpack" plan --lengths "$lengths" --count 99 --context 65536 --truncate --pp 64
for planner in slimpack megatron infinipipe; do  # pipelines without samples are idle
  works "$slimpack" plan --lengths "$lengths" --count 3 --context 65536 --truncate --pp 8 --dp 16 --tp 4 --planner $planner -o "$folder/idle.json"
  works "$slimpack" check "$folder/idle.json"
done
refuses "unknown model 'llama-9b'; expected one of llama-7b" "$slimpack" plan --lengths "$lengths" --context 65536 --model llama-9b
refuses "unknown device 'h900'" "$slimpack" plan --lengths "$lengths" --context 65536 --device h900
works "$slimpack" plan --lengths "$lengths" --count 40 --context 65536 --truncate --dp 4 --cp 2 --tp 8 --planner dynamic-cp \
  --nested-groups -o "$folder/dynamic.json"
works "$slimpack" check "$folder/dynamic.json"
grep -q "valid; 8 pipelines" "$folder/out" || fail "context-parallel ranks are no pipelines of the domain"
refuses "line 1: sample 0 has" "$slimpack" plan --lengths "$(file rank '5000\n10\n')" --context 65536 --dp 2 --tp 8 --planner dynamic-cp \
  --rank-tokens 1K
sequences=(--lengths "$lengths" --count 60 --context 32768 --truncate --model llama-7b --device a800)
for planner in deepspeed flexsp; do
  works "$slimpack" plan "${sequences[@]}" --dp 2 --cp 8 --planner $planner -o "$folder/$planner.json"
  works "$slimpack" check "$folder/$planner.json"
  refuses "tp is 2; expected 1, as planner $planner supports only sequence parallelism" "$slimpack" plan "${sequences[@]}" --dp 8 --tp 2 \
    --planner $planner
  refuses "pp is 2; expected 1, as planner $planner" "$slimpack" plan "${sequences[@]}" --dp 8 --pp 2 --planner $planner
done
works "$slimpack" check "$folder/deepspeed.json"
grep -q "valid; 2 pipelines" "$folder/out" || fail "deepspeed's degree is not the layout's cp"
works "$slimpack" check "$folder/flexsp.json"
grep -q "valid; 16 pipelines" "$folder/out" || fail "flexsp's groups are not of all ranks"
refuses "expected a divisor of the 40 heads" "$slimpack" plan --lengths "$lengths" --count 60 \
  --context 32768 --truncate --model llama-13b --cp 16 --planner deepspeed
refuses "--zero-overlap is 1.2; expected a share in [0, 1]" "$slimpack" plan "${sequences[@]}" --zero-overlap 1.2
works "$slimpack" compare "${sequences[@]}" --dp 2 --cp 8 --planner deepspeed,flexsp --zero-overlap 0 --rank-tokens 16K --pack-tokens 32K
for planner in dynapipe bytescale hotspa; do
  works "$slimpack" plan --lengths "$lengths" --count 200 --context 32768 --truncate --model llama-7b --device a800 --gpus 16 \
    --planner $planner -o "$folder/$planner.json"
  works "$slimpack" check "$folder/$planner.json"
  works "$slimpack" plan --lengths "$lengths" --count 40 --context 32768 --truncate --dp 4 --tp 4 --pp 2 --planner $planner \
    -o "$folder/$planner.json"
  works "$slimpack" check "$folder/$planner.json"
done
refuses "line 1: sample 0 has 5000 tokens; expected at most the limit of 1024" "$slimpack" plan \
  --lengths "$(file ranks '5000\n10\n')" --context 65536 --dp 2 --tp 8 --planner bytescale --rank-tokens 1K
refuses "unknown planner 'magic'; expected one of megatron, slimpack" "$slimpack" plan --lengths "$lengths" --context 65536 --planner magic
refuses "/huge, line 3: sample 1 has 900000000 tokens; memory holds at most" "$slimpack" plan \
  --lengths "$(file huge '5\n\n900000000\n')" --context 1000000000 --dp 2 --pp 8
refuses "/huge, line 4: sample 1 has 900000000 tokens; memory holds at most" "$slimpack" compare --planner slimpack \
  --lengths "$(file huge '5\n6\n5\n900000000\n')" --context 1000000000 --dp 2 --pp 8 --count 2 --iterations 2
refuses "--count is 30000; expected at most the $(wc -l <"$lengths") lengths" "$slimpack" plan --lengths "$lengths" --count 30000 --context 65536 --truncate
refuses "--first is 99999; expected less than" "$slimpack" plan "${batch[@]}" --first 99999
refuses "--first is -1; expected at least 0" "$slimpack" plan "${batch[@]}" --first -1
refuses "--iterations is 9000; expected at most" "$slimpack" compare "${batch[@]}" --iterations 9000
refuses "--count is 4611686018427387904" "$slimpack" compare --lengths "$lengths" --count 4611686018427387904 \
  --context 65536 --truncate --iterations 4 --threads 4
refuses "line 3: 2000 tokens" "$slimpack" compare --lengths "$(file late '5\n7\n2000\n9\n')" --count 2 --iterations 2 --context 1024
refuses "line 1: --split at a context of 1 makes 1099511627781 samples of the batch that begins here; expected at most 1048576" \
  "$slimpack" plan --lengths "$(file pieces '1099511627776\n5\n')" --context 1 --split
refuses "line 2: --split at a context of 1 makes 1048577 samples" \
  "$slimpack" compare --lengths "$(file pieces '1048576\n1048577\n')" --context 1 --split --count 1 --iterations 2
for planner in wlb plain-4d megatron; do
  refuses "line 1: --split at a context of 131072 makes 8388608 samples" "$slimpack" plan --planner $planner \
    --lengths "$(file pieces '1099511627776\n')" --context 131072 --split
done
works "$slimpack" plan --help
grep -q 1048576 "$folder/out" || fail "help does not say how many samples --split makes"

# Large and strange input: few words, and memory in proportion to what is no blank.
memory=65536  # KB
if grep -qE '__(asan|tsan)_init' "$slimpack"; then memory=unlimited; fi  # sanitizers reserve far more addresses
limited() { bash -c "ulimit -v $memory; "'"$@"' - "$@"; }  # COMMAND...
blanks() { head -c 30000000 /dev/zero | tr '\0' "$1"; }
{ blanks ' '; cat "$folder/plan.json"; blanks '\n'; } >"$folder/blank.json"
works limited "$slimpack" check "$folder/blank.json"
{ blanks '\n'; echo x; } >"$folder/strange"
refuses "not JSON: line 30000001, column 1 (' x')" limited "$slimpack" check "$folder/strange"
[[ $(wc -c <"$folder/err") -lt 300 ]] || fail "a message of $(wc -c <"$folder/err") characters"
refuses "not JSON: line 30000001, column 1 (' x')" limited "$slimpack" presets --profile "$folder/strange"
refuses "line 30000001: 'x' is no length" limited "$slimpack" plan --lengths "$folder/strange" --context 1024
refuses "no saved state" limited "$slimpack" plan "${batch[@]}" --planner wlb --state "$folder/strange"
{ echo 5; blanks ' '; echo 7; blanks ' '; } >"$folder/strange"
works limited "$slimpack" plan --lengths "$folder/strange" --context 1024 --model llama-7b --tp 8 -o "$folder/blank.json"
grep -qF '"tokens":[5,7]' "$folder/blank.json" || fail "lengths between blanks are not read"
{ cat "$folder/plan.json"; printf '\0'; } >"$folder/null.json"
refuses "unexpected null character" "$slimpack" check "$folder/null.json"
refuses "('x') for option '--dp' is invalid; expected an integer" "$slimpack" plan "${batch[@]}" --dp x
refuses "expected an integer up to 2147483647" "$slimpack" plan "${batch[@]}" --dp 2147483648
refuses "--exchange is 'pigeon'; expected ring, all_to_all, cheapest or all_gather" "$slimpack" plan "${batch[@]}" --exchange pigeon
refuses "gemm_backward_efficiency is 1.5; expected a fraction" "$slimpack" plan "${batch[@]}" --gemm-backward-efficiency 1.5
refuses "--sync-overlap is 2; expected a share in [0, 1]" "$slimpack" plan "${batch[@]}" --sync-overlap 2
refuses "--tp-overlap is -1; expected a share in [0, 1]" "$slimpack" plan "${batch[@]}" --tp-overlap -1
refuses "--ring-overlap is 2; expected a share in [0, 1]" "$slimpack" plan "${batch[@]}" --ring-overlap 2
refuses "pack_tokens is 131072; expected the longest sample's " "$slimpack" plan "${batch[@]}" "${job[@]}" --planner megatron --pack-tokens 128K
refuses "intra_node.latency is -1" "$slimpack" plan "${batch[@]}" --nvlink-latency -1
refuses "host.latency is inf" "$slimpack" plan "${batch[@]}" --host-latency inf
refuses "expected a number" "$slimpack" plan "${batch[@]}" --peak-flops fast
refuses "peak_flops is nan" "$slimpack" plan "${batch[@]}" --peak-flops nan
refuses "--context is 9223372036854775807; expected 1 to 2^40" "$slimpack" plan --lengths "$lengths" --context 9223372036854775807
refuses "--tile is 9223372036854775807" "$slimpack" plan "${batch[@]}" --tile 9223372036854775807
refuses "zero_stage is 4" "$slimpack" plan "${batch[@]}" --zero 4
refuses "'--lengths' is missing" "$slimpack" plan --lengths
refuses "more than once" "$slimpack" plan "${batch[@]}" --dp 2 --dp 4
refuses "unexpected argument 'more' after --version" "$slimpack" --version more
refuses "ask for more than 2147483647 devices" "$slimpack" plan "${batch[@]}" --tp 4 --cp 2147483647
refuses "unexpected argument 'more'" "$slimpack" plan "${batch[@]}" more
refuses "unexpected argument 'b'" "$slimpack" check a b
refuses "'--plan' is required" "$slimpack" check
refuses "unknown planner ''" "$slimpack" compare "${batch[@]}" --planner megatron,
refuses "can't read the lengths from '$folder'" "$slimpack" plan --lengths "$folder" --context 1024
refuses "can't read the plan '$folder'" "$slimpack" check "$folder"
from() { "${@:2}" <"$1"; }  # from PATH COMMAND...: a path on standard input
refuses "can't read the lengths from 'standard input'" from "$folder" "$slimpack" plan --lengths - --context 1024
refuses "can't read the plan 'standard input'" from "$folder" "$slimpack" check -
refuses "can't read the lengths from 'two?lines'" "$slimpack" plan --lengths $'two\nlines' --context 1024
refuses "line 1: '1.5'" "$slimpack" plan --lengths "$(file fraction '1.5\n')" --context 1024
# Numbers of tokens with suffixes, and what only looks like them.
suffixed=(--lengths "$(file suffixes '3K\n70000\n64K\n1M\n')" --truncate "${job[@]}")
works "$slimpack" plan "${suffixed[@]}" --context 128K --tile 1K -o "$folder/suffixed.json"
grep -qF '"tokens":[3072,70000,65536,131072]' "$folder/suffixed.json" || fail "suffixes are not of powers of 1024"
works "$slimpack" plan --lengths "$(file integers '3072\n70000\n65536\n1048576\n')" --truncate "${job[@]}" --context 131072 \
  --tile 1024 -o "$folder/integers.json"
cmp -s "$folder/suffixed.json" "$folder/integers.json" || fail "numbers with and without suffixes give other plans"
for nonsense in 1.5K 12KK K 1KB 128k 1e3K 0x1K '1 K' 9999999999999G; do
  refuses "line 1: '$nonsense' is no length; expected an integer from 1 to 2^40, which may end in K, M or G for" \
    "$slimpack" plan --lengths "$(file nonsense "$nonsense\n")" --context 1024
  for option in context tile max-tokens pack-tokens; do
    refuses "('$nonsense') for option '--$option' is invalid; expected an integer up to 2^40, which may end in K, M or G" \
      "$slimpack" plan --lengths "$lengths" --count 9 "--$option" "$nonsense"
  done
  refuses "--queues is '$nonsense,9G'; expected rising lengths" "$slimpack" plan "${batch[@]}" --queues "$nonsense,9G"
done
for out_of_range in 0K -1K 1025G; do
  refuses "line 1: '$out_of_range' is no length" "$slimpack" plan --lengths "$(file range "$out_of_range\n")" --context 1024
  refuses "; expected 1 to 2^40" "$slimpack" plan --lengths "$lengths" "--context=$out_of_range"
done
# What is kept free of a device's memory is said where one looks for it.
"$slimpack" plan --help | tr -s ' \n' ' ' | grep -qF 'buffers and fragmentation; default 6e+09 (6 GB)' || fail "--help hides the reserve"
small=("$slimpack" plan "${batch[@]}" --model llama-7b --pp 8 --tp 8 --memory-bytes)
refuses "and 6 GB are kept free (reserve_bytes), before any token; expected less than the 7 GB of a device" "${small[@]}" 7e9
refuses "or a smaller reserve" "${small[@]}" 7e9
works "${small[@]}" 7e9 --reserve-bytes 0 -o "$folder/small.json"
refuses "GB per device, of which 6 GB are kept free (reserve_bytes), with" "${small[@]}" 8.6e9 --planner megatron
refuses "can't write '$folder'" "${plan[@]}" "$folder"
refuses "--truncate and --split" "$slimpack" plan --lengths "$lengths" --context 65536 --truncate --split
refuses "can't write" "$slimpack" plan --lengths "$lengths" --count 64 --context 65536 --truncate "${job[@]}" -o "$folder/no/such/plan.json"
refuses "can't write" "$slimpack" compare --lengths "$lengths" --count 64 --context 65536 --truncate "${job[@]}" --html "$folder/no/such/c.html"
refuses "can't read the plan" "$slimpack" check "$folder/none.json"
head -c 5000 "$folder/plan.json" >"$folder/cut.json"
refuses "not JSON" "$slimpack" check "$folder/cut.json"
refuses "plan" "$slimpack" check "$(file other.json '{"format": "other"}')"
refuses "not JSON" "$slimpack" trace "$folder/cut.json" -o "$folder/never.json"
[[ ! -e $folder/never.json ]] || fail "a partial output file is left"
[[ -z $(find "$folder" -name '*.partial*') ]] || fail "a temporary file is left"

sed 's/"version":[0-9]*/"version":7/' "$folder/plan.json" >"$folder/version.json"
refuses "version" "$slimpack" check "$folder/version.json"
sed '0,/"F0","F1"/s//"F1","F0"/' "$folder/plan.json" >"$folder/order.json"
"$slimpack" check "$folder/order.json" >"$folder/out" 2>"$folder/err"
[[ $? == 2 ]] || fail "a plan that breaks a rule passes"
grep -qF 'breaks the plan format in 1 place; expected none' "$folder/err" || fail "not one place: $(cat "$folder/err")"
refuses "$folder/order.json: invalid plan: rule" "$slimpack" trace "$folder/order.json"

[[ $failed == 0 ]] && echo "all checks of the command passed"
exit $failed
