#include "kernels/math/attention.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_launch.hpp"
#include "tests/kernels_cuda/host_warp.hpp"
#include "tests/kernels_cuda/random_bf16.hpp"

// Attention's kernels, run by the host, against kernels/math in double.
using namespace slimpack;
using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;
using slimpack::testing::Bf16Rows, slimpack::testing::Copies, slimpack::testing::HostLauncher,
    slimpack::testing::numbers, slimpack::testing::pick, slimpack::testing::random_bf16,
    slimpack::testing::relative_error;

namespace {

constexpr double bound = slimpack::testing::bf16_tolerance;

/// A pack of slices in any order, with rows that belong to none between them, in the pack and in the cache.
struct Case {
  Case(std::mt19937& random, std::size_t most_tokens, std::size_t most_prefix) {
    shape.kv_heads = pick(random, 1, 2);
    shape.heads = shape.kv_heads * pick(random, 1, 3);
    shape.head_dim = pick(random, 0, 1) == 1 ? 64 : 128;
    for (std::size_t samples = pick(random, 1, 3); samples > 0; --samples) {
      auto at = static_cast<std::int32_t>(pick(random, 0, 2) == 0 ? 0 : pick(random, 0, most_prefix));
      cache += pick(random, 0, 3);
      const auto key_begin = static_cast<std::int32_t>(cache);
      for (std::size_t left = pick(random, 1, 3); left > 0; --left) {
        const auto size = static_cast<std::int32_t>(pick(random, 1, most_tokens));
        slices.push_back({.query_begin = 0, .tokens = size, .key_begin = key_begin, .prefix = at});
        at += size + static_cast<std::int32_t>(pick(random, 0, 1) * pick(random, 0, 9));
      }
      cache += static_cast<std::size_t>(slices.back().prefix + slices.back().tokens);
    }
    cache += pick(random, 0, 3);
    std::shuffle(slices.begin(), slices.end(), random);
    for (AttentionSlice& slice : slices) {
      tokens += pick(random, 0, 3);
      slice.query_begin = static_cast<std::int32_t>(tokens);
      tokens += static_cast<std::size_t>(slice.tokens);
    }
    tokens += pick(random, 0, 3);
    const std::size_t wider = 8 * pick(random, 0, 2);
    q = random_bf16(random, tokens, shape.query_width(), shape.query_width() + wider);
    dout = random_bf16(random, tokens, shape.query_width(), shape.query_width() + wider);
    k = random_bf16(random, cache, shape.kv_width(), shape.kv_width() + wider);
    v = random_bf16(random, cache, shape.kv_width(), shape.kv_width() + wider);
    spoil();
  }

  /// Rows of no slice and of no sample become no numbers: who reads them, shows it.
  void spoil() {
    std::vector<bool> query(tokens), key(cache);
    for (const AttentionSlice& s : slices) {
      std::fill_n(query.begin() + s.query_begin, s.tokens, true);
      std::fill_n(key.begin() + s.key_begin, s.prefix + s.tokens, true);
    }
    const auto spoil_rows = [](Bf16Rows& m, const std::vector<bool>& used) {
      for (std::size_t r = 0; r < used.size(); ++r) {
        if (!used[r]) std::fill_n(m.view().row(r), m.view().cols, Bf16{0x7fff});
      }
    };
    spoil_rows(q, query), spoil_rows(dout, query), spoil_rows(k, key), spoil_rows(v, key);
  }

  HeadShape shape;
  std::vector<AttentionSlice> slices;
  std::size_t tokens = 0, cache = 0;
  Bf16Rows q, k, v, dout;
};

/// What double precision gives; dk and dv begin as what is there.
struct Expected {
  explicit Expected(const Case& c)
      : out(c.tokens, c.shape.query_width()),
        lse(c.tokens, c.shape.heads),
        dq(c.tokens, c.shape.query_width()),
        dk(c.cache, c.shape.kv_width()),
        dv(c.cache, c.shape.kv_width()) {
    const auto q = c.q.in_double(), k = c.k.in_double(), v = c.v.in_double(), dout = c.dout.in_double();
    Attention<double> attention(c.shape);
    for (const AttentionSlice& s : c.slices) {
      const auto row = static_cast<std::size_t>(s.query_begin), rows = static_cast<std::size_t>(s.tokens);
      const auto key = static_cast<std::size_t>(s.key_begin),
                 keys = static_cast<std::size_t>(s.prefix + s.tokens);
      const std::vector<Positions> at{{s.prefix, s.prefix + s.tokens}}, all{{0, s.prefix + s.tokens}};
      const QueryRows<double> queries{q.view().middle_rows(row, rows), at};
      const std::vector<KeyValuePiece<double>> pieces{
          {k.view().middle_rows(key, keys), v.view().middle_rows(key, keys), all}};
      Matrix<double> maximum(rows, c.shape.heads), sum(rows, c.shape.heads);
      const AttentionState<double> state{out.view().middle_rows(row, rows), maximum.view(), sum.view()};
      Attention<double>::begin(state);
      attention.accumulate(queries, pieces, state);
      attention.finish(state, lse.view().middle_rows(row, rows));
      const std::vector<Attention<double>::PieceGradients> gradients{
          {dk.view().middle_rows(key, keys), dv.view().middle_rows(key, keys)}};
      attention.backward(queries,
                         {out.view().middle_rows(row, rows), lse.view().middle_rows(row, rows),
                          dout.view().middle_rows(row, rows)},
                         pieces, dq.view().middle_rows(row, rows), gradients);
    }
  }

  Matrix<double> out, lse, dq, dk, dv;
};

struct Result {
  explicit Result(const Case& c, Copies copies = Copies::late)
      : out(c.tokens, c.shape.query_width()),
        dq(c.tokens, c.shape.query_width()),
        lse(c.shape.heads, c.tokens),
        delta(c.shape.heads, c.tokens),
        dk(c.cache, c.shape.kv_width()),
        dv(c.cache, c.shape.kv_width()) {
    std::fill_n(lse.data(), numbers(lse).size(), NAN);
    std::fill_n(delta.data(), numbers(delta).size(), NAN);
    const AttentionWork work = attention_work(c.slices, c.tokens, c.cache);
    const AttentionItems items{work.slices, work.queries, work.keys};
    const AttentionInput in{c.q.view(), c.k.view(), c.v.view()};
    attention_by(HostLauncher{copies}, c.shape, in, items, out.view(), lse.view());
    attention_backward_by(HostLauncher{copies}, c.shape, in, items, std::as_const(out).view(), lse.view(),
                          c.dout.view(), delta.view(), dq.view(), dk.view(), dv.view());
  }

  Bf16Rows out, dq;
  Matrix<float> lse, delta, dk, dv;
};

/// Rows of the pack that belong to a slice, one behind another; of the others, whether nobody wrote to them.
std::pair<std::vector<double>, bool> rows_of_slices(const Case& c, const Matrix<double>& all) {
  std::vector<bool> used(c.tokens);
  for (const AttentionSlice& s : c.slices) std::fill_n(used.begin() + s.query_begin, s.tokens, true);
  std::pair<std::vector<double>, bool> out{{}, true};
  for (std::size_t r = 0; r < all.rows(); ++r) {
    const double* row = all.view().row(r);
    if (used[r]) {
      out.first.insert(out.first.end(), row, row + all.cols());
    } else if (!std::all_of(row, row + all.cols(), [](double x) { return std::isnan(x); })) {
      out.second = false;
    }
  }
  return out;
}

void compare(const Case& c) {
  const Result result(c);
  const Expected expected(c);
  for (const auto& [got, wanted] :
       {std::pair{&result.out, &expected.out}, std::pair{&result.dq, &expected.dq}}) {
    const auto [rows, others_untouched] = rows_of_slices(c, got->in_double());
    CHECK(relative_error(rows, rows_of_slices(c, *wanted).first) <= bound);
    CHECK(others_untouched);
  }
  std::vector<double> lse, expected_lse;
  for (const AttentionSlice& s : c.slices) {
    for (std::int32_t t = s.query_begin; t < s.query_begin + s.tokens; ++t) {
      for (std::size_t head = 0; head < c.shape.heads; ++head) {
        lse.push_back(static_cast<double>(result.lse.view().row(head)[t]));
        expected_lse.push_back(expected.lse.view().row(static_cast<std::size_t>(t))[head]);
      }
    }
  }
  CHECK(relative_error(lse, expected_lse) <= 1e-5);
  CHECK(relative_error(numbers(result.dk), numbers(expected.dk)) <= bound);
  CHECK(relative_error(numbers(result.dv), numbers(expected.dv)) <= bound);
}

}  // namespace

TEST_CASE("CUDA: attention of packs of slices with prefixes, forward and backward", "[threads]") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    compare(Case(random, 40, 60));
  }
  for (unsigned seed = 101; seed <= 104; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    compare(Case(random, 150, 200));
  }
}

TEST_CASE("CUDA: attention has the same bits whenever copies are done", "[threads]") {
  const auto same = [](const auto& a, const auto& b) {
    const auto bytes = [](const auto& m) { return numbers(m).size_bytes(); };
    REQUIRE(bytes(a) == bytes(b));
    return std::memcmp(a.data(), b.data(), bytes(a)) == 0;
  };
  for (unsigned seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Case c(random, 100, 100);
    const Result late(c, Copies::late), early(c, Copies::early);
    CHECK(same(late.out.in_double(), early.out.in_double()));
    CHECK(same(late.dq.in_double(), early.dq.in_double()));
    CHECK(same(late.lse, early.lse));
    CHECK(same(late.dk, early.dk));
    CHECK(same(late.dv, early.dv));
  }
}

TEST_CASE("CUDA: attention at the borders of tiles") {
  std::mt19937 random(1);
  for (const std::int32_t tokens : {1, 63, 64, 65, 128}) {
    for (const std::int32_t prefix : {0, 1, 14, 62, 63, 64, 65}) {
      INFO(tokens << " tokens after " << prefix);
      Case c(random, 1, 0);
      c.shape = {.heads = 2, .kv_heads = 1, .head_dim = 64};
      c.slices = {{.query_begin = 0, .tokens = tokens, .key_begin = 0, .prefix = prefix}};
      c.tokens = static_cast<std::size_t>(tokens);
      c.cache = static_cast<std::size_t>(tokens + prefix);
      c.q = random_bf16(random, c.tokens, c.shape.query_width(), 0, 4.0);
      c.dout = random_bf16(random, c.tokens, c.shape.query_width());
      c.k = random_bf16(random, c.cache, c.shape.kv_width());
      c.v = random_bf16(random, c.cache, c.shape.kv_width());
      compare(c);
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
  q.misalign();
  CHECK_THROWS_WITH(run(shape, {std::as_const(q).view(), k.view(), k.view()}),
                    Catch::StartsWith("the queries' matrix does not lie in packs"));
}

TEST_CASE("CUDA: attention's work has each query and each key once, the longest first") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Case c(random, 300, 500);
    const AttentionWork work = attention_work(c.slices, c.tokens, c.cache);
    std::set<std::int32_t> rows, keys, expected_rows, expected_keys;
    std::int64_t last = std::int64_t{1} << 60;
    for (const QueryItem& item : work.queries) {
      const AttentionSlice& s = work.slices.at(static_cast<std::size_t>(item.slice));
      const std::int64_t seen = s.prefix + item.first;
      CHECK(seen <= last);
      last = seen;
      for (std::int32_t t = item.first; t < std::min(item.first + attention_rows, s.tokens); ++t) {
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
      for (std::int32_t t = item.first; t < std::min(item.first + attention_rows, tokens); ++t) {
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
  CHECK_THROWS_WITH(work({{0, 4, 0, 6}, {3, 4, 0, 10}}),
                    Catch::StartsWith("two slices have row 3 of the pack"));
  CHECK_THROWS_WITH(work({{0, 4, 0, 6}, {4, 4, 9, 0}}),
                    Catch::StartsWith("two samples have row 9 of the cache"));
  CHECK_THROWS_WITH(work({{0, 0, 0, 6}}), Catch::StartsWith("slice 0 has 0 tokens after 6"));
  CHECK_THROWS_WITH(work({{8, 4, 0, 6}}), Catch::StartsWith("slice 0 begins at row 8"));
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
