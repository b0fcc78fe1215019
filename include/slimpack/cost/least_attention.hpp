#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "slimpack/cost/attention_kernel.hpp"
#include "slimpack/cost/concepts.hpp"

namespace slimpack {

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
    const double rate = pass == Pass::forward ? rate_.forward : rate_.backward;
    return cost_.other_seconds(stage, begin, end, pass) +
           cost_.attention_seconds(stage, pass, rate * twice_causal_pairs(begin, end));
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return cost_.pack_seconds(stage, pass);
  }
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return cost_.transfer_seconds(stage, tokens, pass);
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
