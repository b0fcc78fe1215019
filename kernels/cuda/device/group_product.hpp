#pragma once

#include <cstdint>

#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/cuda/device/wide_tile.hpp"

namespace slimpack::kernels::cuda {

/// Warps that multiply together, and rows that they multiply: 16 each.
inline constexpr int group_warps = 4, group_rows = 64;

/// Registers of each thread before a block's groups divide them again: of 65536, as many as its threads can
/// have alike, in eights.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr int registers_of_all(int warps) {
  return 65536 / (warps * warp_lanes) / 8 * 8;
}

/// Whether a producing group and some consuming ones get by with a block's registers. A group that asks for
/// more than there are waits for ever.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr bool registers_suffice(int producer, int consumer,
                                                                    int consumers) {
  return producer % 8 == 0 && consumer % 8 == 0 && producer >= 24 && consumer <= 256 &&
         producer + consumers * consumer <= (1 + consumers) * registers_of_all((1 + consumers) * group_warps);
}

/// Groups of a block that consume what the first group brings, and the registers of their threads.
inline constexpr int group_consumers = 2, producer_registers = 24, consumer_registers = 240;
static_assert(registers_suffice(producer_registers, consumer_registers, group_consumers));

/// Groups of such a block.
inline constexpr int block_groups = 1 + group_consumers;

/// Gives each group of a block its part once barriers have begun: `produce()` is for the first group's first
/// warp, `help()` for that group's others, `consume(index)` for all warps of the first `consumers` groups after it.
template <class Warp, class Produce, class Help, class Consume>
SLIMPACK_DEVICE inline void run_groups(Warp& warp, int consumers, const Produce& produce, const Help& help,
                                       const Consume& consume) {
  warp.sync();
  if (warp.group() == 0) {
    warp.template lower_registers<producer_registers>();
    warp.warp() == 0 ? produce() : help();
  } else {
    warp.template raise_registers<consumer_registers>();
    if (warp.group() <= consumers) consume(warp.group() - 1);
  }
}

/// Products of a group of four warps with tiles in shared memory, by `wgmma` (sm_90a). They are only started:
/// the caller says `fence_products` before some, `commit_products` after them, and waits. A lane holds of the
/// sums and of a left factor in registers what it holds with `mma.sync`, for its warp's 16 rows.
struct GroupProduct {
  /// sums [64 x Right::rows] = 64 rows of a tile, from `row` on, times another tile transposed.
  template <class Left, class Right, class Warp>
  SLIMPACK_DEVICE static void multiply_transposed(Warp& warp, const Bf16* left, int row, const Bf16* right,
                                                  LanesOf<Warp, Sums<Right::rows>>& sums) {
    static_assert(Left::parts == Right::parts, "the tiles differ in width");
    const std::uint64_t a = matrix_descriptor(warp.shared_place(left + row * line_numbers), 16, eight_lines);
    const std::uint64_t b = matrix_descriptor(warp.shared_place(right), 16, eight_lines);
    constexpr int steps_of_part = line_numbers / 16;
    SLIMPACK_UNROLL
    for (int step = 0; step < Left::parts * steps_of_part; ++step) {
      const auto part = static_cast<std::uint32_t>(step / steps_of_part);
      const auto within = static_cast<std::uint32_t>(step % steps_of_part * 16 * 2);
      warp.template multiply_tiles<Right::rows>(sums, moved(a, part * Left::part_bytes + within),
                                                moved(b, part * Right::part_bytes + within), step > 0);
    }
  }

  /// sums [64 x width] += left [64 x Right::rows], in registers, times a tile.
  template <class Right, int width, class Warp>
  SLIMPACK_DEVICE static void multiply(Warp& warp, const LanesOf<Warp, Fragment> (&left)[Right::rows / 16],
                                       const Bf16* right, LanesOf<Warp, Sums<width>>& sums) {
    static_assert(Right::parts * line_numbers == width, "the sums have another width than the tile");
    const std::uint64_t b = matrix_descriptor(warp.shared_place(right), Right::part_bytes, eight_lines);
    SLIMPACK_UNROLL
    for (int step = 0; step < Right::rows / 16; ++step) {
      warp.template multiply_rows<width>(sums, left[step],
                                         moved(b, static_cast<std::uint32_t>(step) * 2 * eight_lines));
    }
  }
};

}  // namespace slimpack::kernels::cuda
