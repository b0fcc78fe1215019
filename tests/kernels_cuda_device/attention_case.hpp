#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/math/attention.hpp"
#include "tests/kernels_cuda_device/host_launcher.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"

// Packs of slices, what double precision makes of their attention, and what a kernel run by the host makes of it.
namespace slimpack::testing::attention_cases {

using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;

inline constexpr double bound = slimpack::testing::bf16_tolerance;

/// A pack of slices in any order, with rows that belong to none between them, in the pack and in the cache.
struct Case {
  /// @param others slices of some samples see the keys of other tokens: all queries the same ones
  Case(std::mt19937& random, std::size_t most_tokens, std::size_t most_prefix, bool others = false) {
    shape.kv_heads = pick(random, 1, 2);
    shape.heads = shape.kv_heads * pick(random, 1, 3);
    shape.head_dim = pick(random, 0, 1) == 1 ? 64 : 128;
    for (std::size_t samples = pick(random, 1, 3); samples > 0; --samples) {
      auto at = static_cast<std::int32_t>(pick(random, 0, 2) == 0 ? 0 : pick(random, 0, most_prefix));
      cache += pick(random, 0, 3);
      const auto key_begin = static_cast<std::int32_t>(cache);
      const bool causal = !others || pick(random, 0, 3) == 0;
      std::int32_t end = key_begin;
      for (std::size_t left = pick(random, 1, 3); left > 0; --left) {
        const auto size = static_cast<std::int32_t>(pick(random, 1, most_tokens));
        slices.push_back({.query_begin = 0, .tokens = size, .key_begin = key_begin, .prefix = at});
        if (!causal) {
          slices.back().prefix = static_cast<std::int32_t>(pick(random, 2, 2 + most_prefix));
          slices.back().own_keys = 0;
        }
        end = std::max(end, key_begin + slices.back().seen());
        at += size + static_cast<std::int32_t>(pick(random, 0, 1) * pick(random, 0, 9));
      }
      cache = static_cast<std::size_t>(end);
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

  /// One slice of 2 heads of 64 after a prefix, and nothing next to it.
  [[nodiscard]] static Case slice_after(std::mt19937& random, std::int32_t prefix, std::int32_t tokens) {
    Case c(random, 1, 0);
    c.shape = {.heads = 2, .kv_heads = 1, .head_dim = 64};
    c.slices = {{.query_begin = 0, .tokens = tokens, .key_begin = 0, .prefix = prefix}};
    c.tokens = static_cast<std::size_t>(tokens);
    c.cache = static_cast<std::size_t>(tokens + prefix);
    c.q = random_bf16(random, c.tokens, c.shape.query_width(), 0, 4.0);
    c.dout = random_bf16(random, c.tokens, c.shape.query_width());
    c.k = random_bf16(random, c.cache, c.shape.kv_width());
    c.v = random_bf16(random, c.cache, c.shape.kv_width());
    return c;
  }

  /// Rows of no slice and of no sample become no numbers: who reads them, shows it.
  void spoil() {
    std::vector<bool> query(tokens), key(cache);
    for (const AttentionSlice& s : slices) {
      std::fill_n(query.begin() + s.query_begin, s.tokens, true);
      std::fill_n(key.begin() + s.key_begin, s.seen(), true);
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
      const auto key = static_cast<std::size_t>(s.key_begin), keys = static_cast<std::size_t>(s.seen());
      const std::vector<Positions> at{{s.prefix, s.prefix + s.tokens}}, all{{0, s.seen()}};
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
  explicit Result(const Case& c, std::int32_t rows = attention_rows, Copies copies = Copies::late)
      : out(c.tokens, c.shape.query_width()),
        dq(c.tokens, c.shape.query_width()),
        lse(c.shape.heads, c.tokens),
        delta(c.shape.heads, c.tokens),
        dk(c.cache, c.shape.kv_width()),
        dv(c.cache, c.shape.kv_width()) {
    std::fill_n(lse.data(), numbers(lse).size(), NAN);
    std::fill_n(delta.data(), numbers(delta).size(), NAN);
    const AttentionWork work = attention_work(c.slices, c.tokens, c.cache, rows);
    const AttentionItems items{work.slices, work.queries, work.keys, work.rows};
    const AttentionInput in{c.q.view(), c.k.view(), c.v.view()};
    attention_by(HostLauncher{copies}, c.shape, in, items, out.view(), lse.view());
    attention_backward_by(HostLauncher{copies}, c.shape, in, items, std::as_const(out).view(), lse.view(),
                          c.dout.view(), delta.view(), dq.view(), dk.view(), dv.view());
  }

  Bf16Rows out, dq;
  Matrix<float> lse, delta, dk, dv;
};

/// Rows of the pack that belong to a slice, one after another; of the others, whether nobody wrote to them.
inline std::pair<std::vector<double>, bool> rows_of_slices(const Case& c, const Matrix<double>& all) {
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

/// Relative error; of what is 0, as the gradient of scores that a single key has, what roundings may leave is none.
[[nodiscard]] inline double error_of(std::vector<double> result, const std::vector<double>& expected) {
  const auto is_rounding = [](double x) { return std::abs(x) <= 1e-5; };
  if (std::all_of(expected.begin(), expected.end(), [](double x) { return x == 0; }))
    std::replace_if(result.begin(), result.end(), is_rounding, 0.0);
  return relative_error(result, expected);
}

inline void compare(const Case& c, std::int32_t block_rows = attention_rows) {
  const Result result(c, block_rows);
  const Expected expected(c);
  for (const auto& [got, wanted] :
       {std::pair{&result.out, &expected.out}, std::pair{&result.dq, &expected.dq}}) {
    const auto [rows, others_untouched] = rows_of_slices(c, got->in_double());
    CHECK(error_of(rows, rows_of_slices(c, *wanted).first) <= bound);
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
  const auto dk = numbers(result.dk);
  const auto expected_dk = numbers(expected.dk);
  CHECK(error_of({dk.begin(), dk.end()}, {expected_dk.begin(), expected_dk.end()}) <= bound);
  CHECK(relative_error(numbers(result.dv), numbers(expected.dv)) <= bound);
}

/// Two runs of one case have the same bits.
inline void check_same_bits(const Result& a, const Result& b) {
  const auto same = [](const auto& one, const auto& other) {
    REQUIRE(numbers(one).size_bytes() == numbers(other).size_bytes());
    return std::memcmp(one.data(), other.data(), numbers(one).size_bytes()) == 0;
  };
  CHECK(same(a.out.in_double(), b.out.in_double()));
  CHECK(same(a.dq.in_double(), b.dq.in_double()));
  CHECK(same(a.lse, b.lse));
  CHECK(same(a.dk, b.dk));
  CHECK(same(a.dv, b.dv));
}

}  // namespace slimpack::testing::attention_cases
