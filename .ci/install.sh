#!/usr/bin/env bash
# Installs those of the given Debian packages that are missing. Touches the network, and asks for root,
# only if one is. Without a package that ends in `?` it goes on where that can't be had.
# Usage: install.sh PACKAGE[?]...
set -euo pipefail

# A tool counts as there wherever it comes from; a library only as a package.
is_there() {
  case $1 in
    g++ | cmake | ccache) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    *) [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]] ;;
  esac
}

if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian system: make sure that these are installed: ${*//\?/}" >&2
  exit 0
fi

needed=() wished=()
for package in "$@"; do
  is_there "${package%\?}" && continue
  if [[ $package == *\? ]]; then wished+=("${package%\?}"); else needed+=("$package"); fi
done

as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
fi
install() {
  echo "installing: $*" >&2
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

if ((${#needed[@]} + ${#wished[@]} == 0)); then
  exit 0
elif ((${#wished[@]} == 0)); then
  install "${needed[@]}"
elif ! install "${needed[@]}" "${wished[@]}"; then
  echo "WARNING: can't install all of these; without ${wished[*]} it goes on" >&2
  if ((${#needed[@]} > 0)); then install "${needed[@]}"; fi
fi
