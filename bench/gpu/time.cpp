#include <cstdint>
#include <cstdio>
#include <deque>
#include <random>
#include <vector>

#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/pack_attention.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/ceilings.hpp"
#include "kernels/cuda/operators.hpp"
#include "kernels/cuda/runtime.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16, cuda::AttentionSlice;
using kernels::HeadShape;

/// A pack, with what its attention reads and writes beside keys and values.
struct Pack {
  Pack(std::mt19937& random, const HeadShape& shape, const std::vector<AttentionSlice>& slices,
       const Rows<Bf16>& k, const Rows<Bf16>& v, AttentionBy by)
      : tokens(static_cast<std::size_t>(slices.back().query_begin + slices.back().tokens)),
        q(random_rows(random, tokens, shape.query_width())),
        dout(random_rows(random, tokens, shape.query_width())),
        out(tokens, shape.query_width()),
        dq(tokens, shape.query_width()),
        lse(shape.heads, tokens),
        delta(shape.heads, tokens),
        attention(by, shape, slices, {q.in(), k.in(), v.in()}) {}

  std::size_t tokens;
  Rows<Bf16> q, dout, out, dq;
  Rows<float> lse, delta;
  PackAttention attention;
};

struct AttentionTimes {
  double forward, backward;  ///< seconds
  double pairs;              ///< of query and visible key
};

/// Times of all packs, forward in order and backward in the other one.
/// @param packs slices of each, by their queries @param cache rows of the keys and values that all share
AttentionTimes time_attention(const cuda::OwnedStream& stream, std::mt19937& random, const HeadShape& shape,
                              const std::vector<std::vector<AttentionSlice>>& packs, std::size_t cache,
                              AttentionBy by, int repeats = 15) {
  const std::size_t kw = shape.kv_width();
  const auto k = random_rows(random, cache, kw), v = random_rows(random, cache, kw);
  Rows<float> dk(cache, kw), dv(cache, kw);
  dk.fill(0), dv.fill(0);
  std::deque<Pack> prepared;
  AttentionTimes times{};
  for (const auto& slices : packs) {
    prepared.emplace_back(random, shape, slices, k, v, by);
    for (const AttentionSlice& s : slices)
      times.pairs += static_cast<double>(s.tokens) * (s.prefix + (s.tokens + 1) / 2.0);
  }
  const auto forward = [&] {
    for (Pack& p : prepared) p.attention.forward(p.out, p.lse, stream.get());
  };
  const auto backward = [&] {
    for (auto p = prepared.rbegin(); p != prepared.rend(); ++p)
      p->attention.backward({p->out, p->lse, p->dout, p->delta, p->dq, dk, dv}, stream.get());
  };
  times.forward = cuda::median_seconds(stream, forward, repeats);
  times.backward = cuda::median_seconds(stream, backward, repeats);
  return times;
}

void print_attention(const char* what, const HeadShape& shape, const AttentionTimes& t, double peak) {
  // Two products forward and five backward, each 2 operations per pair and number of a head.
  const double work = 2.0 * t.pairs * static_cast<double>(shape.query_width());
  std::printf("| attention, %s | %.3f ms | %.0f TFLOP/s | %.2f | %.3f ms | %.0f TFLOP/s | %.2f |\n", what,
              t.forward * 1e3, 2 * work / t.forward * 1e-12, 2 * work / t.forward / peak, t.backward * 1e3,
              5 * work / t.backward * 1e-12, 5 * work / t.backward / peak);
}

void print_attention_head() {
  std::printf("\n| kernel | forward | rate | of cuBLASLt's | backward | rate | of cuBLASLt's |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
}

constexpr HeadShape long_context{.heads = 32, .kv_heads = 8, .head_dim = 128};

void time_all_attention(const cuda::OwnedStream& stream, std::mt19937& random, double peak, AttentionBy by) {
  std::printf("\nAttention by %s\n", name_of(by));
  print_attention_head();
  constexpr std::int32_t slice = 4096;
  for (const std::int32_t prefix : {0, 32768, 131072, 258048}) {
    char what[64];
    std::snprintf(what, sizeof what, "%d tokens after %d", slice, prefix);
    print_attention(what, long_context,
                    time_attention(stream, random, long_context, {{{0, slice, 0, prefix}}},
                                   static_cast<std::size_t>(slice + prefix), by),
                    peak);
  }
  std::vector<AttentionSlice> shorts;
  std::int32_t tokens = 0;
  for (std::int32_t i = 0; i < 64; ++i) {
    shorts.push_back({tokens, 32 + i * 37 % 480, tokens, 0});
    tokens += shorts.back().tokens;
  }
  print_attention(
      "64 short samples", long_context,
      time_attention(stream, random, long_context, {shorts}, static_cast<std::size_t>(tokens), by), peak);
}

/// A sample of 256K tokens in one piece, and slice by slice, by the fastest of our kernels.
void time_slicing(const cuda::OwnedStream& stream, std::mt19937& random, double peak) {
  constexpr std::int32_t tokens = 262144, count = 32, slice = tokens / count;
  constexpr int repeats = 5;  // a piece takes seconds
  const bool is_hopper = cuda::best_attention_rows() == cuda::group_attention_rows;
  const AttentionBy by = is_hopper ? AttentionBy::wgmma : AttentionBy::mma_sync;
  std::vector<std::vector<AttentionSlice>> slices;
  for (std::int32_t i = 0; i < count; ++i) slices.push_back({{0, slice, 0, i * slice}});
  const auto time = [&](const auto& packs) {
    return time_attention(stream, random, long_context, packs, tokens, by, repeats);
  };
  const AttentionTimes whole = time(std::vector<std::vector<AttentionSlice>>{{{0, tokens, 0, 0}}}),
                       sliced = time(slices);
  std::printf("\nSlices of a sample, by %s\n", name_of(by));
  print_attention_head();
  print_attention("262144 tokens in one piece", long_context, whole, peak);
  print_attention("262144 tokens in 32 slices", long_context, sliced, peak);
  std::printf("\nSlicing costs %+.1f %% forward, %+.1f %% backward, %+.1f %% in all.\n",
              100 * (sliced.forward / whole.forward - 1), 100 * (sliced.backward / whole.backward - 1),
              100 * ((sliced.forward + sliced.backward) / (whole.forward + whole.backward) - 1));
}

void time_memory_bound(const cuda::OwnedStream& stream, std::mt19937& random, double bandwidth) {
  constexpr std::size_t tokens = 32768, hidden = 5120, ffn = 13824;
  const auto print = [&](const char* what, double bytes, double time) {
    std::printf("| %s | %.3f ms | %.2f TB/s | %.2f |\n", what, time * 1e3, bytes / time * 1e-12,
                bytes / time / bandwidth);
  };
  std::printf("\n| kernel | time | bandwidth | of a copy's |\n| --- | --- | --- | --- |\n");
  {
    const auto x = random_rows(random, tokens, hidden);
    const Rows<Bf16> y(tokens, hidden), weight(random_bf16(random, hidden), 1, hidden);
    print("rms_norm", 4.0 * tokens * hidden, cuda::median_seconds(stream, [&] {
            cuda::rms_norm(x.in(), {}, {}, weight.span(), 1e-5, y.view(), stream.get());
          }));
  }
  {
    const auto gate_up = random_rows(random, tokens, 2 * ffn);
    const Rows<Bf16> out(tokens, ffn);
    print("swiglu", 6.0 * tokens * ffn,
          cuda::median_seconds(stream, [&] { cuda::swiglu(gate_up.in(), out.view(), stream.get()); }));
  }
  {
    const std::size_t n = std::size_t{1} << 28U;
    Numbers<float> weights(n), gradients(n), first(n), second(n);
    for (auto* numbers : {&weights, &gradients, &first, &second}) numbers->fill(0x3c);
    const Numbers<Bf16> copies(n);
    print("adamw", 30.0 * static_cast<double>(n), cuda::median_seconds(stream, [&] {
            cuda::adamw(weights.span(), copies.span(), gradients.span(), first.span(), second.span(), 1, {},
                        stream.get());
          }));
  }
}

}  // namespace

cuda::Ceilings time_kernels(unsigned seed) {
  std::mt19937 random(seed);
  const cuda::OwnedStream stream;
  const cuda::Ceilings ceilings = cuda::measure_ceilings();
  const double peak = ceilings.flops, bandwidth = ceilings.bandwidth;
  std::printf("\ncuBLASLt, 8192 x 8192: %.0f TFLOP/s; copy: %.2f TB/s\n", peak * 1e-12, bandwidth * 1e-12);
  for (const AttentionBy by : ways_of_attention()) time_all_attention(stream, random, peak, by);
  time_slicing(stream, random, peak);
  time_memory_bound(stream, random, bandwidth);
  return ceilings;
}

}  // namespace slimpack::bench
