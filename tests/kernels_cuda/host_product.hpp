#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/device/warp_product.hpp"

// Products of numbers that lie in the tests' own memory, where sanitizers have nothing to find. Checked like the rest, they
// take most of the time of whole steps on the host.
namespace slimpack::testing {

/// Numbers that are multiplied together.
using Eight = float __attribute__((vector_size(32)));

/// What a warp's lanes hold of the factors and the sums of `mma.sync.m16n8k16`.
struct LaneFragments {
  std::uint32_t left[32][4], right[32][2];
  float sums[32][4];
};

/// Where a tile's numbers are, by lane, register and element.
struct FragmentPlaces {
  std::array<kernels::cuda::Place, 32 * 8> left{};
  std::array<kernels::cuda::Place, 32 * 4> right{}, sums{};
};

[[nodiscard]] constexpr FragmentPlaces fragment_places() {
  FragmentPlaces places;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i)
      places.left[static_cast<std::size_t>(lane * 8 + i)] = kernels::cuda::place_in_a(lane, i / 2, i % 2);
    for (int i = 0; i < 4; ++i) {
      places.right[static_cast<std::size_t>(lane * 4 + i)] = kernels::cuda::place_in_b(lane, i / 2, i % 2);
      places.sums[static_cast<std::size_t>(lane * 4 + i)] = kernels::cuda::place_in_sum(lane, i);
    }
  }
  return places;
}

/// sums += left * right, the terms of each sum one after another.
__attribute__((no_sanitize("address", "undefined", "thread"))) inline void multiply_fragments(
    LaneFragments& f) {
  static constexpr FragmentPlaces places = fragment_places();
  const kernels::cuda::Place *at_left = &places.left.front(), *at_right = &places.right.front(),
                             *at_sum = &places.sums.front();
  float left[16][16];
  Eight right[16], sums[16];
  for (int i = 0; i < 32 * 8; ++i) {
    const std::uint32_t word = f.left[i / 8][i / 2 % 4];
    left[at_left[i].row][at_left[i].col] =
        __builtin_bit_cast(float, i % 2 == 0 ? word << 16U : word & 0xffff0000U);
  }
  for (int i = 0; i < 32 * 4; ++i) {
    const std::uint32_t word = f.right[i / 4][i / 2 % 2];
    right[at_right[i].row][at_right[i].col] =
        __builtin_bit_cast(float, i % 2 == 0 ? word << 16U : word & 0xffff0000U);
    sums[at_sum[i].row][at_sum[i].col] = f.sums[i / 4][i % 4];
  }
  for (int r = 0; r < 16; ++r) {
    Eight total = sums[r];
    for (int k = 0; k < 16; ++k) total += left[r][k] * right[k];
    sums[r] = total;
  }
  for (int i = 0; i < 32 * 4; ++i) f.sums[i / 4][i % 4] = sums[at_sum[i].row][at_sum[i].col];
}

/// sums += factor * row, number by number.
__attribute__((no_sanitize("address", "undefined", "thread"))) inline void add_scaled(float factor,
                                                                                      const float* row,
                                                                                      float* sums,
                                                                                      std::size_t count) {
  const std::size_t whole = count - count % 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    Eight from, to;
    __builtin_memcpy(&from, row + i, sizeof from);
    __builtin_memcpy(&to, sums + i, sizeof to);
    to += factor * from;
    __builtin_memcpy(sums + i, &to, sizeof to);
  }
  for (std::size_t i = whole; i < count; ++i) sums[i] += factor * row[i];
}

}  // namespace slimpack::testing
