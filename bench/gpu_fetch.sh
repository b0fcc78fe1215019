#!/usr/bin/env bash
# Fetches what a machine with a GPU and without a network may lack to run gpu.sh, into one folder that can be carried
# there: Eigen, nlohmann_json and cuDNN's front end, all of them headers, of less than 64 MB. gpu.sh takes them from
# build/carried. Needs apt-get and dpkg, as Debian has them, with up-to-date lists (apt-get update), and pip.
# Usage: gpu_fetch.sh [FOLDER]   default: build/carried
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/carried} most=64 # MB
mkdir -p "$folder"
folder=$(realpath "$folder")

packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
(cd "$packages" && apt-get download -q libeigen3-dev nlohmann-json3-dev) ||
  { echo "gpu_fetch.sh: apt-get can't download; expected lists of packages: apt-get update makes them" >&2 && exit 1; }
for package in "$packages"/*.deb; do dpkg -x "$package" "$folder"; done
rm -rf "$folder/usr/share/doc" "$folder/usr/share/pkgconfig"
.ci/python_packages.sh "$folder/python" nvidia-cudnn-frontend==1.32.0
find "$folder/python" -mindepth 1 -maxdepth 1 ! -name include ! -name '*.dist-info' -exec rm -rf {} +

for file in usr/include/eigen3/Eigen/Core usr/include/nlohmann/json.hpp python/include/cudnn_frontend.h; do
  [[ -e $folder/$file ]] || { echo "gpu_fetch.sh: $file did not come; expected it in $folder" >&2 && exit 1; }
done
size=$(du -sm "$folder" | cut -f 1)
((size < most)) || { echo "gpu_fetch.sh: $folder has $size MB; expected less than $most" >&2 && exit 1; }
echo "$folder: $size MB"
