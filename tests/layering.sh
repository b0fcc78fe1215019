#!/usr/bin/env bash
# Fails when a header includes what stands after it in the library's order, or reaches an optional
# dependency without being listed for it in compile/optional.txt.
# Usage: layering.sh [INCLUDE_DIRECTORY]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=${1:-$here/../include}
order=(core model sharding milp cost partition slicing schedule dag strategy plan stream planners exec)

declare -A rank=()
for i in "${!order[@]}"; do rank[${order[i]}]=$i; done

# Sets `component` to what an include outside of the library and the standard library belongs to.
component_of() {
  component=
  case $1 in
    Eigen/*) component=eigen ;;
    boost/*) component=boost ;;
    nlohmann/*) component=json ;;
    glpk.h) component=glpk ;;
    coin/*) component=cbc ;;
    Highs.h | highs/* | interfaces/highs_c_api.h) component=highs ;;
    */* | *.h) component=unknown ;;
  esac
}

# Lines of compile/optional.txt: a component and a pattern of headers.
mapfile -t rules < <(grep -E '^[a-z]' "$here/compile/optional.txt")

# Whether compile/optional.txt lists header $2 for component $1.
listed() {
  local rule
  for rule in "${rules[@]}"; do
    # shellcheck disable=SC2053  # the pattern is meant to be one
    if [[ ${rule%% *} == "$1" && $2 == ${rule##* } ]]; then return 0; fi
  done
  return 1
}

errors=0
complain() {
  printf '%s\n' "$*" >&2
  errors=$((errors + 1))
}

check_internal() {  # header, included header
  local from=${1%%/*} to=${2%%/*} component
  if [[ $2 == version.hpp ]]; then return; fi
  if [[ -z ${rank[$to]-} ]]; then
    complain "slimpack/$1 includes slimpack/$2, which is in no known folder"
  elif [[ $1 == */* && ${rank[$from]} -lt ${rank[$to]} ]]; then
    complain "slimpack/$1 includes slimpack/$2, but $to stands after $from"
  fi
  for component in "${rules[@]%% *}"; do
    if listed "$component" "$2" && ! listed "$component" "$1"; then
      complain "slimpack/$1 needs $component through slimpack/$2, but optional.txt does not list it"
    fi
  done
}

check_external() {  # header, included header
  local component
  component_of "$2"
  if [[ -n $component ]] && ! listed "$component" "$1"; then
    complain "slimpack/$1 includes <$2>, but optional.txt does not list it for $component"
  fi
}

cd "$root/slimpack"
headers=0
while read -r header; do
  header=${header#./}
  headers=$((headers + 1))
  if [[ $header == */* && -z ${rank[${header%%/*}]-} ]]; then
    complain "slimpack/$header is in no known folder; there are: ${order[*]}"
    continue
  fi
  while read -r included; do
    case $included in
      \"slimpack/*)
        included=${included#\"slimpack/}
        check_internal "$header" "${included%%\"*}"
        ;;
      \"*) complain "slimpack/$header includes $included; headers are included as \"slimpack/…\"" ;;
      \<*)
        included=${included#<}
        check_external "$header" "${included%%>*}"
        ;;
    esac
  done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<].*)/\1/p' "$header")
done < <(find . -name '*.hpp' | sort)

if ((headers == 0)); then
  complain "$root/slimpack holds no headers"
fi
if ((errors > 0)); then
  echo "layering: $errors errors in $headers headers" >&2
  exit 1
fi
echo "layering: $headers headers, each includes only what stands before it"
