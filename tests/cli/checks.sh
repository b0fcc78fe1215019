# What the tests of the command share. Sourced; expects nothing, sets folder and failed.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

fail() { echo "FAILED: $*"; failed=1; }

# refuses TEXT COMMAND...: exit code 2, one line on standard error that holds TEXT, nothing on standard output.
refuses() {
  local text=$1
  shift
  "$@" >"$folder/out" 2>"$folder/err" </dev/null
  local code=$?
  [[ $code == 2 ]] || fail "exit code $code, expected 2: $*"
  [[ $(grep -cv ' plans made in ' "$folder/err") == 1 ]] || fail "not one line on standard error: $*: $(cat "$folder/err")"
  grep -qF -- "$text" "$folder/err" || fail "'$text' is not in: $(cat "$folder/err")"
  [[ ! -s $folder/out ]] || fail "wrote to standard output: $*"
}

# works COMMAND...: exit code 0, nothing on standard error but progress, where this machine is slow.
works() {
  "$@" >"$folder/out" 2>"$folder/err" </dev/null || fail "exit code $?: $*: $(cat "$folder/err")"
  ! grep -qv ' plans made in ' "$folder/err" || fail "wrote to standard error: $*: $(cat "$folder/err")"
}

# file NAME TEXT: a new file, whose path it prints.
file() { printf '%b' "$2" >"$folder/$1"; echo "$folder/$1"; }
