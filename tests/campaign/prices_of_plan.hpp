#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "ring.hpp"
#include "settings.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/shards.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/plan_with_models.hpp"

// All that knows how models price a plan's packs and how plans keep these prices, in one place. It shares no code with what
// planners price packs by.
namespace campaign {

/// The models of a setting.
[[nodiscard]] inline CalibratedCost calibrated_cost(const Setting& s) {
  CalibratedOptions options{.offload = s.memory.offload};
  if (s.ring) allow_ring_alone(options);
  return CalibratedCost(s.job, options);
}
[[nodiscard]] inline TransformerMemory memory_model(const Setting& s, const Job& job) {
  return TransformerMemory(job, s.memory);
}

/// A plan's packs priced by another model, each with the members, the sharding, the exchange and the recomputation that
/// it has. Attention is counted chunk by chunk of each rank's shard.
/// @tparam A an attention model, or NoAttentionModel.
template <class C, class A>
class PackPrices {
 public:
  PackPrices(const Plan& plan, const C& cost, const A& attention)
      : plan_(plan), cost_(cost), attention_(attention) {
    if constexpr (priced) cost_ = cost.with_attention(attention.least_seconds_per_twice_pair());
  }

  [[nodiscard]] double seconds(Pass pass, std::size_t pack, std::size_t stage) {
    const C& cost = of(pass, pack);
    const bool recomputes = pass == Pass::backward && recompute_layers(pack)[stage] > 0;
    double sum = cost.pack_seconds(stage, pass), layer = 0.0;
    for (const Slice& slice : plan_.of(pass).packs[pack]) {
      if constexpr (priced) {
        sum += cost.other_seconds(stage, slice.begin, slice.end, pass);
        if (recomputes) layer += cost.recompute_other_seconds(stage, slice.begin, slice.end);
      } else {
        sum += cost.slice_seconds(stage, slice.begin, slice.end, pass);
        if constexpr (RecomputingCostModel<C>) {
          if (recomputes) layer += cost.recompute_seconds(stage, slice.begin, slice.end);
        }
      }
    }
    if constexpr (priced) {
      const AttentionSeconds kernel = slowest_rank(pass, pack);
      sum += cost.attention_seconds(stage, pass, pass == Pass::forward ? kernel.forward : kernel.backward);
      layer += kernel.forward;
    }
    return recomputes ? sum + recompute_layers(pack)[stage] * layer : sum;
  }

  [[nodiscard]] double lag(Pass pass, std::size_t pack, std::size_t boundary) {
    return of(pass, pack).transfer_seconds(boundary, count_tokens(plan_.of(pass).packs[pack]), pass);
  }

 private:
  static constexpr bool priced = !std::is_same_v<A, NoAttentionModel>;

  /// Members and exchange.
  using Key = std::pair<std::size_t, KeyExchange>;

  [[nodiscard]] std::span<const std::int32_t> recompute_layers(std::size_t pack) const {
    return plan_.backward.recompute_layers[pack];
  }

  [[nodiscard]] const C& of(Pass pass, std::size_t pack) {
    const Key key{plan_.of(pass).pipelines[pack].size(), plan_.of(pass).exchange_of(pack)};
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_.emplace(key, make(key)).first->second;
  }

  [[nodiscard]] C make(const Key& key) const {
    C cost = cost_;
    if constexpr (MergeableCostModel<C>) {
      if (key.first > 1) cost = cost.with_context_parallel(static_cast<std::int32_t>(key.first));
    }
    if constexpr (ExchangingCostModel<C>) {
      if (key.second != KeyExchange::none) cost = cost.with_exchange(key.second);
    }
    return cost;
  }

  /// One layer's attention on the slowest rank of a pack.
  [[nodiscard]] AttentionSeconds slowest_rank(Pass pass, std::size_t pack) {
    if (last_.pass == pass && last_.pack == pack) return last_.seconds;
    const PassPlan& packs = plan_.of(pass);
    const Task task{pass, static_cast<PackId>(pack)};
    const std::int32_t ranks = context_ranks(plan_, task);
    AttentionSeconds most;
    if (packs.packs[pack].empty()) return most;
    if (packs.exchange_of(pack) == KeyExchange::all_to_all) {
      const AttentionSeconds launch = attention_.launch_seconds();
      for (const Slice& slice : packs.packs[pack]) most += attention_.chunk_seconds(slice.begin, slice.end);
      most = {most.forward / ranks, most.backward / ranks};
      most += launch;
    } else if (ranks == 1) {
      most = attention_seconds(attention_, packs.packs[pack]);
    } else {
      const ContextShards shards = pack_shards(plan_, task);
      for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
        const AttentionSeconds own = attention_seconds(attention_, shards.ranks[r]);
        most = {std::max(most.forward, own.forward), std::max(most.backward, own.backward)};
      }
    }
    last_ = {pass, pack, most};
    return most;
  }

  struct Known {
    Pass pass = Pass::weight;
    std::size_t pack = 0;
    AttentionSeconds seconds;
  };

  const Plan& plan_;
  C cost_;
  const A& attention_;
  std::map<Key, C> known_;
  Known last_;  // the pack that was looked at last, on all stages
};

/// Gives a plan the prices of a model of its pipelines, and its step the time that follows. The lower bound and the
/// peaks of memory stay as they are.
template <class C, class A>
void price_anew(Plan& plan, const C& cost, const A& attention) {
  PackPrices<C, A> prices(plan, cost, attention);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      const std::span<double> row = packs.seconds[k];
      for (std::size_t s = 0; s < row.size(); ++s) row[s] = prices.seconds(pass, k, s);
    }
    packs.transfer_seconds = {};
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      const std::span<double> row = packs.transfer_seconds.add_row(packs.seconds[k].size() - 1);
      for (std::size_t b = 0; b < row.size(); ++b) row[b] = prices.lag(pass, k, b);
    }
  }
  plan.step.sync_seconds = sync_seconds(cost);
  plan.step.pipeline_seconds = time_plan(plan).seconds;
  plan.step.seconds = plan.step.pipeline_seconds + plan.step.sync_seconds;
}

}  // namespace campaign
