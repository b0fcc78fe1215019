#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/sharding/kind.hpp"

namespace slimpack {

/// In which order stages run forward and backward packs.
enum class PassOrder : std::uint8_t {
  packflow,  ///< 1F1B of any forward and backward packs; plain 1F1B where both passes have the same packs
  eager,     ///< the same with stages twice as far ahead of each other: unequal packs then cause less waiting
  steady,    ///< PackFlow without injected forward packs: a longer warm-up in their place
  gpipe,     ///< all forward packs first
};

/// What a schedule may do to fit into memory.
enum class FitPolicy : std::uint8_t {
  fastest,  ///< smaller leads, or recompute as few layers on each stage as suffice, or both: whichever is fastest
  recompute,  ///< full leads; as few layers on each stage as suffice
};

struct ScheduleOptions {
  PassOrder order = PassOrder::packflow;
  /// Whether stages may be further ahead of each other (`PassOrder::eager`, as far as memory allows), if that is faster.
  bool eager_if_faster = false;
  FitPolicy fit = FitPolicy::fastest;
  /// Whether packs may recompute different numbers of layers, if that is faster (`quick_checkpoints`).
  bool each_pack = false;
  /// Whether they do so only if nothing else fits, which takes less time to find out.
  bool each_pack_if_needed = false;
  /// All packs of a stage recompute the same number of layers if stages hold more rows than this, summed over stages and
  /// backward rows: time and memory to choose for each pack grow with that sum.
  std::size_t most_held_rows = std::size_t{1} << 20;
  /// Whether layers may wait in the host's memory in place of being recomputed, if that is faster (`choose_offload`).
  /// The cost model has to price that.
  bool offload = false;
  /// How ranks share packs of whole samples that both passes run alike, where the schedule prices them.
  ShardingPolicy sharding = ShardingPolicy::adaptive;
  /// Ends of units that run one after another (`unit_leads`); empty: all rows are one unit.
  std::vector<std::uint32_t> unit_ends = {};

  friend bool operator==(const ScheduleOptions&, const ScheduleOptions&) = default;
};

}  // namespace slimpack
