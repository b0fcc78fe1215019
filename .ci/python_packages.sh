#!/usr/bin/env bash
# Installs Python packages, whose headers a build uses, into a folder: for PYTHONPATH. One that is there is left as it is.
# Usage: python_packages.sh FOLDER PACKAGE==VERSION...
set -euo pipefail
folder=$1
shift
python=${SLIMPACK_PYTHON:-python3}
for package in "$@"; do
  name=${package%%==*}
  if compgen -G "$folder/${name//-/_}-${package##*==}*.dist-info" >/dev/null; then continue; fi
  echo "installing: $package" >&2
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --upgrade --no-deps --target "$folder" "$package"
done
