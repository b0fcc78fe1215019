#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kernels/transport/part.hpp"

namespace slimpack::kernels {

/// What the ranks that hold the same weights do together after a step's tasks, piece by piece (`WeightLayout::pieces`; with
/// one share, these are the units): which ranks these are may differ from piece to piece. How many they are does not, nor
/// this one's place among them, but for what all tensor-parallel ranks hold.
/// All call the same operations in the order of the pieces, on as many numbers. These lie in the host's memory, and the
/// operations return when they are done; or, `on_device`, where the back end works, and the operations are done in the
/// order of its tasks.
/// @tparam W what weights and gradients consist of.
template <class W>
struct Replicas {
  using Operation = std::function<void(std::size_t piece, std::span<W>)>;

  std::size_t size = 1;
  std::size_t position = 0;         ///< this one's among them
  std::size_t shares = 1;           ///< of a unit, that its ranks' tensor parallelism makes
  std::size_t common_size = 1;      ///< with several, the ranks of what all hold
  std::size_t common_position = 0;  ///< and this one's place among those
  bool on_device = false;           ///< the back end's memory; only for one that has a `DevicePort`
  bool sharded = true;       ///< each keeps the moments of its share of each unit, and updates those (ZeRO-1)
  Operation reduce_scatter;  ///< sums: each gets its `part_of(n, size, position)`, the rest is overwritten
  Operation all_reduce;      ///< sums, of the same bits on all
  Operation all_gather;      ///< each gives its part, and gets all

  /// What this one updates of a piece of n weights, wherever in its pipeline it is held.
  [[nodiscard]] Part own_part(std::size_t n, bool common = false) const {
    if (!sharded) return {0, n};
    return common ? part_of(n, common_size, common_position) : part_of(n, size, position);
  }
};

}  // namespace slimpack::kernels
