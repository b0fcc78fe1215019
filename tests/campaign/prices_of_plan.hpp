#pragma once

#include <algorithm>
#include <cmath>
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
#include "slimpack/plan/shards.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/plan_with_models.hpp"

// All that knows how models price a plan's packs and how plans keep these prices, in one place. It shares no code with what
// planners price packs by.
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
    const std::vector<Rank>& ranks = ranks_of(pass, pack);
    sum += slowest(ranks, [&](const Rank& rank) {
      double own = 0.0;
      if constexpr (priced)
        own += cost.attention_seconds(
            stage, pass, pass == Pass::forward ? rank.attention.forward : rank.attention.backward);
      if constexpr (shares_tokens) own += cost.token_seconds(stage, pass) * rank.extra_tokens;
      return own;
    });
    layer += slowest(ranks, [&](const Rank& rank) {
      double own = rank.attention.forward;
      if constexpr (shares_tokens && RecomputingCostModel<C>)
        own += cost.recompute_token_seconds(stage) * rank.extra_tokens;
      return own;
    });
    return recomputes ? sum + recompute_layers(pack)[stage] * layer : sum;
  }

  [[nodiscard]] double lag(Pass pass, std::size_t pack, std::size_t boundary) {
    const double extra = slowest(ranks_of(pass, pack), [](const Rank& rank) { return rank.extra_tokens; });
    return transfer_price(of(pass, pack), boundary,
                          count_tokens(plan_.of(pass).packs[pack]) + static_cast<Tokens>(std::lround(extra)),
                          pass);
  }

 private:
  static constexpr bool priced = !std::is_same_v<A, NoAttentionModel>;
  static constexpr bool shares_tokens = requires(const C& c) {
    c.token_seconds(std::size_t{}, Pass::forward);
  };

  /// What one rank has of a pack: attention of one layer, and tokens above an equal share, times the ranks.
  struct Rank {
    AttentionSeconds attention;
    double extra_tokens = 0.0;
  };

  template <class Seconds>
  [[nodiscard]] static double slowest(const std::vector<Rank>& ranks, const Seconds& seconds) {
    double most = seconds(ranks.front());
    for (const Rank& rank : ranks) most = std::max(most, seconds(rank));
    return most;
  }

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

  /// What each rank has of a pack.
  [[nodiscard]] const std::vector<Rank>& ranks_of(Pass pass, std::size_t pack) {
    if (last_.pass == pass && last_.pack == pack) return last_.ranks;
    const PassPlan& packs = plan_.of(pass);
    const Task task{pass, static_cast<PackId>(pack)};
    const std::int32_t ranks = context_ranks(plan_, task);
    last_ = {pass, pack, std::vector<Rank>(static_cast<std::size_t>(ranks))};
    if (packs.packs[pack].empty()) return last_.ranks;
    if (ranks > 1) add_shards(pack_shards(plan_, task), packs.sharding[pack], last_.ranks);
    if constexpr (priced) {
      if (ranks > 1 && packs.exchange_of(pack) != KeyExchange::all_to_all) return last_.ranks;
      const AttentionSeconds launch = attention_.launch_seconds();
      AttentionSeconds heads;
      for (const Slice& slice : packs.packs[pack]) heads += attention_.chunk_seconds(slice.begin, slice.end);
      heads = {heads.forward / ranks, heads.backward / ranks};
      heads += launch;
      for (Rank& rank : last_.ranks) rank.attention = heads;
    }
    return last_.ranks;
  }

  /// Other shardings than by position deal equal numbers of tokens, but for one.
  void add_shards(const ContextShards& shards, Sharding kind, std::vector<Rank>& out) const {
    for (std::size_t r = 0; r < out.size(); ++r) {
      if constexpr (priced) out[r].attention = attention_seconds(attention_, shards.ranks[r]);
      if (kind == Sharding::by_position)
        out[r].extra_tokens =
            static_cast<double>(out.size()) * static_cast<double>(count_tokens(shards.ranks[r])) -
            static_cast<double>(shards.tokens);
    }
  }

  struct Known {
    Pass pass = Pass::weight;
    std::size_t pack = 0;
    std::vector<Rank> ranks;
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
    set_lags(packs, [&](std::size_t k, std::size_t b) { return prices.lag(pass, k, b); });
  }
  plan.step.sync_seconds = sync_seconds(cost);
  plan.step.pipeline_seconds = time_plan(plan).seconds;
  plan.step.seconds = plan.step.pipeline_seconds + plan.step.sync_seconds;
}

}  // namespace campaign
