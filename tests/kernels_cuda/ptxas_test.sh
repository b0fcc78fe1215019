#!/usr/bin/env bash
# Asks ptxas whether attention's kernels for Hopper keep what they hold in registers, and their products under way:
# no spills, and no products that it had to run one by one.
# Usage: ptxas_test.sh NVCC SOURCE_DIRECTORY
set -euo pipefail

report=$(mktemp)
trap 'rm -f "$report"' EXIT
"$1" -gencode=arch=compute_90a,code=sm_90a -std=c++20 --expt-relaxed-constexpr -O3 -I"$2" -I"$2/include" \
  -DSLIMPACK_CUDA_WGMMA -Xptxas=-v -cubin -o /dev/null "$2/kernels/cuda/attention.cu" 2>"$report"

fail() {
  echo "ptxas_test: $*" >&2
  exit 1
}

kernels=$(grep -c "Compiling entry function.*run_group_kernel.*sm_90a" "$report") ||
  fail "ptxas compiled no kernel of groups"
[[ $kernels == 6 ]] || fail "ptxas compiled $kernels kernels of groups; expected 6"
if grep "Potential Performance Loss" "$report" >&2; then
  fail "products are run one by one"
fi
if grep -A2 "Compiling entry function" "$report" | grep "bytes spill" | grep -v " 0 bytes spill stores" >&2; then
  fail "registers are spilled"
fi
