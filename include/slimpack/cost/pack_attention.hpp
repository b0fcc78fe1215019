#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/core/ragged.hpp"
#include "slimpack/cost/position_seconds.hpp"
#include "slimpack/sharding/attention_model.hpp"
#include "slimpack/sharding/choose.hpp"
#include "slimpack/sharding/kind.hpp"

namespace slimpack {

/// How ranks share the packs of one pass; a pack's ranks are the context-parallel ranks of all its pipelines. Lists have one
/// entry (or row) per pack.
struct PackSharing {
  std::vector<Sharding> sharding;      ///< none: one rank
  Ragged<std::uint32_t> per_document;  ///< as `PassPlan::per_document`; only mixed packs have entries
  std::vector<KeyExchange> exchange;   ///< none: one rank, or the cost model names no way
  /// Attention of one layer on the slowest rank, in both passes, if ranks share it by tokens. Zero for packs whose sharding
  /// was not chosen by it.
  std::vector<AttentionSeconds> attention;
  Tokens block = 0;  ///< tokens of a chunk of packs that are sharded by position

  friend bool operator==(const PackSharing&, const PackSharing&) = default;
};

/// Tokens of a chunk of packs that are sharded by position and priced by an attention model. Chunks shorter than the
/// kernel's tiles would waste the rest of each tile.
inline constexpr Tokens default_attention_block = 128;

/// What one layer's attention of a pack takes on the slowest of the ranks that share it, the kernel's launch included, by an
/// attention model of any type. Seconds are zero for packs without tokens. Keeps its memory between calls.
class PackAttention {
 public:
  virtual ~PackAttention() = default;
  [[nodiscard]] virtual std::unique_ptr<PackAttention> clone() const = 0;

  /// Seconds per unit of `twice_causal_pairs` on one rank that no chunk falls below.
  [[nodiscard]] virtual AttentionSeconds least_seconds_per_twice_pair() const = 0;
  /// The constant of a launch, which every pack with tokens has.
  [[nodiscard]] virtual AttentionSeconds launch_seconds() const = 0;
  /// Tokens of a chunk of packs that are sharded by position.
  [[nodiscard]] virtual Tokens block() const = 0;

  /// The slices of a pack on one rank, without the launch. O(slices).
  [[nodiscard]] virtual double slice_seconds(std::span<const Slice> pack, Pass pass) const = 0;
  /// A pack on one rank, or one whose attention several ranks share by heads, as they do where they exchange by all-to-all:
  /// each has all tokens, and its share of the heads. O(slices).
  [[nodiscard]] double by_heads(std::span<const Slice> pack, std::int32_t ranks, Pass pass) const {
    if (pack.empty()) return 0.0;
    const AttentionSeconds launch = launch_seconds();
    return (pass == Pass::forward ? launch.forward : launch.backward) + slice_seconds(pack, pass) / ranks;
  }
  /// A pack that several ranks share by position. O(slices * ranks).
  [[nodiscard]] virtual double by_position(std::span<const Slice> pack, std::int32_t ranks, Pass pass) = 0;
  /// Shards a pack by a policy, and appends the result to `out`: sharding, marks, attention. Complexity: that of
  /// `ShardingChooser::choose`. @pre ranks > 1, and the pack is empty or has at least as many tokens.
  virtual void shard(std::span<const Slice> pack, std::int32_t ranks, ShardingPolicy policy,
                     PackSharing& out) = 0;

 protected:
  PackAttention() = default;
  PackAttention(const PackAttention&) = default;
  PackAttention& operator=(const PackAttention&) = default;
};

/// `PackAttention` by a given attention model.
template <BoundedAttentionModel A>
class ModelPackAttention final : public PackAttention {
 public:
  /// @pre block > 0.
  ModelPackAttention(A model, Tokens block)
      : model_(std::move(model)), block_(block), adaptive_(model_, {.mixed = false}), mixed_(model_) {}

  [[nodiscard]] std::unique_ptr<PackAttention> clone() const override {
    return std::make_unique<ModelPackAttention>(model_, block_);
  }
  [[nodiscard]] AttentionSeconds least_seconds_per_twice_pair() const override {
    return model_.least_seconds_per_twice_pair();
  }
  [[nodiscard]] AttentionSeconds launch_seconds() const override { return model_.launch_seconds(); }
  [[nodiscard]] Tokens block() const override { return block_; }

  [[nodiscard]] double slice_seconds(std::span<const Slice> pack, Pass pass) const override {
    double seconds = 0.0;
    for (const Slice& slice : pack) seconds += chunk_seconds(model_, slice.begin, slice.end, pass);
    return seconds;
  }

  [[nodiscard]] double by_position(std::span<const Slice> pack, std::int32_t ranks, Pass pass) override {
    if (pack.empty()) return 0.0;
    auto known = known_.find(ranks);
    if (known == known_.end())
      known =
          known_.emplace(ranks, PositionSeconds<A>(model_, static_cast<std::size_t>(ranks), block_)).first;
    return launch(pass) + known->second.slowest(pack, pass);
  }

  void shard(std::span<const Slice> pack, std::int32_t ranks, ShardingPolicy policy,
             PackSharing& out) override {
    if (pack.empty()) {
      out.sharding.push_back(Sharding::per_sequence);
      out.attention.emplace_back();
      out.per_document.close();
      return;
    }
    (policy == ShardingPolicy::mixed ? mixed_ : adaptive_).choose(pack, ranks, choice_);
    if (policy == ShardingPolicy::per_sequence) {
      choice_.kind = Sharding::per_sequence;
      choice_.seconds = choice_.per_sequence_seconds;
    } else if (policy == ShardingPolicy::per_document) {
      choice_.kind = Sharding::per_document;
      choice_.seconds = choice_.per_document_seconds;
    }
    out.sharding.push_back(choice_.kind);
    out.attention.push_back(choice_.seconds);
    for (std::uint32_t i = 0; choice_.kind == Sharding::mixed && i < pack.size(); ++i) {
      if (choice_.per_document[i] != 0) out.per_document.add(i);
    }
    out.per_document.close();
  }

 private:
  [[nodiscard]] double launch(Pass pass) const {
    const AttentionSeconds seconds = model_.launch_seconds();
    return pass == Pass::forward ? seconds.forward : seconds.backward;
  }

  A model_;
  Tokens block_;
  ShardingChooser<A> adaptive_, mixed_;
  ShardingChoice choice_;
  std::map<std::int32_t, PositionSeconds<A>> known_;  // [ranks]
};

}  // namespace slimpack
