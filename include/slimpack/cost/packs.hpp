#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/inverse.hpp"

namespace slimpack {

/// Durations of packs on every stage: the sum over the slices plus the constant of a pack.
/// @param[out] seconds appended, `cost.stages()` numbers per pack. @param[out] transfer appended, one per pack.
/// O(slices + packs * stages) for a quadratic model, else O((slices + packs) * stages).
template <CostModel M>
void append_pack_times(const Packs& packs, const M& cost, Pass pass, std::vector<double>& seconds,
                       std::vector<double>& transfer) {
  const std::size_t stages = cost.stages();
  std::size_t row = seconds.size();
  seconds.resize(row + packs.size() * stages);
  bool quadratic = false;
  if constexpr (QuadraticCostModel<M>) quadratic = cost.is_quadratic();
  for (std::size_t k = 0; k < packs.size(); ++k, row += stages) {
    const std::span<const Slice> pack = packs[k];
    const Tokens tokens = count_tokens(pack);
    transfer.push_back(cost.transfer_seconds(tokens, pass));
    if constexpr (QuadraticCostModel<M>) {
      if (quadratic) {
        double pairs = 0.0;
        for (const Slice& slice : pack) pairs += twice_causal_pairs(slice.begin, slice.end);
        for (std::size_t s = 0; s < stages; ++s) {
          const SliceCoefficients c = cost.coefficients(s, pass);
          seconds[row + s] = cost.pack_seconds(s, pass) + c.per_token * static_cast<double>(tokens) +
                             c.per_twice_pair * pairs;
        }
        continue;
      }
    }
    for (std::size_t s = 0; s < stages; ++s) {
      double sum = cost.pack_seconds(s, pass);
      for (const Slice& slice : pack) sum += cost.slice_seconds(s, slice.begin, slice.end, pass);
      seconds[row + s] = sum;
    }
  }
}

}  // namespace slimpack
