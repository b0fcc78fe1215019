#include "kernels/cuda/portable.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cuda/device/warp_product.hpp"
#include "tests/kernels_cuda_device/host_warp.hpp"

using namespace slimpack::kernels::cuda;
using slimpack::testing::HostWarp;

namespace {

/// Nearest bf16 by trying the two around a number.
std::uint16_t nearest(float x) {
  const auto low = static_cast<std::uint16_t>(bits_as<std::uint32_t>(x) >> 16U);
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double below = std::abs(static_cast<double>(x) - static_cast<double>(to_float({low})));
  double above = static_cast<double>(to_float({high}));
  // What rounds beyond the largest number is infinite: as if numbers went on.
  if (std::isinf(above)) above = std::copysign(std::ldexp(1.0, 128), static_cast<double>(x));
  above = std::abs(static_cast<double>(x) - above);
  if (below != above) return below < above ? low : high;
  return low % 2 == 0 ? low : high;
}

}  // namespace

TEST_CASE("bf16 are the nearest ones, even ones among two") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 x{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(x))) {
      CHECK(std::isnan(to_float(to_bf16(to_float(x)))));
    } else {
      REQUIRE(to_bf16(to_float(x)) == x);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 3 == 0) bits = (bits & 0xffff0000U) | 0x8000U;  // halfway
    const auto x = bits_as<float>(bits);
    if (!std::isfinite(x)) continue;
    INFO("bits " << bits);
    REQUIRE(to_bf16(x).bits == nearest(x));
  }
  CHECK(to_bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(std::isnan(to_float(to_bf16(bits_as<float>(0x7f800001U)))));
  const std::uint32_t pair = to_bf16_pair(1.0F, -2.0F);
  CHECK(pair == 0xc0003f80U);
  CHECK(pair_element(pair, 0) == 1.0F);
  CHECK(pair_element(pair, 1) == -2.0F);
}

TEST_CASE("lanes hold each number of a matrix product's tiles once") {
  std::set<std::pair<int, int>> a, b, sum;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const Place at = place_in_sum(lane, i);
      CHECK(sum.insert({at.row, at.col}).second);
      CHECK((at.row < 16 && at.col < 8));
      for (int element = 0; element < 2; ++element) {
        const Place in_a = place_in_a(lane, i, element);
        CHECK(a.insert({in_a.row, in_a.col}).second);
        CHECK((in_a.row < 16 && in_a.col < 16));
        if (i >= 2) continue;
        const Place in_b = place_in_b(lane, i, element);
        CHECK(b.insert({in_b.row, in_b.col}).second);
        CHECK((in_b.row < 16 && in_b.col < 8));
      }
    }
  }
  CHECK(a.size() == 256);
  CHECK(b.size() == 128);
  CHECK(sum.size() == 128);
  // Places that the instruction's description names.
  CHECK((place_in_a(5, 1, 0).row == 9 && place_in_a(5, 1, 0).col == 2));
  CHECK((place_in_a(31, 2, 1).row == 7 && place_in_a(31, 2, 1).col == 15));
  CHECK((place_in_b(6, 1, 1).row == 13 && place_in_b(6, 1, 1).col == 1));
  CHECK((place_in_sum(6, 3).row == 9 && place_in_sum(6, 3).col == 5));
}

TEST_CASE("matrices that were loaded multiply as plain ones do") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Bf16 a[16][16], b[16][16];  // b is given by its rows and by its columns
    for (int i = 0; i < 256; ++i) {
      a[i / 16][i % 16] = to_bf16(normal(random));
      b[i / 16][i % 16] = to_bf16(normal(random));
    }
    std::barrier<> barrier(1);
    HostWarp warp(0, 1, 1, nullptr, barrier);
    for (const bool by_columns : {false, true}) {
      Lanes<std::uint32_t[4], 32> left, right;
      Lanes<float[2][4], 32> sum{};
      const auto row_of_a = [&](int lane) { return &a[lane % 16][lane / 16 * 8]; };
      warp.load_matrices<false>(row_of_a, [&](int lane) { return left[lane]; });
      if (by_columns) {  // b's rows are the columns of the right factor
        const auto row = [&](int lane) { return &b[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]; };
        warp.load_matrices<false>(row, [&](int lane) { return right[lane]; });
      } else {
        const auto row = [&](int lane) { return &b[lane % 16][lane / 16 * 8]; };
        warp.load_matrices<true>(row, [&](int lane) { return right[lane]; });
      }
      for (int half = 0; half < 2; ++half) {
        warp.multiply([&](int lane) { return sum[lane][half]; }, [&](int lane) { return left[lane]; },
                      [&](int lane) { return right[lane] + 2 * half; });
      }
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 8; ++i) {
          Place at = place_in_sum(lane, i % 4);
          at.col += i / 4 * 8;
          double expected = 0;
          for (int k = 0; k < 16; ++k) {
            expected += static_cast<double>(to_float(a[at.row][k])) *
                        static_cast<double>(to_float(by_columns ? b[at.col][k] : b[k][at.col]));
          }
          REQUIRE(sum[lane][i / 4][i % 4] == Approx(expected).margin(1e-5));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE_SIG("swizzled tiles keep every chunk, and 8 rows of one lie in different banks", "",
                       ((int width), width), 16, 32, 64, 128, 256) {
  using Tile = SwizzledTile<width>;
  std::set<int> begins;
  for (int row = 0; row < 64; ++row) {
    for (int chunk = 0; chunk < Tile::chunks; ++chunk) {
      const int at = Tile::offset(row, chunk);
      CHECK(at % chunk_numbers == 0);
      CHECK((at >= row * width && at < (row + 1) * width));
      CHECK(begins.insert(at).second);
    }
  }
  for (int row = 0; row < 64; row += 8) {
    for (int chunk = 0; chunk < Tile::chunks; ++chunk) {
      std::set<int> banks;
      for (int r = 0; r < 8; ++r) banks.insert(Tile::offset(row + r, chunk) * 2 / 16 % 8);
      CHECK(banks.size() == 8);
    }
  }
}
