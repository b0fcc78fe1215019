#!/usr/bin/env bash
# The files that the slimpack command writes: whole or not at all, no other file left, never over one that it reads, and if
# that can't be, why. Usage: files_test.sh BINARY LENGTHS
set -uo pipefail
slimpack=$1 lengths=$2
source "$(dirname "$0")/checks.sh"

batch=(--lengths "$lengths" --count 64 --context 65536 --truncate --dp 4 --pp 8 --tp 4)
plan=("$slimpack" plan "${batch[@]}" --quiet -o)
out="$folder/out.d"
mkdir "$out"
works "${plan[@]}" "$out/good.json"
bytes=$(stat -c %s "$out/good.json")

holds_only() {  # NAME...: what is in the folder of outputs
  [[ $(ls -A "$out") == $(printf '%s\n' "$@" | sort) ]] || fail "expected $* alone, not: $(ls -A "$out" | tr '\n' ' ')"
}

# What a killed process has left is removed by the next that writes the same file. What one writes at the same time is not,
# nor is what has another name.
left="$out/.good.json.slimpack-partial"
echo left >"$left"
works "${plan[@]}" "$out/good.json"
holds_only good.json
mkdir "$left" && echo mine >"$out/good.json.partial"
works "${plan[@]}" "$out/good.json"
holds_only .good.json.slimpack-partial good.json good.json.partial
rm -r "$left" "$out/good.json.partial"
if command -v flock >/dev/null; then
  echo written >"$left"
  works flock "$left" "${plan[@]}" "$out/good.json"
  [[ $(cat "$left") == written ]] || fail "a file that another process writes was touched"
  rm "$left"
fi
writers=()
for ((i = 0; i < 8; ++i)); do
  "${plan[@]}" "$out/shared.json" 2>>"$folder/err.shared" &
  writers+=($!)
done
wait "${writers[@]}" || fail "a writer of eight failed: $(cat "$folder/err.shared")"
cmp -s "$out/good.json" "$out/shared.json" || fail "what eight wrote at once is not whole"
holds_only good.json shared.json
rm "$out/shared.json"
long=$(printf '%0250d.json' 0)
works "${plan[@]}" "$out/$long"
holds_only "$long" good.json
rm "$out/$long"
refuses "files of such names are removed; expected another name" "${plan[@]}" "$left"

# Links are followed, also where they lead to no file yet.
ln -s target.json "$out/link.json" && ln -s link.json "$out/twice.json"
works "${plan[@]}" "$out/twice.json"
[[ -L $out/twice.json && -L $out/link.json && -f $out/target.json ]] || fail "a link that leads nowhere is not followed"
rm "$out"/{link,twice,target}.json
ln -s ring.json "$out/ring.json"
refuses "can't write '$out/ring.json': Too many levels of symbolic links" "${plan[@]}" "$out/ring.json"
rm "$out/ring.json"

# What is really wrong.
cp "$out/good.json" "$folder/good.json"
unchanged() {  # the old file is there, and nothing else
  cmp -s "$folder/good.json" "$out/good.json" || fail "a file that could not be written was changed: $*"
  holds_only good.json
}
refuses "can't write '$out/no/plan.json': No such file or directory; expected a file in a folder that exists" \
  "${plan[@]}" "$out/no/plan.json"
refuses "can't write '$out/good.json/plan.json': Not a directory; expected a file in a folder that exists" \
  "${plan[@]}" "$out/good.json/plan.json"
refuses "can't write '$out': Is a directory; expected a writable file" "${plan[@]}" "$out"
refuses "can't write '$out/good.json': File too large; expected files of $bytes bytes to be allowed (ulimit -f)" \
  bash -c 'ulimit -f 1; "$@"' - "${plan[@]}" "$out/good.json"
unchanged "a limit"
[[ ! -c /dev/full ]] ||
  refuses "can't write '/dev/full': No space left on device; expected room for $bytes bytes" "${plan[@]}" /dev/full
mkdir "$folder/small"
if mount -t tmpfs -o size=16k tmpfs "$folder/small" 2>/dev/null; then
  echo old >"$folder/small/plan.json"
  refuses "can't write '$folder/small/plan.json': No space left on device; expected room for $bytes bytes" \
    "${plan[@]}" "$folder/small/plan.json"
  [[ $(ls -A "$folder/small"):$(cat "$folder/small/plan.json") == plan.json:old ]] || fail "a full disk: not as it was"
  umount "$folder/small"
fi
unprivileged=()
if [[ $(id -u) == 0 ]]; then
  chmod 755 "$folder" && cp "$slimpack" "$folder/slimpack" && cp "$lengths" "$folder/lengths"
  unprivileged=(setpriv --reuid 65534 --regid 65534 --clear-groups "$folder/slimpack" plan --lengths "$folder/lengths"
    "${batch[@]:2}" --quiet -o)
else
  unprivileged=("${plan[@]}")
fi
if [[ $(id -u) != 0 ]] || setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
  allowed="a file that this user may write, in a folder that this user may write"
  chmod 555 "$out"
  refuses "can't write '$out/new.json': Permission denied; expected $allowed" "${unprivileged[@]}" "$out/new.json"
  chmod 777 "$out" && chmod 444 "$out/good.json"
  refuses "can't write '$out/good.json': Permission denied; expected $allowed" "${unprivileged[@]}" "$out/good.json"
  chmod 755 "$out" && chmod 644 "$out/good.json"
  unchanged "no permission"
fi

# No file is written that is read as well, or written otherwise, however it is called. Nothing is computed before.
cd "$out" || exit 1
cp "$lengths" lengths.txt
wlb=("$slimpack" plan --lengths lengths.txt --count 64 --context 65536 --truncate --model llama-7b --tp 8 --pp 4
  --planner wlb --queues none)
works "${wlb[@]}" --state s -o p.json
for name in s lengths.txt good.json; do
  ln "$name" "hard-$name"
  ln -s "$name" "soft-$name"
  cp "$name" "$folder/kept-$name"
done
keeps() {  # TEXT COMMAND...: refuses, and no file is changed
  local name
  refuses "$@"
  for name in s lengths.txt good.json; do cmp -s "$name" "$folder/kept-$name" || fail "$name was changed: ${*:2}"; done
}
for name in s ./s "$out/s" hard-s soft-s ../out.d/s; do
  keeps "--state 's' is the same file as --output '$name'; expected another one" "${wlb[@]}" --state s -o "$name"
done
for name in new ./new "$out/new" ../out.d/new; do  # as yet there is none
  keeps "--state 'new' is the same file as --output '$name'" "${wlb[@]}" --state new -o "$name"
done
ln -s new soft-new
keeps "--state 'soft-new' is the same file as --output 'new'" "${wlb[@]}" --state soft-new -o new
for name in lengths.txt ./lengths.txt hard-lengths.txt soft-lengths.txt; do
  keeps "--output '$name' is the same file as --lengths 'lengths.txt'" "${wlb[@]}" -o "$name"
  keeps "--state '$name' is the same file as --lengths 'lengths.txt'" "${wlb[@]}" --state "$name" -o new
  keeps "--html '$name' is the same file as --lengths 'lengths.txt'" "$slimpack" compare --lengths lengths.txt --count 64 \
    --context 65536 --truncate --html "$name"
done
for name in good.json hard-good.json soft-good.json; do
  keeps "--output '$name' is the same file as --plan 'good.json'" "$slimpack" trace good.json -o "$name"
  keeps "--output '$name' is the same file as --profile 'good.json'" "${wlb[@]}" --profile good.json -o "$name"
  keeps "--output '$name' is the same file as --device 'good.json'" "${wlb[@]}" --device good.json -o "$name"
done
keeps "--output 'lengths.txt' is the same file as --lengths '-'" bash -c '"$@" <lengths.txt' - \
  "$slimpack" plan --context 65536 --truncate -o lengths.txt
as_output() {  # TEXT FILE COMMAND...: what is refused where standard output goes to the end of a file
  "${@:3}" >>"$2" 2>"$folder/err"
  [[ $? == 2 ]] && grep -qF -- "$1" "$folder/err" || fail "'$1' is not said of $2: ${*:3}: $(cat "$folder/err")"
}
as_output "--output '-' is the same file as --lengths 'lengths.txt'" lengths.txt "${wlb[@]}"
as_output "standard output is the same file as --plan 'good.json'" good.json "$slimpack" check good.json
keeps "can't read the plan" "$slimpack" check none
refuses "holds no lengths" "$slimpack" plan --lengths /dev/null --context 64 -o /dev/null  # devices may be the same
works "${wlb[@]}" --state s -o /dev/null
cd - >/dev/null || exit 1

# A reader that has gone is no failure of the command: it ends without a word, with the status that shells have for it.
closed() {  # COMMAND...: for a reader that reads nothing
  : >"$folder/err"
  { "$@" 2>"$folder/err"; echo $? >"$folder/code"; } | true
  [[ $(cat "$folder/code") == 141 && ! -s $folder/err ]] || fail "a closed pipe: $(cat "$folder/code"), $(cat "$folder/err"): $*"
  rm "$folder/code"
}
late() { sleep 0.2; "$@"; }  # after the reader has gone
for arguments in --help --version presets "plan --help" "check $out/good.json" "trace $out/good.json"; do
  # shellcheck disable=SC2086
  closed late "$slimpack" $arguments
done
closed late "${plan[@]}" -
closed late "${plan[@]}" /dev/stdout
cp "$lengths" "$folder/lengths.txt"
closed late "$slimpack" plan --lengths "$folder/lengths.txt" --count 64 --context 65536 --truncate --model llama-7b --tp 8 \
  --pp 4 --planner wlb --queues none --state "$folder/state" --quiet
[[ ! -e $folder/state ]] || fail "the state moved on although nobody read the plan"

[[ $failed == 0 ]] && echo "all checks of the command's files passed"
exit $failed
