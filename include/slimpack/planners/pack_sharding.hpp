#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/attention_kernel.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/sharding/choose.hpp"

namespace slimpack {

/// How micro-batches are sharded over context-parallel ranks.
enum class ShardingPolicy : std::uint8_t {
  per_sequence,  ///< all as sequences
  per_document,  ///< all document by document
  adaptive,      ///< each the better of these two ways, by predicted latency (WLB-LLM, section 5.3)
  mixed,         ///< as adaptive, and single documents apart from the others where that is better than both
};

/// How packs are sharded, and what their attention then takes. All lists have one entry (or row) per pack.
struct PackSharding {
  std::vector<Sharding> kind;
  Ragged<std::uint32_t> per_document;     ///< as `PassPlan::per_document`; rows are empty but in mixed packs
  std::vector<AttentionSeconds> seconds;  ///< one layer: the slowest rank of each pass

  friend bool operator==(const PackSharding&, const PackSharding&) = default;
};

/// Shards packs of whole documents by a policy. Keeps its memory between calls.
template <AttentionModel A>
class PackSharder {
 public:
  PackSharder(A attention, std::int32_t cp, ShardingPolicy policy)
      : chooser_(std::move(attention), {.mixed = policy == ShardingPolicy::mixed}),
        cp_(cp),
        policy_(policy) {}

  [[nodiscard]] const A& attention() const { return chooser_.model(); }

  /// @throws InvalidInput if a pack that is not empty has fewer tokens than there are ranks. Complexity: that
  /// of `ShardingChooser::choose` for each pack; O(slices) for a single rank.
  [[nodiscard]] PackSharding operator()(const Packs& packs) {
    PackSharding out;
    for (std::size_t k = 0; k < packs.size(); ++k) add(packs[k], out);
    return out;
  }

 private:
  void add(std::span<const Slice> pack, PackSharding& out) {
    if (cp_ == 1 || pack.empty()) {
      out.kind.push_back(cp_ == 1 ? Sharding::none : Sharding::per_sequence);
      out.seconds.push_back(attention_seconds(chooser_.model(), pack));
      out.per_document.close();
      return;
    }
    chooser_.choose(pack, cp_, choice_);
    const bool fixed = policy_ == ShardingPolicy::per_sequence || policy_ == ShardingPolicy::per_document;
    if (policy_ == ShardingPolicy::per_sequence) {
      choice_.kind = Sharding::per_sequence;
      choice_.seconds = choice_.per_sequence_seconds;
    } else if (policy_ == ShardingPolicy::per_document) {
      choice_.kind = Sharding::per_document;
      choice_.seconds = choice_.per_document_seconds;
    }
    out.kind.push_back(choice_.kind);
    out.seconds.push_back(choice_.seconds);
    for (std::uint32_t i = 0; !fixed && choice_.kind == Sharding::mixed && i < pack.size(); ++i) {
      if (choice_.per_document[i] != 0) out.per_document.add(i);
    }
    out.per_document.close();
  }

  ShardingChooser<A> chooser_;
  std::int32_t cp_;
  ShardingPolicy policy_;
  ShardingChoice choice_;
};

}  // namespace slimpack
