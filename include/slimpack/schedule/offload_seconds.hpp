#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/schedule/pack_overlaps.hpp"
#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// @throws InvalidInput if the prices know of no host.
inline void require_host(GroupPrices& prices) {
  require(prices.alone().offloads(),
          "layers are to wait in the host's memory, but the cost model does not price that; expected "
          "offload_seconds");
}

/// The same for layers that a search may choose. @throws InvalidInput also if the memory model knows of no host.
inline void require_host(GroupPrices& prices, const Memory& memory) {
  require_host(prices);
  require(memory.offloads(),
          "layers may wait in the host's memory, but the memory model does not know of it; expected "
          "activation_bytes of offloaded layers, host_bytes and transit_bytes");
}

/// Adds to the times of both passes' packs what moving layers to the host's memory and back takes. A forward pack moves
/// the tokens of each backward pack that it shares tokens with, by the layers that this one leaves there. Each layer is
/// priced as one that is not recomputed. @param overlaps of the schedule's packs, [pipeline].
/// @throws InvalidInput if the prices know of no host. O(packs * stages + overlaps * stages).
inline void add_offload_seconds(GroupPrices& prices, const Recompute& recompute,
                                const std::vector<std::vector<PackOverlap>>& overlaps, Schedule& out) {
  require_host(prices);
  const std::size_t stages = recompute.stages();
  const auto add = [&](Pass pass, std::size_t pack, PackId backward, Tokens tokens) {
    const bool forward = pass == Pass::forward;
    const Prices& own = prices.shared_by((forward ? out.forward : out.backward).sharers[pack]);
    std::vector<double>& seconds = (forward ? out.forward_times : out.backward_times).seconds;
    for (std::size_t s = 0; s < stages; ++s) {
      const std::int32_t layers = recompute.offload(backward, s);
      if (layers > 0) seconds[pack * stages + s] += layers * own.offload_seconds(s, tokens, pass);
    }
  };
  for (PackId k = 0; k < out.backward.packs.size(); ++k)
    add(Pass::backward, k, k, count_tokens(out.backward.packs[k]));
  const auto forward_packs = packs_by_row(out.forward, out.pipelines);
  for (std::size_t p = 0; p < overlaps.size(); ++p) {
    for (const PackOverlap& part : overlaps[p]) {
      const PackId pack = forward_packs[p][part.forward_row];
      if (out.forward.members[pack][0] != p) continue;  // a shared pack counts once
      add(Pass::forward, pack, part.backward_pack, part.all);
    }
  }
}

}  // namespace slimpack
