#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "slimpack/core/flops.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/exchange.hpp"
#include "slimpack/sharding/attention_model.hpp"

namespace slimpack {

/// A separable cost model whose attention takes a given time, the least of a kernel, for each pair of a query and a
/// key; slices are priced with it. It has the capabilities of the given model that plans are priced by, except polynomials.
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
  [[nodiscard]] double other_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return cost_.other_seconds(stage, begin, end, pass);
  }
  [[nodiscard]] double attention_seconds(std::size_t stage, Pass pass, double layer) const {
    return cost_.attention_seconds(stage, pass, layer);
  }
  [[nodiscard]] double recompute_seconds(std::size_t stage, Tokens begin,
                                         Tokens end) const requires RecomputingCostModel<M> {
    return cost_.recompute_other_seconds(stage, begin, end) + rate_.forward * twice_causal_pairs(begin, end);
  }
  [[nodiscard]] double recompute_other_seconds(std::size_t stage, Tokens begin,
                                               Tokens end) const requires RecomputingCostModel<M> {
    return cost_.recompute_other_seconds(stage, begin, end);
  }
  [[nodiscard]] double recompute_pack_seconds(std::size_t stage) const {
    return slimpack::recompute_pack_seconds(cost_, stage);
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return cost_.pack_seconds(stage, pass);
  }
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return cost_.transfer_seconds(stage, tokens, pass);
  }
  [[nodiscard]] double sync_seconds() const { return slimpack::sync_seconds(cost_); }
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const requires MergeableCostModel<M> {
    return cost_.supports_context_parallel(group);
  }
  [[nodiscard]] LeastAttentionCost with_context_parallel(std::int32_t group) const requires
      MergeableCostModel<M> {
    return {cost_.with_context_parallel(group), {rate_.forward / group, rate_.backward / group}};
  }
  [[nodiscard]] ExchangeSet exchanges() const requires ExchangingCostModel<M> { return cost_.exchanges(); }
  [[nodiscard]] LeastAttentionCost with_exchange(KeyExchange exchange) const requires ExchangingCostModel<M> {
    return {cost_.with_exchange(exchange), rate_};
  }

 private:
  M cost_;
  AttentionSeconds rate_;
};

/// The same model with attention that takes a given time for each pair; unchanged if it can't tell attention from the rest.
/// To stay a polynomial, a model may have its own `with_attention(per_twice_pair)`, which takes the same argument.
/// @param per_twice_pair if one rank did it all. @param cp context-parallel ranks of the model's pipelines.
template <CostModel M>
[[nodiscard]] auto with_attention(const M& cost, const AttentionSeconds& per_twice_pair, std::int32_t cp) {
  if constexpr (!SeparableCostModel<M>) {
    return cost;
  } else if constexpr (requires { cost.with_attention(per_twice_pair); }) {
    return M(cost.with_attention(per_twice_pair));
  } else {
    return LeastAttentionCost<M>(cost, {per_twice_pair.forward / cp, per_twice_pair.backward / cp});
  }
}

}  // namespace slimpack
