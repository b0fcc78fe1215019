#!/usr/bin/env bash
# Measures with the slimpack command as a user would, plans by what was measured, and hands in bad profiles.
# Usage: profile_test.sh BINARY LENGTHS
set -uo pipefail
slimpack=$1 lengths=$2
source "$(dirname "$0")/checks.sh"

small=(--hidden 32 --heads 2 --kv-heads 1 --head-dim 16 --ffn 64 --vocab 64)
batch=(--lengths "$lengths" --count 24 --context 400 --truncate --tile 16)
profile=("$slimpack" profile --seconds 0.1 --tokens 64)

works "${profile[@]}" "${small[@]}" --machine 'a "test" machine' -o "$folder/profile.json"
cp "$folder/out" "$folder/summary"
grep -qF 'a "test" machine, float: ' "$folder/out" || fail "the summary does not name the machine"
grep -qE '^held out: median error [0-9.]+ %, worst [0-9.]+ %, of [1-9][0-9]* tasks' "$folder/out" ||
  fail "no error of held-out tasks: $(cat "$folder/out")"
grep -qF '"machine": "a \"test\" machine"' "$folder/profile.json" || fail "the file does not name the machine"
grep -qE '"date": "20[0-9]{2}-[0-9]{2}-[0-9]{2}"' "$folder/profile.json" || fail "the file has no date"
works "${profile[@]}" "${small[@]}" --real double --clock wall --stage-layers 1 -o "$folder/double.json"
grep -q '"real_bytes": 8' "$folder/double.json" || fail "double is not of 8 bytes"
"${profile[@]}" "${small[@]}" >"$folder/stdout.json" 2>"$folder/err" || fail "standard output"
grep -q 'held out' "$folder/err" || fail "no summary on standard error"

# The device that the profile makes: its row next to the presets', options that say the same, and plans by either.
grep -qE '^device +TFLOP/s +GEMM F +GEMM B ' "$folder/summary" || fail "no row of the measured device"
grep -qE '^held out, by these constants: median error [0-9.e+]+ %' "$folder/summary" || fail "no error of the constants"
flags() { grep -oE -- '--peak-flops [0-9].*$' "$1"; }
flags "$folder/summary" >"$folder/flags" || fail "no options of the measured device"
works "$slimpack" presets --profile "$folder/profile.json"
grep -qE '^measured: --peak-flops ' "$folder/out" || fail "presets do not show the profile's options"
grep -qE '^h100 ' "$folder/out" || fail "presets next to a profile are missing"
[[ $(flags "$folder/out") == "$(cat "$folder/flags")" ]] || fail "the profile's options are not what measuring said"
step() { grep -oE '"step":\{"seconds":[0-9.e+-]+' "$1" | grep -oE '[0-9.e+-]+$'; }
sized=("${small[@]}" --layers 4 --dp 2 --pp 2 --reserve-bytes 0)
works "$slimpack" plan "${batch[@]}" "${sized[@]}" --model tiny --device "$folder/profile.json" -o "$folder/by_file.json"
# shellcheck disable=SC2046
works "$slimpack" plan "${batch[@]}" "${sized[@]}" --model tiny --device cpu $(cat "$folder/flags") -o "$folder/by_flags.json"
awk -v one="$(step "$folder/by_file.json")" -v two="$(step "$folder/by_flags.json")" \
  'BEGIN { exit !(one > 0 && (two - one) ^ 2 < (1e-2 * one) ^ 2) }' || fail "a file and its options plan differently"
works "$slimpack" compare "${batch[@]}" --model llama-7b --tp 2 --device "$folder/profile.json" --memory-bytes 1e12 --json
refuses "can't read the profile '$folder/none.json'" "$slimpack" plan "${batch[@]}" --device "$folder/none.json"
refuses "can't read the profile '$folder/none.json'" "$slimpack" presets --profile "$folder/none.json"

by_profile=("${batch[@]}" --profile "$folder/profile.json" --dp 2 --pp 2)
for planner in slimpack megatron; do
  works "$slimpack" plan "${by_profile[@]}" --planner $planner -o "$folder/$planner.json"
  works "$slimpack" check "$folder/$planner.json"
  grep -qF '"hidden":32' "$folder/$planner.json" || fail "$planner's plan is not for the profile's model"
done
works "$slimpack" plan "${batch[@]}" --profile "$folder/stdout.json" -o "$folder/other.json"
works "$slimpack" plan "${by_profile[@]}" --layers 6 -o "$folder/layers.json"
grep -qF '"layers":6' "$folder/layers.json" || fail "the profile is not for any number of layers"
works "$slimpack" compare "${by_profile[@]}" --json --html "$folder/c.html"
grep -q '</html>' "$folder/c.html" || fail "no page"
works "$slimpack" compare "${batch[@]}" --profile "$folder/profile.json" --gpus 4 --planner auto --layouts
grep -qE '^ +2 +1 +1 +2 ' "$folder/out" || fail "stages of one rank are missing among the layouts"
! grep -qE '^ +[0-9]+ +([0-9]+ +[2-9]|[2-9] +[0-9]+) +[0-9]+ ' "$folder/out" || fail "a profile has layouts with stages of several ranks"
works "$slimpack" train "${by_profile[@]}" --json
works "$slimpack" train "${by_profile[@]}" --planner auto --json
works "$slimpack" train --plan "$folder/slimpack.json" --profile "$folder/profile.json" --json

works "$slimpack" plan "${by_profile[@]}" --exchange all_to_all -o "$folder/heads.json"
works "$slimpack" check "$folder/heads.json"

# Seconds of the plan are the profile's: twice as many for each, twice as long.
works "$slimpack" plan "${batch[@]}" --profile "$folder/profile.json" --packs 3 -o "$folder/one.json"
awk '/"per_|"latency"|"optimiser/ { split($0, part, ": "); number = part[2]; comma = sub(/,/, "", number)
  printf "%s: %.17g%s\n", part[1], 2 * number, comma ? "," : ""; next } { print }' "$folder/profile.json" >"$folder/twice.json"
works "$slimpack" plan "${batch[@]}" --profile "$folder/twice.json" --packs 3 -o "$folder/two.json"
seconds() { grep -oE '"step":\{"seconds":[0-9.e+-]+' "$1" | grep -oE '[0-9.e+-]+$'; }
awk -v one="$(seconds "$folder/one.json")" -v two="$(seconds "$folder/two.json")" \
  'BEGIN { exit !(one > 0 && (two - 2 * one) ^ 2 < (1e-3 * one) ^ 2) }' || fail "seconds are not the profile's"

# A GPU's profile, made of the CPU's: rows of 2 bytes a number, the GPU's memory.
device='"device": {"memory_bytes": 2e9, "peak_flops": 7e14, "memory_bandwidth": 3e12, "attention_forward": 0.5,
  "attention_backward": 0}'
sed "s/\"real_bytes\": 4,/\"real_bytes\": 2, ${device//$'\n'/},/" "$folder/profile.json" >"$folder/gpu.json"
by_gpu=("${batch[@]}" --profile "$folder/gpu.json" --dp 2 --pp 2)
works "$slimpack" plan "${by_gpu[@]}" -o "$folder/gpu_plan.json"
works "$slimpack" check "$folder/gpu_plan.json"
grep -qF '"memory_bytes":2e+09' "$folder/gpu_plan.json" || fail "the plan's device is not the measured one"
# Fractions of a GPU are of its vendor's peak, if its name is known.
sed 's/a \\"test\\" machine/NVIDIA A100-SXM4-80GB/' "$folder/gpu.json" >"$folder/a100.json"
works "$slimpack" presets --profile "$folder/a100.json"
grep -qE '^NVIDIA A100-SXM4-80GB +312 ' "$folder/out" || fail "not of the A100's peak: $(cat "$folder/out")"
works "$slimpack" presets --profile "$folder/gpu.json"
grep -qF 'measured: --memory-bytes 2e+09 --peak-flops 7e+14 ' "$folder/out" || fail "not the GPU's memory: $(cat "$folder/out")"
grep -qE '^a "test" machine +700 ' "$folder/out" || fail "not of the measured peak: $(cat "$folder/out")"
for way in ring all_to_all; do
  works "$slimpack" plan "${by_gpu[@]}" --exchange "$way" -o "$folder/gpu_plan.json"
done
works "$slimpack" compare "${by_gpu[@]}" --json --html "$folder/c.html"
refuses "the profile is of a GPU; expected --device cuda" "$slimpack" train "${by_gpu[@]}"
refuses "the profile is of a CPU; expected one of" "$slimpack" train "${by_profile[@]}" --device cuda
# Whose attention was measured: shown where it is recorded, and the one that has to run.
grep -qF 'attention measured: not recorded' <("$slimpack" presets --profile "$folder/gpu.json") ||
  fail "it is not said that no attention was recorded"
! grep -q 'attention measured' "$folder/summary" || fail "a CPU's attention is told apart"
for whose in ours cudnn; do
  sed "s/\"attention_forward\"/\"attention\": \"$whose\", &/" "$folder/gpu.json" >"$folder/$whose.json"
  works "$slimpack" presets --profile "$folder/$whose.json"
  grep -qxF "attention measured: $whose" "$folder/out" || fail "presets do not show whose attention: $(cat "$folder/out")"
done
refuses "--attention is 'ours', but the profile is of 'cudnn'; expected --attention cudnn, or a profile of" \
  "$slimpack" train "${batch[@]}" --profile "$folder/cudnn.json" --dp 2 --pp 2 --device cuda
for fits in ours gpu; do  # what is missing then is a GPU
  CUDA_VISIBLE_DEVICES='' refuses "; expected " \
    "$slimpack" train "${batch[@]}" --profile "$folder/$fits.json" --dp 2 --pp 2 --device cuda
  grep -qE 'CUDA|GPU|driver' "$folder/err" || fail "$fits.json is refused for another reason: $(cat "$folder/err")"
  ! grep -q -- '--attention' "$folder/err" || fail "$fits.json is refused for its attention"
done
sed 's/"cudnn"/"theirs"/' "$folder/cudnn.json" >"$folder/theirs.json"
refuses 'profile.device.attention is "theirs"; expected ours or cudnn' \
  "$slimpack" presets --profile "$folder/theirs.json"
sed 's/2e9/2e4/' "$folder/gpu.json" >"$folder/small_gpu.json"
refuses "less than the 2e-05 GB of a device" "$slimpack" plan "${batch[@]}" --profile "$folder/small_gpu.json"
sed 's/"peak_flops": 7e14/"peak_flops": -1/' "$folder/gpu.json" >"$folder/slow.json"
refuses "device.peak_flops is -1" "$slimpack" plan "${batch[@]}" --profile "$folder/slow.json"

# On a GPU: where none can be seen, it says what is missing.
CUDA_VISIBLE_DEVICES='' refuses "; expected " "$slimpack" profile --device cuda --head-dim 64
grep -qE 'CUDA|GPU|driver' "$folder/err" || fail "it does not say that a GPU is missing: $(cat "$folder/err")"
refuses "--real is double; expected no such option with --device cuda" "${profile[@]}" --device cuda --real double
refuses "--clock is wall; expected no such option with --device cuda" "${profile[@]}" --device cuda --clock wall
refuses "--attention is 'theirs'; expected ours or cudnn" "${profile[@]}" --attention theirs
refuses "--attention is 'cudnn'; expected no such option without --device cuda" "${profile[@]}" --attention cudnn
refuses "--attention-workspace is 0; expected a positive number" "${profile[@]}" --attention-workspace 0
# Without cuDNN's part, or else without a GPU.
CUDA_VISIBLE_DEVICES='' refuses "; expected " "$slimpack" profile --device cuda --head-dim 64 --attention cudnn
refuses "--device is 'tpu'; expected cpu or cuda" "${profile[@]}" --device tpu
refuses "--memory is 0; expected a positive number" "${profile[@]}" --memory 0
refuses "stages for packs of 64 tokens take " "${profile[@]}" "${small[@]}" --memory 1000
grep -qE 'there are 1000; expected [0-9.e+]+ bytes more' "$folder/err" || fail "it does not say how much is missing"

refuses "can't read the profile '$folder/none.json'" "$slimpack" plan "${batch[@]}" --profile "$folder/none.json"
refuses "can't read the profile '$folder'" "$slimpack" plan "${batch[@]}" --profile "$folder"
head -c 500 "$folder/profile.json" >"$folder/cut.json"
refuses "cut.json: the profile is not JSON" "$slimpack" plan "${batch[@]}" --profile "$folder/cut.json"
refuses "profile.format is \"slimpack-plan\"" "$slimpack" plan "${batch[@]}" --profile "$folder/slimpack.json"
sed 's/"per_token": .*/"per_token": "many",/' "$folder/profile.json" >"$folder/many.json"
refuses "profile.forward.layer.per_token is \"many\"; expected a number" \
  "$slimpack" plan "${batch[@]}" --profile "$folder/many.json"
refuses "hidden 32, but model 'tiny' has 128" "$slimpack" plan "${by_profile[@]}" --model tiny
refuses "ffn 64, but model" "$slimpack" compare "${by_profile[@]}" --ffn 96
refuses "tp is 2 and cp 1; expected 1 of each with --profile" "$slimpack" plan "${by_profile[@]}" --tp 2
refuses "--peak-flops is of devices that are not measured" "$slimpack" plan "${by_profile[@]}" --peak-flops 1e12
refuses "--real is double, but the profile is of float" "$slimpack" train "${by_profile[@]}" --real double
refuses "hidden 32, but model" "$slimpack" train --plan "$folder/slimpack.json" --profile "$folder/profile.json" --hidden 64

refuses "--real is 'half'; expected float or double" "${profile[@]}" --real half
refuses "--clock is 'sun'; expected cpu or wall" "${profile[@]}" --clock sun
refuses "--seconds is 0; expected a positive number" "$slimpack" profile --seconds 0
refuses "--seconds is nan" "$slimpack" profile --seconds nan
refuses "tokens is 5; expected at least 64, or 0" "${profile[@]:0:2}" --tokens 5
refuses "--tokens is 9999999; expected at most" "${profile[@]:0:2}" --tokens 9999999
refuses "stage_layers is -1" "${profile[@]}" --stage-layers -1
refuses "kv_heads is 3; expected a divisor" "${profile[@]}" --kv-heads 3
refuses "expected an even number" "${profile[@]}" --head-dim 7
refuses "unknown model 'llama-9b'" "${profile[@]}" --model llama-9b
refuses "unexpected argument 'more'" "${profile[@]}" more
refuses "can't write" "${profile[@]}" "${small[@]}" -o "$folder/no/such/profile.json"
[[ -z $(find "$folder" -name '*.partial*') ]] || fail "a temporary file is left"

[[ $failed == 0 ]] && echo "all checks of profiles passed"
exit $failed
