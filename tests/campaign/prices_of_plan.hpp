#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "settings.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/timeline.hpp"

// All that knows how models price a plan's packs and how plans keep these prices, in one place, because it differs
// between versions of the library: it compiles with those before and after transfers had a stage.
namespace campaign {

template <class Set, class Exchange>
void keep_ring(Set& set, bool (Set::*)(Exchange) const) {
  set = {Exchange::ring};
}

/// Lets keys go round a ring, and nothing else.
template <class O>
void allow_ring_alone(O& options) {
  if constexpr (requires { options.exchanges; }) {
    keep_ring(options.exchanges, &std::remove_cvref_t<decltype(options.exchanges)>::contains);
  } else {
    options.exchange = decltype(options.exchange)::ring;
  }
}

/// The models of a setting.
[[nodiscard]] inline CalibratedCost calibrated_cost(const Setting& s) {
  CalibratedOptions options{.offload = s.memory.offload};
  if (s.ring) allow_ring_alone(options);
  return CalibratedCost(s.job, options);
}
[[nodiscard]] inline TransformerMemory memory_model(const Setting& s, const Job& job) {
  return TransformerMemory(job, s.memory);
}

/// Seconds between the end of a pack on a stage and its earliest start on the next one, or back.
template <class P>
[[nodiscard]] double boundary_lag(const P& pass, std::size_t pack, std::size_t boundary) {
  if constexpr (requires { pass.transfer_seconds[pack][boundary]; }) {
    return pass.transfer_seconds[pack][boundary];
  } else {
    return pass.transfer_seconds[pack];
  }
}

/// Gives all packs of a pass new transfers. @param seconds of a pack between two stages.
template <class P, class Seconds>
void set_lags(P& pass, const Seconds& seconds) {
  if constexpr (requires(std::size_t k) { pass.transfer_seconds[k][k]; }) {
    pass.transfer_seconds = {};
    for (std::size_t k = 0; k < pass.packs.size(); ++k) {
      const std::span<double> row = pass.transfer_seconds.add_row(pass.seconds[k].size() - 1);
      for (std::size_t b = 0; b < row.size(); ++b) row[b] = seconds(k, b);
    }
  } else {
    for (std::size_t k = 0; k < pass.packs.size(); ++k) pass.transfer_seconds[k] = seconds(k, 0);
  }
}

/// Seconds that a model takes from one stage to the next.
template <class C>
[[nodiscard]] double transfer_price(const C& cost, std::size_t boundary, Tokens tokens, Pass pass) {
  if constexpr (requires { cost.transfer_seconds(boundary, tokens, pass); }) {
    return cost.transfer_seconds(boundary, tokens, pass);
  } else {
    return cost.transfer_seconds(tokens, pass);
  }
}

/// A plan's packs priced by another model, each with the members and the recomputation that it has.
template <class C>
class PackPrices {
 public:
  PackPrices(const Plan& plan, const C& cost) : plan_(plan), cost_(cost) {}

  [[nodiscard]] double seconds(Pass pass, std::size_t pack, std::size_t stage) {
    const C& cost = of(pass, pack);
    double sum = cost.pack_seconds(stage, pass);
    for (const Slice& slice : plan_.of(pass).packs[pack]) {
      sum += cost.slice_seconds(stage, slice.begin, slice.end, pass);
      if constexpr (requires { cost.recompute_seconds(stage, slice.begin, slice.end); }) {
        if (!priced_with_recompute && pass == Pass::backward)
          sum += again(pack)[stage] * cost.recompute_seconds(stage, slice.begin, slice.end);
      }
    }
    return sum;
  }

  [[nodiscard]] double lag(Pass pass, std::size_t pack, std::size_t boundary) {
    return transfer_price(of(pass, pack), boundary, count_tokens(plan_.of(pass).packs[pack]), pass);
  }

 private:
  /// Whether the library's own model has `with_recompute`, so that `slice_seconds` holds what is computed again.
  template <class L>
  static constexpr bool has_with_recompute = requires(const L& c, std::span<const std::int32_t> r) {
    c.with_recompute(r);
  };
  static constexpr bool priced_with_recompute = has_with_recompute<CalibratedCost>;

  using Key = std::pair<std::size_t, std::vector<std::int32_t>>;

  [[nodiscard]] std::span<const std::int32_t> again(std::size_t pack) const {
    return plan_.backward.recompute_layers[pack];
  }

  [[nodiscard]] const C& of(Pass pass, std::size_t pack) {
    Key key{plan_.of(pass).pipelines[pack].size(), {}};
    if (priced_with_recompute && pass == Pass::backward)
      key.second.assign(again(pack).begin(), again(pack).end());
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_.emplace(key, make(key)).first->second;
  }

  [[nodiscard]] C make(const Key& key) const {
    C cost = cost_;
    if constexpr (priced_with_recompute && requires { cost_.with_recompute(key.second); }) {
      if (!key.second.empty()) cost = cost_.with_recompute(key.second);
    }
    if constexpr (MergeableCostModel<C>) {
      if (key.first > 1) return cost.with_context_parallel(static_cast<std::int32_t>(key.first));
    }
    return cost;
  }

  const Plan& plan_;
  const C& cost_;
  std::map<Key, C> known_;
};

/// Gives a plan the prices of a model of its pipelines, and its step the time that follows. The lower bound and the
/// peaks of memory stay as they are.
template <class C>
void price_anew(Plan& plan, const C& cost) {
  PackPrices<C> prices(plan, cost);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      const std::span<double> row = packs.seconds[k];
      for (std::size_t s = 0; s < row.size(); ++s) row[s] = prices.seconds(pass, k, s);
    }
    set_lags(packs, [&](std::size_t k, std::size_t b) { return prices.lag(pass, k, b); });
  }
  plan.step.sync_seconds = sync_seconds(cost);
  plan.step.pipeline_seconds = time_plan(plan).seconds;
  plan.step.seconds = plan.step.pipeline_seconds + plan.step.sync_seconds;
}

}  // namespace campaign
