#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/pack_attention.hpp"
#include "bench/gpu/poisoned_pack.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/math/attention.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16, cuda::AttentionSlice;
using kernels::Attention, kernels::HeadShape, kernels::Matrix, kernels::MatrixView, kernels::Positions;

/// A matrix on the GPU that is a part of a wider one.
MatrixView<const Bf16> part_of(const Rows<Bf16>& rows, std::size_t cols) {
  return MatrixView<const Bf16>(rows.view()).middle_cols(0, cols);
}

/// Numbers of the owned rows, in double; the others are zeros.
Matrix<double> owned_matrix(const std::vector<Bf16>& from, const std::vector<bool>& owned, std::size_t cols,
                            std::size_t stride) {
  Matrix<double> out(owned.size(), cols);
  for (std::size_t r = 0; r < owned.size(); ++r) {
    for (std::size_t i = 0; owned[r] && i < cols; ++i) out.view().row(r)[i] = in_double(from[r * stride + i]);
  }
  return out;
}

/// As `relative_error`, of the owned rows alone; infinite if others were written to.
template <class T>
double owned_error(const std::vector<T>& result, const Matrix<double>& expected,
                   const std::vector<bool>& owned, unsigned char begun) {
  const std::size_t cols = expected.cols();
  const std::vector<std::byte> bytes(sizeof(T), std::byte{begun});
  if (!others_untouched(result, owned, cols, bytes)) return INFINITY;
  const std::vector<double> all(expected.data(), expected.data() + expected.rows() * cols);
  const std::vector<double> rows = owned_rows(all, owned, cols, cols);
  return relative_error(owned_rows(result, owned, cols, cols), std::span(rows));
}

/// All rows that no slice owns, and what stands next to keys, values and queries, are no numbers.
void check_pack(Checks& checks, std::mt19937& random, const HeadShape& shape,
                const std::vector<AttentionSlice>& given, AttentionBy by) {
  const SpreadPack spreaded = spread(random, given);
  const auto& [slices, tokens, cache] = spreaded;
  const std::vector<bool> queries = owned_queries(spreaded), keys = owned_keys(spreaded);
  const std::size_t qw = shape.query_width(), kw = shape.kv_width(), qs = qw + 2 * kw, ks = 3 * kw;
  const auto hq = poisoned_rows(random, queries, qw, qs), hdout = poisoned_rows(random, queries, qw, qw),
             hk = poisoned_rows(random, keys, kw, ks), hv = poisoned_rows(random, keys, kw, ks);
  const Rows<Bf16> q(hq, tokens, qs), dout(hdout, tokens, qw), k(hk, cache, ks), v(hv, cache, ks),
      out(tokens, qw), dq(tokens, qw);
  const Rows<float> lse(shape.heads, tokens), delta(shape.heads, tokens);
  const Rows<float> dk(std::vector<float>(cache * kw), cache, kw),
      dv(std::vector<float>(cache * kw), cache, kw);
  const cuda::AttentionInput in{part_of(q, qw), part_of(k, kw), part_of(v, kw)};
  PackAttention pack(by, shape, slices, in);
  pack.forward(out, lse, nullptr);
  pack.backward({out, lse, dout, delta, dq, dk, dv}, nullptr);

  const auto eq = owned_matrix(hq, queries, qw, qs), edout = owned_matrix(hdout, queries, qw, qw),
             ek = owned_matrix(hk, keys, kw, ks), ev = owned_matrix(hv, keys, kw, ks);
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
  checks.add("attention" + how, owned_error(out.read(), eout, queries, 0xff));
  checks.add("attention_backward" + how + ", queries", owned_error(dq.read(), edq, queries, 0xff));
  checks.add("attention_backward" + how + ", keys", owned_error(dk.read(), edk, keys, 0));
  checks.add("attention_backward" + how + ", values", owned_error(dv.read(), edv, keys, 0));
}

void check_packs(Checks& checks, std::mt19937& random, std::size_t dim, AttentionBy by) {
  const HeadShape shape{.heads = 8, .kv_heads = 2, .head_dim = dim};
  // One slice after a prefix, a pack of short samples, two slices of one sample.
  check_pack(checks, random, shape, {{0, 200, 0, 700}}, by);
  check_pack(checks, random, shape, {{0, 1, 0, 0}, {1, 63, 1, 0}, {64, 65, 64, 64}, {129, 130, 193, 0}}, by);
  if (by != AttentionBy::mma_sync && by != AttentionBy::wgmma)
    return;  // cuDNN takes one slice of each sample
  check_pack(checks, random, shape, {{0, 100, 0, 300}, {100, 150, 0, 0}}, by);
}

}  // namespace

void check_attention(Checks& checks, unsigned seed, AttentionBy by) {
  std::mt19937 random(seed);
  for (const std::size_t dim : {64UL, 128UL}) check_packs(checks, random, dim, by);
}

}  // namespace slimpack::bench
