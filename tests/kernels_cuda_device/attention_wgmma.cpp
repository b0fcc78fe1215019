#include <catch2/catch.hpp>
#include <cstdint>
#include <random>

#include "tests/effort.hpp"
#include "tests/kernels_cuda_device/attention_case.hpp"

// Attention's kernels for Hopper, run by the host: groups of warps, barriers, the copy engine and `wgmma` on
// descriptors of swizzled tiles.
using namespace slimpack::testing::attention_cases;
using slimpack::testing::Copies, slimpack::testing::seeds;

TEST_CASE("CUDA: wgmma attention of packs of slices with prefixes", "[threads]") {
  for (unsigned seed = 1; seed <= seeds(8, 4, 2); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    compare(Case(random, 60, 90), group_attention_rows);
  }
  for (unsigned seed = 101; seed <= 100 + seeds(4, 2); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    compare(Case(random, 300, 700), group_attention_rows);
  }
}

TEST_CASE("CUDA: wgmma attention has the same bits whenever copies and products are done", "[threads]") {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Case c(random, 150, 350);
    const Result late(c, group_attention_rows, Copies::late), early(c, group_attention_rows, Copies::early);
    check_same_bits(late, early);
  }
}

TEST_CASE("CUDA: wgmma attention at the borders of tiles and groups") {
  std::mt19937 random(1);
  // Of one token without a prefix, gradients are 0, to which errors have no relation.
  for (const std::int32_t tokens : {2, 63, 64, 65, 127, 128, 129, 256}) {
    for (const std::int32_t prefix : {0, 1, 63, 64, 65, 127, 128, 129}) {
      INFO(tokens << " tokens after " << prefix);
      compare(Case::slice_after(random, prefix, tokens), group_attention_rows);
    }
  }
}
