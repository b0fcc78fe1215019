#pragma once

#include <cassert>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/attention_kernel.hpp"
#include "slimpack/cost/packs.hpp"

namespace slimpack {

/// Durations of packs that context-parallel ranks share unequally: all wait for the one whose attention takes
/// longest (WLB-LLM, section 3.1), everything else is shared equally. A cost model that can't tell attention
/// from the rest gives its own prices, as if attention were shared equally, too.
/// @param attention of each pack: one layer, the slowest rank of each pass.
/// @param[out] seconds appended, `cost.stages()` numbers per pack. @param[out] transfer appended, one per pack.
/// @pre attention.size() == packs.size(). O((slices + packs) * stages).
template <CostModel M>
void append_sharded_pack_times(const Packs& packs, std::span<const AttentionSeconds> attention, const M& cost,
                               Pass pass, std::vector<double>& seconds, std::vector<double>& transfer) {
  assert(attention.size() == packs.size());
  if constexpr (SeparableCostModel<M>) {
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (std::size_t s = 0; s < cost.stages(); ++s) {
        double sum = cost.pack_seconds(s, pass) +
                     cost.attention_seconds(s, pass, attention[k].forward, attention[k].backward);
        for (const Slice& slice : packs[k]) sum += cost.other_seconds(s, slice.begin, slice.end, pass);
        seconds.push_back(sum);
      }
      transfer.push_back(cost.transfer_seconds(count_tokens(packs[k]), pass));
    }
  } else {
    append_pack_times(packs, cost, pass, seconds, transfer);
  }
}

/// A separable cost model whose attention takes a given time for each pair of a query and a key, as no kernel
/// takes less: what lower bounds are stated with. A CostModel; mergeable where the other is.
template <SeparableCostModel M>
class LeastAttentionCost {
 public:
  /// @param per_twice_pair seconds of one layer per unit of `twice_causal_pairs`, on each rank, all sharing them.
  LeastAttentionCost(M cost, const AttentionSeconds& per_twice_pair)
      : cost_(std::move(cost)), rate_(per_twice_pair) {}

  [[nodiscard]] std::size_t stages() const { return cost_.stages(); }
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    const double pairs = twice_causal_pairs(begin, end);
    return cost_.other_seconds(stage, begin, end, pass) +
           cost_.attention_seconds(stage, pass, rate_.forward * pairs, rate_.backward * pairs);
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return cost_.pack_seconds(stage, pass);
  }
  [[nodiscard]] double transfer_seconds(Tokens tokens, Pass pass) const {
    return cost_.transfer_seconds(tokens, pass);
  }
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const requires MergeableCostModel<M> {
    return cost_.supports_context_parallel(group);
  }
  [[nodiscard]] LeastAttentionCost with_context_parallel(std::int32_t group) const requires
      MergeableCostModel<M> {
    return {cost_.with_context_parallel(group), {rate_.forward / group, rate_.backward / group}};
  }

 private:
  M cost_;
  AttentionSeconds rate_;
};

}  // namespace slimpack
