#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/portable.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Blocks of warps that a kernel runs in, and the shared memory of each.
struct Grid {
  std::size_t blocks = 1;
  int warps = 1;
  std::size_t shared = 0;  ///< bytes
};

/// Most blocks that kernels over rows are started with; each then takes several rows.
inline constexpr std::size_t most_blocks = 4096;

[[nodiscard]] constexpr std::size_t blocks_for(std::size_t work) {
  return work < most_blocks ? work : most_blocks;
}

template <class T>
[[nodiscard]] SLIMPACK_HOST_DEVICE inline T* row_of(const MatrixView<T>& m, std::size_t row) {
  return m.data + row * m.stride;
}

/// Calls f(lane, i) for i = 0, n, 2n, … below `size`, dealt out to the threads of a block one by one.
template <int n, class Warp, class F>
SLIMPACK_DEVICE inline void for_each_in_block(Warp& warp, std::size_t size, const F& f) {
  const std::size_t first = static_cast<std::size_t>(warp.warp()) * warp_lanes;
  const std::size_t step = static_cast<std::size_t>(warp.warps()) * warp_lanes * n;
  warp.lanes([&](int lane) {
    for (std::size_t i = (first + static_cast<std::size_t>(lane)) * n; i < size; i += step) f(lane, i);
  });
}

/// The same among all threads of all blocks.
template <int n, class Warp, class F>
SLIMPACK_DEVICE inline void for_each_in_grid(Warp& warp, std::size_t size, const F& f) {
  const std::size_t warps = static_cast<std::size_t>(warp.warps());
  const std::size_t first = (warp.block() * warps + static_cast<std::size_t>(warp.warp())) * warp_lanes;
  const std::size_t step = warp.blocks() * warps * warp_lanes * n;
  warp.lanes([&](int lane) {
    for (std::size_t i = (first + static_cast<std::size_t>(lane)) * n; i < size; i += step) f(lane, i);
  });
}

/// For divisions in kernels: of 64 bits, a GPU has none, and takes some hundred instructions.
[[nodiscard]] SLIMPACK_HOST_DEVICE constexpr std::uint32_t narrow(std::size_t n) {
  return static_cast<std::uint32_t>(n);
}

/// Calls f(row) for the rows that a warp has to do, dealt out to all warps of all blocks one by one.
template <class Warp, class F>
SLIMPACK_DEVICE inline void for_each_row_in_grid(Warp& warp, std::size_t rows, const F& f) {
  const auto warps = static_cast<std::size_t>(warp.warps());
  for (std::size_t row = warp.block() * warps + static_cast<std::size_t>(warp.warp()); row < rows;
       row += warp.blocks() * warps)
    f(row);
}

/// Calls f(lane, i) for i = 0, n, 2n, ... below `size`, dealt out to the warp's lanes.
template <int n, class Warp, class F>
SLIMPACK_DEVICE inline void for_each_in_warp(Warp& warp, std::uint32_t size, const F& f) {
  warp.lanes([&](int lane) {
    for (std::uint32_t i = static_cast<std::uint32_t>(lane) * n; i < size; i += warp_lanes * n) f(lane, i);
  });
}

/// A grid for kernels with a warp per row.
[[nodiscard]] constexpr Grid warp_per_row(std::size_t rows) {
  constexpr int warps = 4;
  return {.blocks = blocks_for((rows + warps - 1) / warps), .warps = warps};
}

/// Combines the values of lanes whose numbers differ in the bits of `mask` and lower ones: 16 for all lanes,
/// 2 for fours. All of them get the result, of the same bits.
template <class Warp, class T, class Combine>
SLIMPACK_DEVICE inline void combine_lanes(Warp& warp, LanesOf<Warp, T>& values, int mask,
                                          const Combine& combine) {
  SLIMPACK_UNROLL
  for (; mask > 0; mask /= 2) {
    const LanesOf<Warp, T> other = warp.shuffle_xor(values, mask);
    warp.lanes([&](int lane) { values[lane] = combine(values[lane], other[lane]); });
  }
}

/// Combines the values of all threads of a block; all get the result. Always in the same order.
/// @param scratch [warps of the block] in shared memory
template <class Warp, class T, class Combine>
[[nodiscard]] SLIMPACK_DEVICE inline T combine_block(Warp& warp, LanesOf<Warp, T>& values, T* scratch,
                                                     const Combine& combine) {
  combine_lanes<Warp, T>(warp, values, warp_lanes / 2, combine);
  warp.lanes([&](int lane) {
    if (lane == 0) scratch[warp.warp()] = values[lane];
  });
  warp.sync();
  T result = scratch[0];
  for (int w = 1; w < warp.warps(); ++w) result = combine(result, scratch[w]);
  warp.sync();  // or the next sum would overwrite the scratch that slower warps still read
  return result;
}

template <class Warp>
[[nodiscard]] SLIMPACK_DEVICE inline float sum_block(Warp& warp, LanesOf<Warp, float>& values,
                                                     float* scratch) {
  return combine_block<Warp, float>(warp, values, scratch, [](float a, float b) { return a + b; });
}

/// Whether rows can be moved 16 bytes at a time: 8 numbers of bf16.
template <class T>
[[nodiscard]] bool in_packs(const MatrixView<T>& m) {
  return m.cols % 8 == 0 && m.stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0;
}

[[nodiscard]] inline bool in_packs(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

}  // namespace slimpack::kernels::cuda
