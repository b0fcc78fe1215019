#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/cost/prices.hpp"
#include "slimpack/schedule/pack_attention_times.hpp"
#include "slimpack/sharding/by_position.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// Durations of the packs of one pass, and how ranks share them.
struct PassTimes {
  std::vector<double> seconds = {};   ///< [pack * stages + stage]
  std::vector<double> transfer = {};  ///< [pack * (stages - 1) + stage] between this stage and the next
  PackSharing sharing = {};
};

/// Decides how ranks share the packs of both passes, and prices the packs accordingly. Keeps its memory between calls.
///
/// - Sharding: by position, so that a token is on the same rank however the passes cut its sample. If both passes run the
///   same packs of whole samples, each pack with at least as many tokens as ranks is sharded by a policy instead. Without an
///   attention model to choose by, that is per sequence, unless the policy is per document. Where ranks share attention by
///   heads alone, chunks are small, so that ranks hold nearly as many tokens.
/// - Exchange of keys: the way in which exchange and attention together take least time. Ranks share attention by heads if
///   they exchange by all-to-all, otherwise by the tokens that they hold. All packs that the same number of pipelines share
///   exchange in the same way, because a sample's keys stay where they are; if both passes run the same packs of whole
///   samples, each pack has a way of its own.
class PackPricer {
 public:
  /// @param prices have to outlive this.
  explicit PackPricer(GroupPrices& prices) : prices_(prices), attention_(prices) {}

  /// @param lengths of all samples. @param policy used if both passes run the same packs of whole samples.
  /// O(slices * ranks + packs * stages) if the prices are polynomial, else O((slices + packs) * stages + slices * ranks);
  /// plus that of `PackAttention::shard`.
  void operator()(std::span<const Tokens> lengths, const PackRows& forward, const PackRows& backward,
                  PassTimes& forward_times, PassTimes& backward_times,
                  ShardingPolicy policy = ShardingPolicy::adaptive) {
    price_slices(forward, Pass::forward, forward_times);
    price_slices(backward, Pass::backward, backward_times);
    share(lengths, forward, backward, forward_times, backward_times, policy);
  }

  /// The same for packs whose slices are priced already (`price_slices`).
  void share(std::span<const Tokens> lengths, const PackRows& forward, const PackRows& backward,
             PassTimes& forward_times, PassTimes& backward_times,
             ShardingPolicy policy = ShardingPolicy::adaptive) {
    const bool same = same_whole_samples(lengths, forward, backward);
    shard(forward, same, policy, forward_times.sharing);
    attention_.find(forward, forward_times.sharing, Pass::forward);
    if (same) {
      attention_.find(backward, forward_times.sharing, Pass::backward);
      choose_exchange_of_each(forward, forward_times.sharing);
      backward_times.sharing = forward_times.sharing;
    } else {
      shard(backward, false, policy, backward_times.sharing);
      attention_.find(backward, backward_times.sharing, Pass::backward);
      choose_exchange(forward, backward, forward_times.sharing, backward_times.sharing);
    }
    price_as_attended(forward, Pass::forward, forward_times);
    price_as_attended(backward, Pass::backward, backward_times);
  }

  /// Prices the slices and constants of packs, and their transfers; however the packs are run, they take no less.
  /// O(slices + packs * stages) if the prices are polynomial, else O((slices + packs) * stages).
  void price_slices(const PackRows& rows, Pass pass, PassTimes& out) {
    const std::size_t stages = prices_.alone().stages();
    out.seconds.resize(rows.packs.size() * stages);
    out.transfer.resize(rows.packs.size() * (stages - 1));
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      const std::span<const Slice> pack = rows.packs[k];
      const Prices& own = prices_.shared_by(rows.sharers[k]);
      const std::span<double> seconds(out.seconds.data() + k * stages, stages);
      own.price_pack(pack, pass, seconds);
      if (attention_.model() && pack.empty()) own.price_attention(pack, pass, 0.0, seconds);
      own.transfer_seconds(count_tokens(pack), pass, {out.transfer.data() + k * (stages - 1), stages - 1});
    }
  }

  /// Prices packs that ranks share as `out.sharing` says. O(slices * ranks + packs * stages) if the prices are polynomial,
  /// else O((slices + packs) * stages + slices * ranks).
  void price_as_shared(const PackRows& rows, Pass pass, PassTimes& out) {
    price_slices(rows, pass, out);
    attention_.find(rows, out.sharing, pass);
    price_as_attended(rows, pass, out);
  }

  /// Prices recomputing one layer of each stage, for each backward pack. @param[out] seconds [pack * stages + stage].
  /// @pre the cost model prices recomputation.
  void price_recompute(const PackRows& rows, const PackSharing& sharing, std::vector<double>& seconds) {
    const std::size_t stages = prices_.alone().stages();
    seconds.resize(rows.packs.size() * stages);
    attention_.find(rows, sharing, Pass::forward);
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      const std::span<double> out(seconds.data() + k * stages, stages);
      const Prices& own = prices_of(rows, k, sharing);
      if (attention_.model()) {
        own.price_recompute(rows.packs[k], attention_.seconds(Pass::forward, k, sharing.exchange[k]), out);
      } else {
        own.price_recompute(rows.packs[k], out);
      }
    }
  }

 private:
  [[nodiscard]] const Prices& prices_of(const PackRows& rows, std::size_t k, const PackSharing& sharing) {
    return prices_.shared_by(rows.sharers[k]).with_exchange(sharing.exchange[k]);
  }

  /// Adds what packs take beyond their slices: the exchange of keys that was chosen, and attention. @pre attention was found
  /// for these packs; slices are priced.
  void price_as_attended(const PackRows& rows, Pass pass, PassTimes& out) {
    const std::size_t stages = prices_.alone().stages();
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      const std::span<const Slice> pack = rows.packs[k];
      const std::span<double> seconds(out.seconds.data() + k * stages, stages);
      const KeyExchange exchange = out.sharing.exchange[k];
      const Prices& all = prices_.shared_by(rows.sharers[k]);
      const Prices& own = all.with_exchange(exchange);
      if (&own != &all) own.price_pack(pack, pass, seconds);
      if (attention_.model() && (&own != &all || !pack.empty()))
        own.price_attention(pack, pass, attention_.seconds(pass, k, exchange), seconds);
    }
  }

  [[nodiscard]] static bool same_whole_samples(std::span<const Tokens> lengths, const PackRows& forward,
                                               const PackRows& backward) {
    const auto whole = [&](const Slice& slice) {
      return slice.begin == 0 && slice.end == lengths[slice.sample];
    };
    const std::span<const Slice> slices = forward.packs.slices();
    return slices.size() == backward.packs.slices().size() &&
           std::all_of(slices.begin(), slices.end(), whole) && forward.packs == backward.packs &&
           forward.members == backward.members && forward.sharers == backward.sharers;
  }

  /// @param choose whether packs may be sharded in another way than by position.
  void shard(const PackRows& rows, bool choose, ShardingPolicy policy, PackSharing& out) {
    out.sharding.clear();
    out.per_document.clear();
    out.attention.clear();
    out.block = block_of(rows);
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      const std::int32_t ranks = prices_.shared_by(rows.sharers[k]).ranks();
      const Tokens tokens = count_tokens(rows.packs[k]);
      const bool chosen = choose && ranks > 1 && (tokens == 0 || tokens >= ranks);
      if (chosen && attention_.model()) {
        attention_.model()->shard(rows.packs[k], ranks, policy, out);
      } else {
        out.sharding.push_back(ranks == 1                               ? Sharding::none
                               : !chosen                                ? Sharding::by_position
                               : policy == ShardingPolicy::per_document ? Sharding::per_document
                                                                        : Sharding::per_sequence);
        out.attention.emplace_back();
        out.per_document.close();
      }
    }
    out.exchange.assign(rows.packs.size(), KeyExchange::none);
  }

  /// Tokens of a chunk of packs that are shared by position.
  [[nodiscard]] Tokens block_of(const PackRows& rows) {
    const auto by_tokens = [&](std::uint32_t n) {
      return prices_.shared_by(n).ranks() > 1 && !shares_by_heads_alone(prices_, n);
    };
    if (std::none_of(rows.sharers.begin(), rows.sharers.end(), by_tokens)) return block_by_heads;
    return attention_.model() ? attention_.model()->block() : default_ownership_block;
  }

  using WaySums = std::array<double, key_exchanges.size()>;

  /// Chooses a way for each pack by itself; both passes run the same packs.
  void choose_exchange_of_each(const PackRows& rows, PackSharing& sharing) {
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      WaySums sums{};
      add_ways(rows, k, Pass::forward, sums);
      add_ways(rows, k, Pass::backward, sums);
      sharing.exchange[k] = best_way(rows.sharers[k], sums);
    }
  }

  /// Chooses one way for all packs that the same number of pipelines share.
  void choose_exchange(const PackRows& forward, const PackRows& backward, PackSharing& forward_sharing,
                       PackSharing& backward_sharing) {
    sums_.assign(prices_.largest() + 1, {});
    for (std::size_t k = 0; k < forward.packs.size(); ++k)
      add_ways(forward, k, Pass::forward, sums_[forward.sharers[k]]);
    for (std::size_t k = 0; k < backward.packs.size(); ++k)
      add_ways(backward, k, Pass::backward, sums_[backward.sharers[k]]);
    for (std::size_t k = 0; k < forward.packs.size(); ++k)
      forward_sharing.exchange[k] = best_way(forward.sharers[k], sums_[forward.sharers[k]]);
    for (std::size_t k = 0; k < backward.packs.size(); ++k)
      backward_sharing.exchange[k] = best_way(backward.sharers[k], sums_[backward.sharers[k]]);
  }

  /// Adds, for each way to exchange, what a pack's slices and its attention take on all stages.
  void add_ways(const PackRows& rows, std::size_t k, Pass pass, WaySums& sums) {
    const Prices& prices = prices_.shared_by(rows.sharers[k]);
    if (prices.ways().size() < 2) return;
    for (std::size_t w = 0; w < prices.ways().size(); ++w) {
      const Prices& own = prices.with_exchange(prices.ways()[w]);
      sums[w] += own.pipeline_seconds(rows.packs[k], pass);
      if (attention_.model())
        sums[w] += prices.pipeline_attention_seconds(attention_.seconds(pass, k, prices.ways()[w]), pass);
    }
  }

  [[nodiscard]] KeyExchange best_way(std::size_t sharers, const WaySums& sums) {
    const std::span<const KeyExchange> ways = prices_.shared_by(sharers).ways();
    if (ways.empty()) return KeyExchange::none;
    const auto end = sums.begin() + static_cast<std::ptrdiff_t>(ways.size());
    return ways[static_cast<std::size_t>(std::min_element(sums.begin(), end) - sums.begin())];
  }

  GroupPrices& prices_;
  PackAttentionTimes attention_;
  std::vector<WaySums> sums_;  // [pipelines that share a pack]
};

}  // namespace slimpack
