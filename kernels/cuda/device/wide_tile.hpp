#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/device/warp_product.hpp"

// What Hopper's copy engine (TMA) and matrix instructions (`wgmma`) share: barriers that count bytes, tiles
// in shared memory with the 128-byte swizzle, and the descriptors that say where they lie.
namespace slimpack::kernels::cuda {

/// A matrix of bf16 and the box of it that one copy brings: 64 columns of some rows. Whoever starts a kernel
/// makes it; on a GPU it is the driver's `CUtensorMap`.
struct alignas(128) TensorMap {
  std::uint64_t opaque[16];
};

/// A barrier in shared memory that waits for arrivals and for bytes (PTX ISA, "mbarrier").
struct alignas(8) Mbarrier {
  std::uint64_t state;
};

/// Bf16 in a line of 128 bytes, which is what the swizzle works on.
inline constexpr int line_numbers = 64;

/// Tiles begin at multiples of it: the swizzle takes bits 7 to 9 of an address for the row.
inline constexpr std::size_t tile_alignment = 1024;

/// A tile in shared memory: consecutive parts of 64 columns, each with the rows as swizzled lines.
template <int rows_, int width>
struct WideTile {
  static_assert(rows_ % 8 == 0 && width % line_numbers == 0, "tiles are of 8 lines and whole parts");
  static constexpr int rows = rows_, parts = width / line_numbers;
  static constexpr std::uint32_t part_bytes = rows * line_numbers * sizeof(Bf16);
  static constexpr std::uint32_t bytes = parts * part_bytes;
  static_assert(bytes % tile_alignment == 0, "another tile may follow");

  /// Where a row's chunk of 16 bytes begins, in numbers.
  [[nodiscard]] SLIMPACK_HOST_DEVICE static constexpr int offset(int row, int chunk) {
    constexpr int chunks = line_numbers / chunk_numbers;
    return chunk / chunks * rows * line_numbers + SwizzledTile<line_numbers>::offset(row, chunk % chunks);
  }
};

/// Describes a matrix in shared memory with the 128-byte swizzle (PTX ISA, "Matrix Descriptor Format" of
/// `wgmma`). For a matrix whose depth lies within lines, `stride` leads from 8 rows to the next 8, and
/// `leading` is not used; for one whose rows or columns do, `stride` leads from 8 steps of the depth to the
/// next 8, and `leading` from 64 rows or columns to the next 64.
/// @param address, leading, stride in bytes, multiples of 16
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr std::uint64_t matrix_descriptor(std::uint32_t address,
                                                                             std::uint32_t leading,
                                                                             std::uint32_t stride) {
  constexpr std::uint64_t field = 0x3fff, swizzle_128 = 1;
  return (address / 16 & field) | (leading / 16 & field) << 16U | (stride / 16 & field) << 32U |
         swizzle_128 << 62U;
}

/// The same matrix, `bytes` further on.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr std::uint64_t moved(std::uint64_t descriptor,
                                                                 std::uint32_t bytes) {
  return descriptor + bytes / 16;
}

/// Bytes from 8 lines to the next 8.
inline constexpr std::uint32_t eight_lines = 8 * line_numbers * sizeof(Bf16);

/// Stage of a ring that step i of a loop uses, and the parity of the phase in which its barriers fill it.
struct RingPlace {
  int stage;
  std::uint32_t parity;
};

template <int stages>
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr RingPlace ring_place(int step) {
  return {step % stages, static_cast<std::uint32_t>(step / stages % 2)};
}

/// The tile of a ring's stage.
template <class Tile>
[[nodiscard]] SLIMPACK_DEVICE inline Bf16* stage_of(Bf16* ring, int stage) {
  return ring + static_cast<std::size_t>(stage) * (Tile::bytes / sizeof(Bf16));
}

/// Barriers of a ring's stages. The producer waits for `empty`, whose phases are one behind those of `full`.
template <int stages>
struct RingBarriers {
  Mbarrier full[stages], empty[stages];
};

/// @param consumers warps that arrive when they are done with a stage
template <int stages, class Warp>
SLIMPACK_DEVICE inline void begin_ring(Warp& warp, RingBarriers<stages>& ring, int consumers) {
  for (int i = 0; i < stages; ++i) {
    warp.begin_barrier(ring.full[i], 1);
    warp.begin_barrier(ring.empty[i], consumers);
  }
}

/// Which rows and columns of a matrix a tile takes.
struct TilePlace {
  std::size_t row;
  int column;
  int valid;  ///< rows that there are; others become zeros
};

/// A warp starts to bring whole rows to a tile by the copy engine; the barrier gets the bytes. Rows after the
/// matrix become zeros, those after `valid` whatever is there.
template <class Tile, class Warp>
SLIMPACK_DEVICE inline void bring_tile(Warp& warp, const TensorMap& map, const TilePlace& at, Bf16* tile,
                                       Mbarrier& full) {
  warp.expect_bytes(full, Tile::bytes);
  SLIMPACK_UNROLL
  for (int part = 0; part < Tile::parts; ++part) {
    warp.copy_box(map, at.column + part * line_numbers, static_cast<std::int32_t>(at.row), Tile::rows,
                  tile + part * Tile::rows * line_numbers, full);
  }
}

/// Warps of the group that brings tiles, those of them that bring what the copy engine can't, and the turn at which
/// they meet.
inline constexpr int tile_warps = 4, tile_helpers = tile_warps - 1, tile_turn = 2;

/// A helper's share of a tile, chunk by chunk, with zeros after the valid rows: for tiles that are not
/// whole and whose rows a product sums over, where no probability of 0 makes up for a row that is no number.
/// It waits for its copies.
template <class Tile, class Warp>
SLIMPACK_DEVICE inline void bring_share(Warp& warp, const MatrixView<const Bf16>& from, const TilePlace& at,
                                        Bf16* tile) {
  constexpr int chunks = Tile::parts * line_numbers / chunk_numbers, rows_at_once = warp_lanes / chunks;
  static_assert(warp_lanes % chunks == 0, "each lane copies one chunk of some rows");
  const Bf16* begin = row_of(from, at.row) + at.column;
  warp.lanes([&](int lane) {
    const int chunk = lane % chunks;
    // Its warp has few registers.
    SLIMPACK_NO_UNROLL
    for (int row = (warp.warp_of_group() - 1) * rows_at_once + lane / chunks; row < Tile::rows;
         row += tile_helpers * rows_at_once) {
      const bool is_valid = row < at.valid;
      // No address beyond the rows is formed, even where none is read.
      const std::size_t skipped = is_valid ? static_cast<std::size_t>(row) * from.stride : 0;
      warp.copy_chunk(tile + Tile::offset(row, chunk), begin + skipped + chunk * chunk_numbers, is_valid);
    }
  });
  warp.commit_copies();
  warp.template wait_copies<0>();
  warp.show_to_engines();
}

/// Makes the warps that bring tiles wait for each other: before the helpers bring one, once its place is free, and after
/// it.
template <class Warp>
SLIMPACK_DEVICE inline void meet_for_tile(Warp& warp) {
  warp.wait_for_turn(tile_turn, tile_warps);
}

}  // namespace slimpack::kernels::cuda
