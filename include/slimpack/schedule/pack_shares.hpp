#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "slimpack/core/ragged.hpp"
#include "slimpack/cost/pack_share.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/sharding/by_position.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// What the ranks that share packs have of them, for packs of both passes. Keeps its memory between calls.
class PackShares {
 public:
  /// @param prices have to outlive this.
  explicit PackShares(GroupPrices& prices) : prices_(prices) {
    if (const PackAttention* const attention = prices.alone().attention()) attention_ = attention->clone();
  }

  /// Null: ranks are assumed to share attention equally.
  [[nodiscard]] PackAttention* attention() const { return attention_.get(); }

  /// Finds the shares of all packs of a pass, in place of those that were found for it before.
  /// O(slices * ranks).
  void find(const PackRows& rows, const PackSharing& sharing, Pass pass) {
    PassShares& out = shares_[index(pass)];
    out.by_tokens.clear();
    out.by_heads.clear();
    for (std::size_t k = 0; k < rows.packs.size(); ++k) {
      const Prices& prices = prices_.shared_by(rows.sharers[k]);
      if (sharing.sharding[k] == Sharding::by_position) {
        find_by_position(rows.packs[k], prices, sharing.block, pass, out);
        continue;
      }
      // Ranks' tokens differ by one at most.
      const double heads = by_heads(rows.packs[k], prices, pass);
      const AttentionSeconds& chosen = sharing.attention[k];
      const double tokens = sharing.sharding[k] == Sharding::none ? heads
                            : pass == Pass::forward               ? chosen.forward
                                                                  : chosen.backward;
      out.by_tokens.add({tokens, 0.0});
      out.by_tokens.close();
      out.by_heads.push_back({heads, 0.0});
    }
  }

  /// Loads of those ranks of a pack that may be the slowest. @pre `find` was called for the pass.
  [[nodiscard]] std::span<const PackShare> operator()(Pass pass, std::size_t k, KeyExchange exchange) const {
    const PassShares& own = shares_[index(pass)];
    if (exchange == KeyExchange::all_to_all) return {&own.by_heads[k], 1};
    return own.by_tokens[k];
  }

  /// As many tokens as `PackShare` says of the rank that holds most of a pack. @pre as before.
  [[nodiscard]] Tokens extra_tokens(Pass pass, std::size_t k) const {
    return static_cast<Tokens>(shares_[index(pass)].by_heads[k].extra_tokens);
  }

 private:
  /// Of packs whose attention ranks share by tokens, and by heads.
  struct PassShares {
    Ragged<PackShare> by_tokens;
    std::vector<PackShare> by_heads;
  };

  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  void find_by_position(std::span<const Slice> pack, const Prices& prices, Tokens block, Pass pass,
                        PassShares& out) {
    const auto ranks = static_cast<std::size_t>(prices.ranks());
    seconds_.assign(ranks, 0.0);
    tokens_.assign(ranks, 0);
    if (attention_) attention_->by_position(pack, block, pass, seconds_);
    if (prices.shares_tokens()) {
      for (const Slice& slice : pack) add_owned_tokens(slice, block, tokens_);
    }
    slowest_candidates(seconds_, tokens_, candidates_);
    double most = 0.0;
    for (const PackShare& share : candidates_) {
      most = std::max(most, share.extra_tokens);
      out.by_tokens.add(share);
    }
    out.by_tokens.close();
    out.by_heads.push_back({by_heads(pack, prices, pass), most});
  }

  /// Attention of one layer where ranks share it by heads, or there is one rank; zero if they can't.
  [[nodiscard]] double by_heads(std::span<const Slice> pack, const Prices& prices, Pass pass) const {
    if (!attention_ || (prices.ranks() > 1 && !prices.can_exchange(KeyExchange::all_to_all))) return 0.0;
    return attention_->by_heads(pack, prices.ranks(), pass);
  }

  GroupPrices& prices_;
  std::unique_ptr<PackAttention> attention_;
  PassShares shares_[2];         // [pass]
  std::vector<double> seconds_;  // of attention of one pack, [rank]
  std::vector<Tokens> tokens_;   // of one pack, [rank]
  std::vector<PackShare> candidates_;
};

}  // namespace slimpack
