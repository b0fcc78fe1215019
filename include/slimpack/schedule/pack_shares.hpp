#pragma once

#include <cstddef>

#include "slimpack/cost/pack_attention.hpp"
#include "slimpack/sharding/member_share.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// Tells how many tokens of the packs of one pass each pipeline holds.
struct PackShares {
  const PackRows& rows;
  const PackSharing& sharing;  ///< of these packs; packs that it says nothing of are shared equally
  std::size_t ranks = 1;       ///< context-parallel ranks of each pipeline

  /// How members of a pack exchange keys; none where nobody has chosen.
  [[nodiscard]] KeyExchange exchange(PackId pack) const {
    return pack < sharing.exchange.size() ? sharing.exchange[pack] : KeyExchange::none;
  }

  /// @param i place among the pack's members. A member that stands for others counts as the fullest of them.
  [[nodiscard]] MemberShare operator()(PackId pack, std::size_t i) const {
    const bool by_position =
        pack < sharing.sharding.size() && sharing.sharding[pack] == Sharding::by_position;
    const std::size_t members = rows.sharers[pack];
    return {.members = members,
            .ranks = ranks,
            .member = rows.members[pack].size() == members ? i : members,
            .block = by_position ? sharing.block : 0};
  }
};

}  // namespace slimpack
