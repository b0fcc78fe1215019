#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "slimpack/cost/prices.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// Whether ranks can share the attention of packs of so many pipelines by heads alone.
[[nodiscard]] inline bool shares_by_heads_alone(GroupPrices& prices, std::size_t sharers) {
  const std::span<const KeyExchange> ways = prices.shared_by(sharers).ways();
  return ways.size() == 1 && ways[0] == KeyExchange::all_to_all;
}

/// What attention of one layer takes for each pack on the slowest rank, in each way to exchange keys. Keeps its memory between
/// calls.
class PackAttentionTimes {
 public:
  /// @param prices have to outlive this.
  explicit PackAttentionTimes(GroupPrices& prices) : prices_(prices) {
    if (const PackAttention* const model = prices.alone().attention()) model_ = model->clone();
  }

  /// The attention model; null if ranks are assumed to share attention equally.
  [[nodiscard]] PackAttention* model() const { return model_.get(); }

  /// Finds the attention of all packs of a pass, however they exchange keys. Without a model it does nothing.
  /// O(slices * ranks).
  void find(const PackRows& rows, const PackSharing& sharing, Pass pass) {
    if (!model_) return;
    std::vector<OfPack>& out = times_[pass == Pass::forward ? 0 : 1];
    out.clear();
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      const Prices& prices = prices_.shared_by(rows.sharers[k]);
      if (sharing.sharding[k] == Sharding::none) {
        const double seconds = model_->by_heads(rows.packs[k], 1, pass);
        out.push_back({seconds, seconds});
        continue;
      }
      OfPack& own = out.emplace_back();
      const AttentionSeconds& chosen = sharing.attention[k];
      if (sharing.sharding[k] != Sharding::by_position) {
        own.by_tokens = pass == Pass::forward ? chosen.forward : chosen.backward;
      } else if (!shares_by_heads_alone(prices_, rows.sharers[k])) {
        own.by_tokens = model_->by_position(rows.packs[k], prices.ranks(), pass);
      }
      if (prices.can_exchange(KeyExchange::all_to_all))
        own.by_heads = model_->by_heads(rows.packs[k], prices.ranks(), pass);
    }
  }

  /// Of pack `k`. Ranks share attention by heads if they exchange by all-to-all, otherwise by the tokens that they hold.
  /// @pre there is a model, and `find` was last called for these packs and this pass.
  [[nodiscard]] double seconds(Pass pass, std::size_t k, KeyExchange exchange) const {
    const OfPack& own = times_[pass == Pass::forward ? 0 : 1][k];
    return exchange == KeyExchange::all_to_all ? own.by_heads : own.by_tokens;
  }

 private:
  struct OfPack {
    double by_tokens = 0.0, by_heads = 0.0;
  };

  GroupPrices& prices_;
  std::unique_ptr<PackAttention> model_;
  std::array<std::vector<OfPack>, 2> times_;  // [pass][pack]
};

}  // namespace slimpack
