#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/buffers.hpp"
#include "bench/gpu/sampled_attention.hpp"
#include "kernels/math/attention.hpp"

// The rows that bench_gpu computes again, beside the CPU's attention of whole packs.
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

/// A slice behind a prefix, and a pack of samples.
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
