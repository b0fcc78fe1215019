#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/shards.hpp"
#include "slimpack/sharding/by_position.hpp"

// Who holds which token, as a plan says it, token by token.
namespace slimpack::testing {

/// The member, by its place in its pack, that holds each token of the batch in a pass.
class PlannedOwners {
 public:
  /// @param otherwise tokens of a chunk of samples that are dealt by position, where the plan names none.
  PlannedOwners(const Plan& plan, Tokens otherwise, Pass which = Pass::forward) {
    for (const Tokens length : plan.tokens) owners_.emplace_back(static_cast<std::size_t>(length), 0);
    const PassPlan& pass = plan.of(which);
    const Tokens block = pass.block > 0 ? pass.block : otherwise;
    for (PackId k = 0; k < pass.packs.size(); ++k) {
      const auto pack = pass.packs[k];
      const auto members = pass.pipelines[k];
      if (members.size() == 1) continue;
      if (pass.sharding[k] == Sharding::by_position || pass.sharding[k] == Sharding::none) {
        for (const Slice& slice : pack) {
          for (Tokens t = slice.begin; t < slice.end; ++t)
            owners_[slice.sample][static_cast<std::size_t>(t)] = owner_of(t, members.size(), block);
        }
        continue;
      }
      const ContextShards shards = pack_shards(plan, {which, k});
      std::vector<std::size_t> member_of;  // [rank]
      for (std::size_t m = 0; m < members.size(); ++m)
        member_of.insert(member_of.end(), static_cast<std::size_t>(plan.pipelines[members[m]].cp), m);
      for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
        for (const Slice& chunk : shards.ranks[r]) {
          for (Tokens t = chunk.begin; t < chunk.end; ++t)
            owners_[pack[chunk.sample].sample][static_cast<std::size_t>(t)] = member_of[r];
        }
      }
    }
  }

  [[nodiscard]] std::size_t of(SampleId sample, Tokens token) const {
    return owners_[sample][static_cast<std::size_t>(token)];
  }

 private:
  std::vector<std::vector<std::size_t>> owners_;  ///< [sample][token]
};

}  // namespace slimpack::testing
