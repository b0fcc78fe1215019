#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/pack_attention.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/math/attention.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16, cuda::AttentionSlice;
using kernels::Attention, kernels::HeadShape, kernels::Matrix, kernels::Positions;

void check_pack(Checks& checks, std::mt19937& random, const HeadShape& shape,
                const std::vector<AttentionSlice>& slices, std::size_t tokens, std::size_t cache,
                AttentionBy by) {
  const std::size_t qw = shape.query_width(), kw = shape.kv_width();
  const auto hq = random_bf16(random, tokens * qw), hdout = random_bf16(random, tokens * qw),
             hk = random_bf16(random, cache * kw), hv = random_bf16(random, cache * kw);
  const Rows<Bf16> q(hq, tokens, qw), dout(hdout, tokens, qw), k(hk, cache, kw), v(hv, cache, kw),
      out(tokens, qw), dq(tokens, qw);
  const Rows<float> lse(shape.heads, tokens), delta(shape.heads, tokens);
  const Rows<float> dk(std::vector<float>(cache * kw), cache, kw),
      dv(std::vector<float>(cache * kw), cache, kw);
  const cuda::AttentionInput in{q.in(), k.in(), v.in()};
  PackAttention pack(by, shape, slices, in);
  pack.forward(out, lse, nullptr);
  pack.backward({out, lse, dout, delta, dq, dk, dv}, nullptr);

  const auto eq = matrix(hq, tokens, qw), edout = matrix(hdout, tokens, qw), ek = matrix(hk, cache, kw),
             ev = matrix(hv, cache, kw);
  Matrix<double> eout(tokens, qw), elses(tokens, shape.heads), edq(tokens, qw), edk(cache, kw),
      edv(cache, kw);
  Attention<double> attention(shape);
  for (const AttentionSlice& s : slices) {
    const auto row = static_cast<std::size_t>(s.query_begin), rows = static_cast<std::size_t>(s.tokens);
    const auto key = static_cast<std::size_t>(s.key_begin),
               count = static_cast<std::size_t>(s.prefix + s.tokens);
    const std::vector<Positions> at{{s.prefix, s.prefix + s.tokens}}, all{{0, s.prefix + s.tokens}};
    const kernels::QueryRows<double> query_rows{eq.view().middle_rows(row, rows), at};
    const std::vector<kernels::KeyValuePiece<double>> pieces{
        {ek.view().middle_rows(key, count), ev.view().middle_rows(key, count), all}};
    Matrix<double> maximum(rows, shape.heads), sum(rows, shape.heads);
    const kernels::AttentionState<double> state{eout.view().middle_rows(row, rows), maximum.view(),
                                                sum.view()};
    Attention<double>::begin(state);
    attention.accumulate(query_rows, pieces, state);
    attention.finish(state, elses.view().middle_rows(row, rows));
    const std::vector<Attention<double>::PieceGradients> gradients{
        {edk.view().middle_rows(key, count), edv.view().middle_rows(key, count)}};
    attention.backward(query_rows,
                       {eout.view().middle_rows(row, rows), elses.view().middle_rows(row, rows),
                        edout.view().middle_rows(row, rows)},
                       pieces, edq.view().middle_rows(row, rows), gradients);
  }
  const std::string how = std::string(" by ") + name_of(by);
  checks.add("attention" + how, relative_error(out.read(), eout));
  checks.add("attention_backward" + how + ", queries", relative_error(dq.read(), edq));
  checks.add("attention_backward" + how + ", keys", relative_error(dk.read(), edk));
  checks.add("attention_backward" + how + ", values", relative_error(dv.read(), edv));
}

void check_packs(Checks& checks, std::mt19937& random, std::size_t dim, AttentionBy by) {
  const HeadShape shape{.heads = 8, .kv_heads = 2, .head_dim = dim};
  // One slice after a prefix, a pack of short samples, two slices of one sample.
  check_pack(checks, random, shape, {{0, 200, 0, 700}}, 200, 900, by);
  check_pack(checks, random, shape, {{0, 1, 0, 0}, {1, 63, 1, 0}, {64, 65, 64, 64}, {129, 130, 193, 0}}, 259,
             323, by);
  if (by == AttentionBy::cudnn) return;  // it takes one slice of each sample
  check_pack(checks, random, shape, {{0, 100, 0, 300}, {100, 150, 0, 0}}, 250, 400, by);
}

}  // namespace

void check_attention(Checks& checks, unsigned seed) {
  std::mt19937 random(seed);
  for (const std::size_t dim : {64UL, 128UL}) {
    for (const AttentionBy by : our_attention()) check_packs(checks, random, dim, by);
  }
}

void check_library_attention(Checks& checks, unsigned seed) {
  std::mt19937 random(seed);
  if (library_attention().empty()) return;
  for (const std::size_t dim : {64UL, 128UL}) check_packs(checks, random, dim, AttentionBy::cudnn);
}

}  // namespace slimpack::bench
