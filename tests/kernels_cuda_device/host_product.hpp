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
using Four = float __attribute__((vector_size(16)));

/// What a warp's lanes hold of the factors and the sums of `mma.sync.m16n8k16`.
struct LaneFragments {
  std::uint32_t left[32][4], right[32][2];
  float sums[32][4];
};

/// Where a tile's numbers are among all of its rows, by lane, register and element.
struct FragmentPlaces {
  std::array<std::uint8_t, 32 * 8> left{};
  std::array<std::uint8_t, 32 * 4> right{}, sums{};
};

[[nodiscard]] constexpr FragmentPlaces fragment_places() {
  const auto at = [](kernels::cuda::Place place, int cols) {
    return static_cast<std::uint8_t>(place.row * cols + place.col);
  };
  FragmentPlaces places;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i)
      places.left[static_cast<std::size_t>(lane * 8 + i)] =
          at(kernels::cuda::place_in_a(lane, i / 2, i % 2), 16);
    for (int i = 0; i < 4; ++i) {
      places.right[static_cast<std::size_t>(lane * 4 + i)] =
          at(kernels::cuda::place_in_b(lane, i / 2, i % 2), 8);
      places.sums[static_cast<std::size_t>(lane * 4 + i)] = at(kernels::cuda::place_in_sum(lane, i), 8);
    }
  }
  return places;
}

/// Puts pairs of bf16 numbers, a word each, where they are in a tile. @param at places of the numbers.
__attribute__((no_sanitize("address", "undefined", "thread"))) inline void place_pairs(
    const std::uint32_t* words, std::size_t count, const std::uint8_t* at, float* tile) {
  for (std::size_t i = 0; i < count; ++i) {
    tile[at[2 * i]] = __builtin_bit_cast(float, words[i] << 16U);
    tile[at[2 * i + 1]] = __builtin_bit_cast(float, words[i] & 0xffff0000U);
  }
}

/// sums += left * right, the terms of each sum one after another.
__attribute__((no_sanitize("address", "undefined", "thread"))) inline void multiply_fragments(
    LaneFragments& f) {
  static constexpr FragmentPlaces places = fragment_places();
  alignas(16) float left[16 * 16], right[16 * 8], sums[16 * 8];
  place_pairs(f.left[0], std::size_t{32} * 4, &places.left.front(), left);
  place_pairs(f.right[0], std::size_t{32} * 2, &places.right.front(), right);
  const std::uint8_t* at = &places.sums.front();
  for (const float(&lane)[4] : f.sums) {
    for (const float sum : lane) sums[*at++] = sum;
  }
  for (int r = 0; r < 16; ++r) {
    Four low, high;
    __builtin_memcpy(&low, sums + 8 * r, sizeof low);
    __builtin_memcpy(&high, sums + 8 * r + 4, sizeof high);
    for (int k = 0; k < 16; ++k) {
      const float factor = left[16 * r + k];
      Four right_low, right_high;
      __builtin_memcpy(&right_low, right + 8 * k, sizeof right_low);
      __builtin_memcpy(&right_high, right + 8 * k + 4, sizeof right_high);
      low += factor * right_low;
      high += factor * right_high;
    }
    __builtin_memcpy(sums + 8 * r, &low, sizeof low);
    __builtin_memcpy(sums + 8 * r + 4, &high, sizeof high);
  }
  at = &places.sums.front();
  for (float(&lane)[4] : f.sums) {
    for (float& sum : lane) sum = sums[*at++];
  }
}

/// sums += factor * row, number by number.
__attribute__((no_sanitize("address", "undefined", "thread"))) inline void add_scaled(float factor,
                                                                                      const float* row,
                                                                                      float* sums,
                                                                                      std::size_t count) {
  const std::size_t whole = count - count % 4;
  for (std::size_t i = 0; i < whole; i += 4) {
    Four from, to;
    __builtin_memcpy(&from, row + i, sizeof from);
    __builtin_memcpy(&to, sums + i, sizeof to);
    to += factor * from;
    __builtin_memcpy(sums + i, &to, sizeof to);
  }
  for (std::size_t i = whole; i < count; ++i) sums[i] += factor * row[i];
}

}  // namespace slimpack::testing
