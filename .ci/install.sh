#!/usr/bin/env bash
# Installs those of the given Debian packages that are missing. Touches the network, and asks for root,
# only if one is.
# Usage: install.sh PACKAGE...
set -euo pipefail

# A tool counts as there wherever it comes from; a library only as a package.
is_there() {
  case $1 in
    g++ | cmake) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    *) [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]] ;;
  esac
}

if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian system: make sure that these are installed: $*" >&2
  exit 0
fi

missing=()
for package in "$@"; do
  is_there "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
fi
echo "installing: ${missing[*]}" >&2
"${as_root[@]}" apt-get update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
