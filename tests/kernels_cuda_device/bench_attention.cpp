#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/buffers.hpp"
#include "bench/gpu/poisoned_pack.hpp"
#include "bench/gpu/sampled_attention.hpp"
#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/math/attention.hpp"
#include "tests/kernels_cuda_device/host_launcher.hpp"

// The rows that bench_gpu computes again, next to the CPU's attention of whole packs.
using namespace slimpack;
using namespace slimpack::bench;
using namespace slimpack::kernels;
using cuda::AttentionSlice, cuda::Bf16;

namespace {

std::vector<Bf16> in_bf16(const Matrix<double>& m) {
  std::vector<Bf16> out(m.rows() * m.cols());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = cuda::to_bf16(static_cast<float>(m.data()[i]));
  return out;
}

std::vector<float> in_float(const Matrix<double>& m) {
  std::vector<float> out(m.rows() * m.cols());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(m.data()[i]);
  return out;
}

/// A pack of random numbers with the CPU's results, rounded as a GPU's are.
AttentionNumbers solved(std::mt19937& random, const HeadShape& shape, const AttentionShape& pack) {
  const auto tokens = static_cast<std::size_t>(pack.tokens()), keys = static_cast<std::size_t>(pack.keys);
  const std::size_t qw = shape.query_width(), kw = shape.kv_width();
  AttentionNumbers n{.q = random_bf16(random, tokens * qw),
                     .k = random_bf16(random, keys * kw),
                     .v = random_bf16(random, keys * kw),
                     .dout = random_bf16(random, tokens * qw),
                     .out = {},
                     .dq = {},
                     .lse = std::vector<float>(shape.heads * tokens),
                     .dk = {},
                     .dv = {},
                     .tokens = tokens};
  const auto q = matrix(n.q, tokens, qw), dout = matrix(n.dout, tokens, qw), k = matrix(n.k, keys, kw),
             v = matrix(n.v, keys, kw);
  Matrix<double> out(tokens, qw), lse(tokens, shape.heads), dq(tokens, qw), dk(keys, kw), dv(keys, kw);
  Attention<double> attention(shape);
  for (const AttentionSlice& s : pack.slices) {
    const auto row = static_cast<std::size_t>(s.query_begin), rows = static_cast<std::size_t>(s.tokens),
               key = static_cast<std::size_t>(s.key_begin), seen = static_cast<std::size_t>(s.seen());
    const std::vector<Positions> at{{s.prefix, s.prefix + s.tokens}}, all{{0, s.prefix + s.tokens}};
    const QueryRows<double> queries{q.view().middle_rows(row, rows), at};
    const std::vector<KeyValuePiece<double>> pieces{
        {k.view().middle_rows(key, seen), v.view().middle_rows(key, seen), all}};
    Matrix<double> maximum(rows, shape.heads), sum(rows, shape.heads);
    const AttentionState<double> state{out.view().middle_rows(row, rows), maximum.view(), sum.view()};
    Attention<double>::begin(state);
    attention.accumulate(queries, pieces, state);
    attention.finish(state, lse.view().middle_rows(row, rows));
    const std::vector<Attention<double>::PieceGradients> gradients{
        {dk.view().middle_rows(key, seen), dv.view().middle_rows(key, seen)}};
    attention.backward(queries,
                       {out.view().middle_rows(row, rows), lse.view().middle_rows(row, rows),
                        dout.view().middle_rows(row, rows)},
                       pieces, dq.view().middle_rows(row, rows), gradients);
  }
  n.out = in_bf16(out), n.dq = in_bf16(dq), n.dk = in_float(dk), n.dv = in_float(dv);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < shape.heads; ++h)
      n.lse[h * tokens + t] = static_cast<float>(lse.data()[t * shape.heads + h]);
  }
  return n;
}

/// A slice after a prefix, and a pack of samples.
std::vector<AttentionShape> small_packs() {
  return {{"slice", {{0, 24, 0, 70}}, 94}, pack_of("samples", {1, 17, 40, 9})};
}

constexpr HeadShape shape{.heads = 6, .kv_heads = 2, .head_dim = 16};

}  // namespace

TEST_CASE("rows that are computed again agree with the whole pack's attention", "[bench_gpu]") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    for (const AttentionShape& pack : small_packs()) {
      INFO("seed " << seed << ", " << pack.name);
      const AttentionNumbers n = solved(random, shape, pack);
      const SampledErrors errors = SampledAttention(shape, n).compare_some(pack.slices, random);
      // What is left is rounding of results, and of the outputs that gradients of keys are made of.
      CHECK(errors.out.error() < 4e-3);
      CHECK(errors.dq.error() < 4e-3);
      CHECK(errors.dk.error() < 4e-3);
      CHECK(errors.dv.error() < 1e-5);
    }
  }
}

TEST_CASE("packs of checks stand amid rows that are no numbers, and kernels keep off these", "[bench_gpu]") {
  const HeadShape heads{.heads = 2, .kv_heads = 1, .head_dim = 64};
  for (unsigned seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<AttentionSlice> given =
        seed % 2 == 0 ? std::vector<AttentionSlice>{{0, 20, 0, 70}, {20, 30, 0, 10}}
                      : std::vector<AttentionSlice>{{0, 1, 0, 0}, {1, 43, 1, 0}, {44, 65, 44, 64}};
    const SpreadPack pack = spread(random, given, 40);
    const std::vector<bool> queries = owned_queries(pack), keys = owned_keys(pack);
    std::size_t tokens = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      CHECK((pack.slices[i].tokens == given[i].tokens && pack.slices[i].prefix == given[i].prefix));
      tokens += static_cast<std::size_t>(given[i].tokens);
      for (std::size_t j = 0; j < i; ++j)  // of the same sample as before
        CHECK((pack.slices[i].key_begin == pack.slices[j].key_begin) ==
              (given[i].key_begin == given[j].key_begin));
    }
    CHECK(static_cast<std::size_t>(std::count(queries.begin(), queries.end(), true)) == tokens);
    for (const auto* owned : {&queries, &keys}) CHECK_FALSE((owned->front() || owned->back()));

    const std::size_t qw = heads.query_width(), kw = heads.kv_width(), qs = qw + 2 * kw, ks = 3 * kw;
    const auto q = poisoned_rows(random, queries, qw, qs), dout = poisoned_rows(random, queries, qw, qw),
               k = poisoned_rows(random, keys, kw, ks), v = poisoned_rows(random, keys, kw, ks);
    for (std::size_t i = 0; i < k.size(); ++i) {
      const bool number = keys[i / ks] && i % ks < kw;
      REQUIRE(std::isfinite(cuda::to_float(k[i])) == number);
    }
    for (const std::int32_t rows : {cuda::attention_rows, cuda::group_attention_rows}) {
      const cuda::AttentionWork work = cuda::attention_work(pack.slices, pack.tokens, pack.cache, rows);
      const cuda::AttentionItems items{work.slices, work.queries, work.keys, work.rows};
      const cuda::AttentionInput in{
          {q.data(), pack.tokens, qw, qs}, {k.data(), pack.cache, kw, ks}, {v.data(), pack.cache, kw, ks}};
      std::vector<Bf16> out(pack.tokens * qw, no_number), dq = out;
      std::vector<float> lse(pack.tokens * heads.heads, NAN), delta = lse, dk(pack.cache * kw), dv = dk;
      const MatrixView<float> lses(lse.data(), heads.heads, pack.tokens),
          deltas(delta.data(), heads.heads, pack.tokens);
      const MatrixView<Bf16> outs(out.data(), pack.tokens, qw);
      const slimpack::testing::HostLauncher launch;
      cuda::attention_by(launch, heads, in, items, outs, lses);
      cuda::attention_backward_by(
          launch, heads, in, items, outs, lses, MatrixView<const Bf16>(dout.data(), pack.tokens, qw), deltas,
          MatrixView<Bf16>(dq.data(), pack.tokens, qw), MatrixView<float>(dk.data(), pack.cache, kw),
          MatrixView<float>(dv.data(), pack.cache, kw));
      const auto bits = std::as_bytes(std::span(&no_number, 1));
      const float zero = 0.0F;
      for (auto* result : {&out, &dq}) {
        CHECK(others_untouched(*result, queries, qw, bits));
        for (const Bf16 x : owned_rows(*result, queries, qw, qw)) REQUIRE(std::isfinite(cuda::to_float(x)));
      }
      for (auto* result : {&dk, &dv}) {
        CHECK(others_untouched(*result, keys, kw, std::as_bytes(std::span(&zero, 1))));
        for (const float x : *result) REQUIRE(std::isfinite(x));
      }
      // A row next to the pack that was written to is seen.
      const auto beside = static_cast<std::size_t>(pack.slices[0].query_begin - 1);
      out[beside * qw + qw - 1] = {};
      CHECK_FALSE(others_untouched(out, queries, qw, bits));
    }
  }
}

TEST_CASE("a wrong row is seen if it is among those that are computed again", "[bench_gpu]") {
  std::mt19937 random(5);
  const AttentionShape pack = small_packs()[0];
  const AttentionSlice& slice = pack.slices[0];
  const AttentionNumbers right = solved(random, shape, pack);
  const std::size_t width = shape.query_width(), kv_width = shape.kv_width(), d = shape.head_dim;
  const auto errors_of = [&](const AttentionNumbers& n) {
    SampledErrors errors;
    SampledAttention(shape, n).compare_query(slice, 23, 5, errors);
    SampledAttention(shape, n).compare_key(slice, 70, 1, errors);
    return errors;
  };
  AttentionNumbers wrong = right;
  for (std::size_t i = 0; i < d; ++i) wrong.out[23 * width + 5 * d + i] = right.out[22 * width + 5 * d + i];
  CHECK(errors_of(wrong).out.error() > 0.1);
  wrong = right;
  for (std::size_t i = 0; i < d; ++i) wrong.dq[23 * width + 5 * d + i] = right.dq[23 * width + 4 * d + i];
  CHECK(errors_of(wrong).dq.error() > 0.1);
  wrong = right;
  for (std::size_t i = 0; i < d; ++i) wrong.dk[70 * kv_width + d + i] *= 0.5F;
  CHECK(errors_of(wrong).dk.error() == Approx(0.5).epsilon(0.02));
  wrong = right;
  wrong.dv[70 * kv_width + d] = NAN;
  CHECK(errors_of(wrong).dv.error() == INFINITY);
}
