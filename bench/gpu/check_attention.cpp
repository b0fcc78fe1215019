#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/math/attention.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16, cuda::AttentionSlice;
using kernels::Attention, kernels::HeadShape, kernels::Matrix, kernels::Positions;

void check_pack(Checks& checks, std::mt19937& random, const HeadShape& shape,
                const std::vector<AttentionSlice>& slices, std::size_t tokens, std::size_t cache) {
  const std::size_t qw = shape.query_width(), kw = shape.kv_width();
  const auto hq = random_bf16(random, tokens * qw), hdout = random_bf16(random, tokens * qw),
             hk = random_bf16(random, cache * kw), hv = random_bf16(random, cache * kw);
  const Rows<Bf16> q(hq, tokens, qw), dout(hdout, tokens, qw), k(hk, cache, kw), v(hv, cache, kw),
      out(tokens, qw), dq(tokens, qw);
  const Rows<float> lse(shape.heads, tokens), delta(shape.heads, tokens);
  const Rows<float> dk(std::vector<float>(cache * kw), cache, kw),
      dv(std::vector<float>(cache * kw), cache, kw);
  const cuda::AttentionWork work = cuda::attention_work(slices, tokens, cache);
  const Numbers<AttentionSlice> work_slices(work.slices);
  const Numbers<cuda::QueryItem> queries(work.queries);
  const Numbers<cuda::KeyItem> keys(work.keys);
  const cuda::AttentionItems items{work_slices.span(), queries.span(), keys.span()};
  const cuda::AttentionInput in{q.in(), k.in(), v.in()};
  cuda::attention(shape, in, items, out.view(), lse.view(), nullptr);
  cuda::attention_backward(shape, in, items, out.in(), lse.in(), dout.in(), delta.view(), dq.view(),
                           dk.view(), dv.view(), nullptr);

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
  checks.add("attention", relative_error(out.read(), eout));
  checks.add("attention_backward, queries", relative_error(dq.read(), edq));
  checks.add("attention_backward, keys", relative_error(dk.read(), edk));
  checks.add("attention_backward, values", relative_error(dv.read(), edv));
}

}  // namespace

void check_attention(Checks& checks, unsigned seed) {
  std::mt19937 random(seed);
  for (const std::size_t dim : {64UL, 128UL}) {
    const HeadShape shape{.heads = 8, .kv_heads = 2, .head_dim = dim};
    // One slice behind a prefix, a pack of short samples, two slices of one sample.
    check_pack(checks, random, shape, {{0, 200, 0, 700}}, 200, 900);
    check_pack(checks, random, shape, {{0, 1, 0, 0}, {1, 63, 1, 0}, {64, 65, 64, 64}, {129, 130, 193, 0}},
               259, 323);
    check_pack(checks, random, shape, {{0, 100, 0, 300}, {100, 150, 0, 0}}, 250, 400);
  }
}

}  // namespace slimpack::bench
