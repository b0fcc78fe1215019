#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "tests/effort.hpp"
#include "tests/kernels_cuda_device/attention_case.hpp"

// Attention's kernels, run by the host, against kernels/math in double.
using namespace slimpack;
using namespace slimpack::testing::attention_cases;
using slimpack::testing::Bf16Rows, slimpack::testing::Copies, slimpack::testing::HostLauncher,
    slimpack::testing::numbers, slimpack::testing::pick, slimpack::testing::relative_error,
    slimpack::testing::seeds;

namespace {

/// Rows in which pieces of keys' gradients begin, samples in any order and all apart.
struct MovedGradients {
  /// @param slices are told which pieces are theirs.
  MovedGradients(std::mt19937& random, std::vector<AttentionSlice>& slices) {
    std::map<std::int32_t, std::int32_t> ends, firsts;  // by key_begin
    for (const AttentionSlice& s : slices) ends[s.key_begin] = std::max(ends[s.key_begin], s.seen());
    for (const auto& [begin, tokens] : ends) {
      firsts[begin] = static_cast<std::int32_t>(pieces.size());
      pieces.resize(pieces.size() + static_cast<std::size_t>((tokens + 127) / 128));
    }
    std::vector<std::size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t piece : order) {
      rows += pick(random, 1, 9);
      pieces[piece] = static_cast<std::int32_t>(rows);
      rows += 128;
    }
    for (AttentionSlice& s : slices) s.gradient_piece = firsts[s.key_begin];
  }

  std::vector<std::int32_t> pieces;
  std::size_t rows = 0;  ///< in all
};

}  // namespace

TEST_CASE("CUDA: attention of packs of slices with prefixes, forward and backward", "[threads]") {
  for (unsigned seed = 1; seed <= seeds(12, 6, 3); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    compare(Case(random, 40, 60));
  }
  for (unsigned seed = 101; seed <= 100 + seeds(4, 2); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    compare(Case(random, 150, 200));
  }
}

TEST_CASE("CUDA: attention of slices whose queries all see the same keys of other tokens", "[threads]") {
  for (const std::int32_t block : {attention_rows, group_attention_rows}) {
    for (unsigned seed = seeds(1, 5, 8); seed <= seeds(12, 12, 9); ++seed) {
      INFO("seed " << seed << ", blocks of " << block);
      std::mt19937 random(seed);
      compare(seed < 9 ? Case(random, 40, 60, true) : Case(random, 200, 300, true), block);
    }
  }
  std::mt19937 random(1);
  for (const std::int32_t tokens : {1, 64, 65}) {
    for (const std::int32_t keys : {2, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129}) {
      INFO(tokens << " tokens see " << keys << " keys");
      Case c = Case::slice_after(random, keys, tokens);
      c.slices.front().own_keys = 0;
      c.spoil();
      compare(c);
      compare(c, group_attention_rows);
    }
  }
}

TEST_CASE("CUDA: attention has the same bits whenever copies are done", "[threads]") {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Case c(random, 100, 100);
    const Result late(c, attention_rows, Copies::late), early(c, attention_rows, Copies::early);
    check_same_bits(late, early);
  }
}

TEST_CASE("CUDA: gradients of keys and values may lie in other rows than they, in pieces") {
  for (unsigned seed = 1; seed <= 9; ++seed) {
    const std::int32_t block = seed % 3 == 0 ? attention_rows : group_attention_rows;
    INFO("seed " << seed << ", blocks of " << block);
    std::mt19937 random(seed);
    const Case c(random, 70, 160);
    const Result plain(c, block);
    const Expected expected(c);
    std::vector<AttentionSlice> slices = c.slices;
    const MovedGradients moved(random, slices);
    const std::size_t rows = moved.rows;
    const AttentionWork work = attention_work(slices, c.tokens, c.cache, block, moved.pieces);
    Bf16Rows dq(c.tokens, c.shape.query_width());
    Matrix<float> delta(c.shape.heads, c.tokens), dk(rows, c.shape.kv_width()), dv(rows, c.shape.kv_width());
    attention_backward_by(HostLauncher{}, c.shape, {c.q.view(), c.k.view(), c.v.view()},
                          {work.slices, work.queries, work.keys, work.rows}, plain.out.view(),
                          plain.lse.view(), c.dout.view(), delta.view(), dq.view(), dk.view(), dv.view());
    for (auto [got, wanted] : {std::pair{&dk, &expected.dk}, std::pair{&dv, &expected.dv}}) {
      Matrix<double> expected_rows(rows, c.shape.kv_width());
      for (const AttentionSlice& s : work.slices) {
        for (std::int32_t key = 0; key < s.seen(); ++key) {
          const std::int32_t row =
              moved.pieces[static_cast<std::size_t>(s.gradient_piece + key / 128)] + key % 128;
          std::copy_n(wanted->view().row(static_cast<std::size_t>(s.key_begin + key)), c.shape.kv_width(),
                      expected_rows.view().row(static_cast<std::size_t>(row)));
        }
      }
      CHECK(relative_error(numbers(*got), numbers(expected_rows)) <= bound);
      for (std::size_t row = 0; row < rows; ++row) {
        const auto of = [&](const auto& m) { return std::span(m.view().row(row), c.shape.kv_width()); };
        const auto is_0 = [](const auto& row_of) {
          return std::all_of(row_of.begin(), row_of.end(), [](auto x) { return x == 0; });
        };
        REQUIRE((!is_0(of(expected_rows)) || is_0(of(*got))));
      }
    }
  }
}

TEST_CASE("CUDA: attention at the borders of tiles") {
  std::mt19937 random(1);
  for (const std::int32_t tokens : {1, 63, 64, 65, 128}) {
    for (const std::int32_t prefix : {0, 1, 14, 62, 63, 64, 65}) {
      INFO(tokens << " tokens after " << prefix);
      compare(Case::slice_after(random, prefix, tokens));
    }
  }
}

TEST_CASE("CUDA: attention of an empty pack does nothing, of what does not fit says so") {
  const HeadShape shape{.heads = 2, .kv_heads = 1, .head_dim = 64};
  Bf16Rows q(4, 128), k(4, 64), out(4, 128);
  Matrix<float> lse(2, 4);
  const AttentionInput in{q.view(), k.view(), k.view()};
  CHECK_NOTHROW(attention_by(HostLauncher{}, shape, in, {}, out.view(), lse.view()));
  CHECK(out.view().data[0].bits == 0x7fff);
  const auto run = [&](const HeadShape& s, const AttentionInput& i) {
    attention_by(HostLauncher{}, s, i, {}, out.view(), lse.view());
  };
  CHECK_THROWS_WITH(run({.heads = 2, .kv_heads = 1, .head_dim = 96}, in),
                    Catch::StartsWith("head_dim is 96"));
  CHECK_THROWS_AS(run({.heads = 3, .kv_heads = 2, .head_dim = 64}, in), InvalidInput);
  CHECK_THROWS_AS(run(shape, {k.view(), k.view(), k.view()}), InvalidInput);
  const AttentionItems other{{}, {}, {}, 96};
  CHECK_THROWS_WITH(attention_by(HostLauncher{}, shape, in, other, out.view(), lse.view()),
                    Catch::StartsWith("attention's work has blocks of 96 tokens; expected 64 or 128"));
  q.misalign();
  CHECK_THROWS_WITH(run(shape, {std::as_const(q).view(), k.view(), k.view()}),
                    Catch::StartsWith("the queries' matrix does not lie in packs"));
}

TEST_CASE("CUDA: attention's work has each query and each key once, the longest first") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Case c(random, 300, 500);
    const std::int32_t block = seed % 2 == 0 ? attention_rows : group_attention_rows;
    const AttentionWork work = attention_work(c.slices, c.tokens, c.cache, block);
    CHECK(work.rows == block);
    std::set<std::int32_t> rows, keys, expected_rows, expected_keys;
    std::int64_t last = std::int64_t{1} << 60;
    for (const QueryItem& item : work.queries) {
      const AttentionSlice& s = work.slices.at(static_cast<std::size_t>(item.slice));
      const std::int64_t seen = s.prefix + item.first;
      CHECK(seen <= last);
      last = seen;
      for (std::int32_t t = item.first; t < std::min(item.first + block, s.tokens); ++t) {
        CHECK(rows.insert(s.query_begin + t).second);
      }
    }
    last = std::int64_t{1} << 60;
    for (const KeyItem& item : work.keys) {
      const std::int32_t begin = work.slices.at(static_cast<std::size_t>(item.slice)).key_begin;
      std::int32_t tokens = 0;
      std::int64_t cost = 0;
      for (const AttentionSlice& s : c.slices) {
        if (s.key_begin != begin) continue;
        tokens = std::max(tokens, s.prefix + s.tokens);
        for (std::int32_t t = 0; t < s.tokens; ++t) cost += s.prefix + t >= item.first ? 1 : 0;
      }
      CHECK(cost <= last);
      last = cost;
      for (std::int32_t t = item.first; t < std::min(item.first + block, tokens); ++t) {
        CHECK(keys.insert(begin + t).second);
      }
    }
    for (const AttentionSlice& s : c.slices) {
      for (std::int32_t t = 0; t < s.tokens; ++t) expected_rows.insert(s.query_begin + t);
      for (std::int32_t t = 0; t < s.prefix + s.tokens; ++t) expected_keys.insert(s.key_begin + t);
    }
    CHECK(rows == expected_rows);
    CHECK(keys == expected_keys);
  }
}

TEST_CASE("CUDA: slices that share rows or reach beyond them are named") {
  const auto work = [](std::vector<AttentionSlice> slices) { return attention_work(slices, 10, 20); };
  CHECK_NOTHROW(work({{0, 4, 0, 6}, {4, 4, 0, 10}, {8, 2, 14, 0}}));
  CHECK_THROWS_WITH(attention_work({}, 10, 20, 32),
                    Catch::StartsWith("a block has 32 tokens; expected 64 or 128"));
  CHECK_THROWS_WITH(work({{0, 4, 0, 6}, {3, 4, 0, 10}}),
                    Catch::StartsWith("two slices have row 3 of the pack"));
  CHECK_THROWS_WITH(work({{0, 4, 0, 6}, {4, 4, 9, 0}}),
                    Catch::StartsWith("two samples have row 9 of the cache"));
  CHECK_THROWS_WITH(work({{0, 0, 0, 6}}), Catch::StartsWith("slice 0 has 0 tokens after 6"));
  CHECK_THROWS_WITH(work({{8, 4, 0, 6}}), Catch::StartsWith("slice 0 begins at row 8"));
  CHECK_NOTHROW(work({{0, 8, 14, 6, 0, 0}}));
  CHECK_THROWS_WITH(work({{0, 8, 14, 0, 0, 0}}),
                    Catch::StartsWith("slice 0 has own_keys 0 and a prefix of 0"));
  CHECK_THROWS_WITH(work({{0, 4, 14, 6}}), Catch::StartsWith("slice 0 has its sample's keys from row 14"));
  PackIndices indices;
  indices.cu_seqlens_q = {0, 5, 9};
  indices.cu_seqlens_k = {0, 8, 12};
  indices.kv_prefix_lengths = {3, 0};
  indices.kv_prefix_offsets = {0, 8};
  const auto gathered = attention_slices(indices);
  CHECK((gathered[0].tokens == 5 && gathered[0].prefix == 3 && gathered[0].key_begin == 0));
  CHECK((gathered[1].query_begin == 5 && gathered[1].tokens == 4 && gathered[1].key_begin == 8));
  CHECK(attention_slices(indices, std::vector<std::int32_t>{40, 70})[1].key_begin == 70);
  CHECK_THROWS_AS(attention_slices(indices, std::vector<std::int32_t>{40}), InvalidInput);
}
