#include "kernels/cuda/device/group_product.hpp"

#include <barrier>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/kernels_cuda_device/host_group.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"

using namespace slimpack::kernels::cuda;
using slimpack::testing::Bf16Rows, slimpack::testing::Copies, slimpack::testing::DescribedMatrix,
    slimpack::testing::host_tensor_map, slimpack::testing::HostBarrier, slimpack::testing::HostBlock,
    slimpack::testing::HostGroupWarp;

namespace {

constexpr int width = 128;
using LeftTile = WideTile<128, width>;
using RightTile = WideTile<64, width>;

/// The four warps of a group, played by one thread, and a block's shared memory: two tiles and a barrier.
struct PlayedGroup {
  explicit PlayedGroup(Copies copies) {
    for (int w = 0; w < group_warps; ++w) {
      warps.push_back(std::make_unique<HostGroupWarp>(w, group_warps, 1, memory, barrier, block, copies));
    }
  }
  [[nodiscard]] Bf16* left() { return reinterpret_cast<Bf16*>(memory); }
  [[nodiscard]] Bf16* right() { return reinterpret_cast<Bf16*>(memory + LeftTile::bytes); }
  [[nodiscard]] Mbarrier& full() {
    return *reinterpret_cast<Mbarrier*>(memory + LeftTile::bytes + RightTile::bytes);
  }

  /// Brings a matrix's rows from `row` on to a tile.
  template <class Tile>
  void bring(const Bf16Rows& from, std::size_t row, Bf16* to) {
    HostGroupWarp& warp = *warps[0];
    const TensorMap map = host_tensor_map(from.view(), Tile::rows);
    warp.begin_barrier(full(), 1);
    bring_tile<Tile>(warp, map, {row, 0, Tile::rows}, to, full());
    warp.arrive(full());
    warp.wait(full(), 0);
  }

  alignas(tile_alignment) unsigned char memory[LeftTile::bytes + RightTile::bytes + sizeof(Mbarrier)];
  std::barrier<> barrier{1};
  HostBlock block;
  std::vector<std::unique_ptr<HostGroupWarp>> warps;
};

/// Number of a matrix that goes on with zeros.
double number(const Bf16Rows& m, std::size_t row, std::size_t col) {
  return row < m.view().rows ? static_cast<double>(to_float(m.view().row(row)[col])) : 0;
}

}  // namespace

TEST_CASE("descriptors hold places and distances in 16 bytes, and the swizzle") {
  const std::uint64_t d = matrix_descriptor(0x12340, 0x4000, 1024);
  CHECK((d & 0x3fffU) == 0x1234);
  CHECK((d >> 16U & 0x3fffU) == 0x400);
  CHECK((d >> 32U & 0x3fffU) == 64);
  CHECK(d >> 62U == 1);
  CHECK((d & ~0xc0003fff3fff3fffULL) == 0);
  // A move stays in its field up to the last byte that a block may have.
  const std::uint64_t begin = matrix_descriptor(0, 16, 1024), end = moved(begin, (227U << 10U) - 16);
  CHECK(end - begin == (end & 0x3fffU));
}

TEST_CASE("the copy engine's tiles have each number once, where chunks are written") {
  std::mt19937 random(1);
  const Bf16Rows from = slimpack::testing::random_bf16(random, 140, width, width + 8);
  for (const Copies copies : {Copies::early, Copies::late}) {
    const auto group = std::make_unique<PlayedGroup>(copies);
    group->bring<LeftTile>(from, 20, group->left());  // its last rows are zeros
    std::set<int> places;
    for (int row = 0; row < LeftTile::rows; ++row) {
      for (int col = 0; col < width; ++col) {
        const int place = LeftTile::offset(row, col / chunk_numbers) + col % chunk_numbers;
        CHECK(places.insert(place).second);
        const Bf16 got = group->left()[place];
        const auto at = static_cast<std::size_t>(row + 20);
        CHECK(static_cast<double>(to_float(got)) == number(from, at, static_cast<std::size_t>(col)));
      }
    }
    CHECK(places.size() == static_cast<std::size_t>(LeftTile::rows * width));
    CHECK(*places.rbegin() + 1 == LeftTile::rows * width);
    CHECK(group->block.is_done());
  }
}

TEST_CASE("groups' products of described tiles are plain ones, done at once or when waited for") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Bf16Rows a = slimpack::testing::random_bf16(random, 128, width),
                   b = slimpack::testing::random_bf16(random, 50, width),
                   c = slimpack::testing::random_bf16(random, 64, 64);
    const auto group = std::make_unique<PlayedGroup>(seed % 2 == 0 ? Copies::early : Copies::late);
    group->bring<LeftTile>(a, 0, group->left());
    group->bring<RightTile>(b, 0, group->right());
    for (const auto& owned : group->warps) {
      HostGroupWarp& warp = *owned;
      Lanes<Sums<64>, 32> transposed{};
      Lanes<Sums<width>, 32> plain{};
      Lanes<Fragment, 32> left[4];
      const int first = warp.warp() * 16;
      for (int i = 0; i < 4 * 32 * 8; ++i) {
        const int step = i / 256, lane = i / 8 % 32, reg = i % 8 / 2;
        const Place at = place_in_a(lane, reg, i % 2);
        const Bf16 x = c.view().row(static_cast<std::size_t>(first + at.row))[step * 16 + at.col];
        std::uint32_t& word = left[step][lane].at[reg];
        word = i % 2 == 0 ? x.bits : word | static_cast<std::uint32_t>(x.bits) << 16U;
      }
      for (int lane = 0; lane < 32; ++lane) transposed[lane].at[0][0] = NAN;  // set, not added to
      for (int lane = 0; lane < 32; ++lane) plain[lane].at[0][0] = 1;
      GroupProduct::multiply_transposed<LeftTile, RightTile>(warp, group->left(), 64, group->right(),
                                                             transposed);
      warp.commit_products();
      GroupProduct::multiply<RightTile, width>(warp, left, group->right(), plain);
      warp.commit_products();
      warp.wait_products<0>(transposed, plain);
      CHECK(warp.is_clean());
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < width / 2; ++i) {
          const Place in = place_in_sum(lane, i % 4);
          const auto row = static_cast<std::size_t>(first + in.row),
                     col = static_cast<std::size_t>(i / 4 * 8 + in.col);
          double expected = i == 0 ? 1 : 0;
          for (std::size_t k = 0; k < 64; ++k) expected += number(c, row, k) * number(b, k, col);
          REQUIRE(plain[lane].at[i / 4][i % 4] == Approx(expected).margin(1e-4));
          if (i >= 32) continue;
          expected = 0;
          for (std::size_t k = 0; k < width; ++k) expected += number(a, 64 + row, k) * number(b, col, k);
          REQUIRE(transposed[lane].at[i / 4][i % 4] == Approx(expected).margin(1e-4));
        }
      }
    }
    CHECK(group->block.is_done());
  }
}

TEST_CASE("a described matrix lies where the instruction's description puts it") {
  // The 128-byte swizzle of PTX's manual: in row r of 8, chunk c stands at c xor r.
  const DescribedMatrix m(matrix_descriptor(4096, 8192, 1024));
  CHECK(m.place(0, 0) == 4096);
  CHECK(m.place(1, 0) == 4096 + 128 + 16);
  CHECK(m.place(3, 15) == 4096 + 3 * 128 + ((1 ^ 3) * 16) + 14);
  CHECK(m.place(8, 0) == 4096 + 1024);
  CHECK(m.transposed_place(1, 0) == 4096 + 2);
  CHECK(m.transposed_place(9, 2) == 4096 + 2 * 128 + ((1 ^ 2) * 16) + 2);
  CHECK(m.transposed_place(64, 8) == 4096 + 8192 + 1024);
}

TEST_CASE("a barrier's phase ends with its last arrival and its last byte") {
  Mbarrier memory{};
  HostBarrier barrier(memory);
  barrier.begin(2);
  CHECK((!barrier.has_ended(0) && barrier.has_ended(1)));  // as on a GPU: the one before the first has ended
  barrier.expect(64);
  CHECK(barrier.arrive());
  CHECK(barrier.arrive());
  CHECK(!barrier.arrive());  // one more than its phase has
  CHECK(!barrier.has_ended(0));
  barrier.complete(64);
  CHECK((barrier.has_ended(0) && !barrier.has_ended(1)));
  CHECK(barrier.arrive());
  barrier.complete(32);  // bytes may come before they are expected
  CHECK(barrier.arrive());
  CHECK(!barrier.has_ended(1));
  barrier.expect(32);
  CHECK(barrier.has_ended(1));
}

TEST_CASE("stages of a ring come round with the other parity") {
  CHECK((ring_place<2>(0).stage == 0 && ring_place<2>(0).parity == 0));
  CHECK((ring_place<2>(1).stage == 1 && ring_place<2>(1).parity == 0));
  CHECK((ring_place<2>(2).stage == 0 && ring_place<2>(2).parity == 1));
  CHECK((ring_place<3>(7).stage == 1 && ring_place<3>(7).parity == 0));
}
