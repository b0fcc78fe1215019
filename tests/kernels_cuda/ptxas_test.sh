#!/usr/bin/env bash
# Compiles all kernels for every architecture that slimpack supports, and asks ptxas whether they keep what they hold in
# registers, and Hopper's products under way: no spills, and no products that it had to run one by one.
# Usage: ptxas_test.sh NVCC SOURCE_DIRECTORY; with an empty NVCC it is skipped, with exit code 77
set -euo pipefail
nvcc=$1 source=$2
[[ -n $nvcc ]] || exit 77
architectures=(80 90a 100)

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
fail() {
  echo "ptxas_test: $*" >&2
  exit 1
}

# One compiler for each file and one of its threads for each architecture: device code alone, the host's is the build's.
codes=()
for architecture in "${architectures[@]}"; do
  codes+=("-gencode=arch=compute_$architecture,code=sm_$architecture")
done
files=("$source"/kernels/cuda/*.cu)
((${#files[@]} > 1)) || fail "there are no kernels in $source/kernels/cuda"
for file in "${files[@]}"; do
  "$nvcc" "${codes[@]}" --threads "${#architectures[@]}" -std=c++20 --expt-relaxed-constexpr -O3 -I"$source" -I"$source/include" \
    -DSLIMPACK_CUDA_WGMMA -Xptxas=-v -fatbin -o /dev/null "$file" 2>"$reports/$(basename "$file")" ||
    fail "$(basename "$file") does not compile: $(tail -5 "$reports/$(basename "$file")")"
done

# Builds for first runs, whose waits are bounded, have to do with the same registers.
"$nvcc" -gencode=arch=compute_90a,code=sm_90a -std=c++20 --expt-relaxed-constexpr -O3 -I"$source" -I"$source/include" -DSLIMPACK_CUDA_WGMMA \
  -DSLIMPACK_CUDA_BOUNDED_WAITS -Xptxas=-v -fatbin -o /dev/null "$source/kernels/cuda/attention.cu" 2>"$reports/bounded_waits" ||
  fail "attention.cu does not compile with bounded waits: $(tail -5 "$reports/bounded_waits")"

# FILE PATTERN: for each architecture, how many kernels match.
count() {
  for architecture in "${architectures[@]}"; do
    grep -c "Compiling entry function '[^']*$2[^']*' for 'sm_$architecture'" "$reports/$1" || true
  done | paste -s -d' '
}
# Hopper's kernels are empty elsewhere, but there.
[[ $(count attention.cu run_group_kernel) == "6 6 6" ]] ||
  fail "kernels of groups: $(count attention.cu run_group_kernel), for ${architectures[*]}; expected 6 of each"
[[ $(count attention.cu run_kernel) == "7 7 7" ]] ||
  fail "attention's other kernels: $(count attention.cu run_kernel), for ${architectures[*]}; expected 7 of each"
for file in "${files[@]}"; do
  name=$(basename "$file")
  read -r one two three <<<"$(count "$name" '')"
  ((one > 0)) && [[ $one == "$two" && $one == "$three" ]] ||
    fail "$name has $one, $two and $three kernels for ${architectures[*]}; expected as many for each"
done

if grep "Potential Performance Loss" "$reports"/* >&2; then
  fail "products are run one by one"
fi
# A report names a kernel, then says what it spills.
if awk '/Compiling entry function/ { kernel = $0; kernels++ }
        /bytes spill stores/ { seen++; if (!/ 0 bytes spill stores, 0 bytes spill loads/) { print FILENAME ": " kernel; print; bad = 1 } }
        END { exit bad || !kernels || seen < kernels ? 0 : 1 }' "$reports"/* >&2; then
  fail "registers are spilled, or ptxas does not say"
fi
