#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/pack_attention.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/operators.hpp"
#include "kernels/cuda/runtime.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16, cuda::AttentionSlice;
using kernels::HeadShape;

/// Median seconds of repeated runs, by events; the first ones warm up.
double seconds(const cuda::OwnedStream& stream, const std::function<void()>& run) {
  constexpr int warm_up = 3, repeats = 15;
  std::vector<double> times;
  const cuda::Event begin, end;
  for (int i = 0; i < warm_up + repeats; ++i) {
    begin.record(stream.get());
    run();
    end.record(stream.get());
    const double time = end.seconds_since(begin);
    if (i >= warm_up) times.push_back(time);
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[repeats / 2];
}

/// Operations per second of a large product.
double peak_flops(const cuda::OwnedStream& stream, std::mt19937& random) {
  constexpr std::size_t n = 8192;
  const auto a = random_rows(random, n, n), b = random_rows(random, n, n);
  const Rows<Bf16> c(n, n);
  const cuda::DeviceMemory workspace(std::size_t{32} << 20U);
  cuda::Gemm gemm(workspace.bytes());
  const double time = seconds(stream, [&] {
    gemm.run(cuda::Product::multiply_transposed, a.in(), b.in(), c.view(), kernels::Update::set,
             stream.get());
  });
  return 2.0 * n * n * n / time;
}

/// Bytes read and written per second by a large copy.
double peak_bandwidth(const cuda::OwnedStream& stream) {
  const std::size_t bytes = std::size_t{2} << 30U;
  const cuda::DeviceMemory from(bytes), to(bytes);
  cuda::fill_bytes(from.bytes(), 0x5a, stream.get());
  const double time =
      seconds(stream, [&] { cuda::copy_bytes(to.bytes().data(), from.bytes().data(), bytes, stream.get()); });
  return 2.0 * static_cast<double>(bytes) / time;
}

struct AttentionTimes {
  double forward, backward;  ///< seconds
  double pairs;              ///< of query and visible key
};

AttentionTimes time_attention(const cuda::OwnedStream& stream, std::mt19937& random, const HeadShape& shape,
                              const std::vector<AttentionSlice>& slices, std::size_t tokens,
                              std::size_t cache, AttentionBy by) {
  const std::size_t qw = shape.query_width(), kw = shape.kv_width();
  const auto q = random_rows(random, tokens, qw), dout = random_rows(random, tokens, qw),
             k = random_rows(random, cache, kw), v = random_rows(random, cache, kw);
  const Rows<Bf16> out(tokens, qw), dq(tokens, qw);
  const Rows<float> lse(shape.heads, tokens), delta(shape.heads, tokens);
  Rows<float> dk(cache, kw), dv(cache, kw);
  dk.fill(0), dv.fill(0);
  const cuda::AttentionInput in{q.in(), k.in(), v.in()};
  PackAttention pack(by, shape, slices, in);
  AttentionTimes times{};
  times.forward = seconds(stream, [&] { pack.forward(out, lse, stream.get()); });
  times.backward = seconds(stream, [&] { pack.backward({out, lse, dout, delta, dq, dk, dv}, stream.get()); });
  for (const AttentionSlice& s : slices) {
    times.pairs += static_cast<double>(s.tokens) * (s.prefix + (s.tokens + 1) / 2.0);
  }
  return times;
}

void print_attention(const char* what, const HeadShape& shape, const AttentionTimes& t, double peak) {
  // Two products forward and five backward, each 2 operations per pair and number of a head.
  const double work = 2.0 * t.pairs * static_cast<double>(shape.query_width());
  std::printf("| attention, %s | %.3f ms | %.0f TFLOP/s | %.2f | %.3f ms | %.0f TFLOP/s | %.2f |\n", what,
              t.forward * 1e3, 2 * work / t.forward * 1e-12, 2 * work / t.forward / peak, t.backward * 1e3,
              5 * work / t.backward * 1e-12, 5 * work / t.backward / peak);
}

void time_all_attention(const cuda::OwnedStream& stream, std::mt19937& random, double peak, AttentionBy by) {
  const HeadShape shape{.heads = 32, .kv_heads = 8, .head_dim = 128};
  std::printf("\nAttention by %s\n", name_of(by));
  std::printf("\n| kernel | forward | rate | of cuBLASLt's | backward | rate | of cuBLASLt's |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  constexpr std::int32_t slice = 4096;
  for (const std::int32_t prefix : {0, 32768, 131072, 258048}) {
    char what[64];
    std::snprintf(what, sizeof what, "%d tokens after %d", slice, prefix);
    const auto times = time_attention(stream, random, shape, {{0, slice, 0, prefix}}, slice,
                                      static_cast<std::size_t>(slice + prefix), by);
    print_attention(what, shape, times, peak);
  }
  std::vector<AttentionSlice> shorts;
  for (std::int32_t at = 0, i = 0; i < 64; ++i) {
    const std::int32_t tokens = 32 + i * 37 % 480;
    shorts.push_back({at, tokens, at, 0});
    at += tokens;
  }
  const auto tokens = static_cast<std::size_t>(shorts.back().query_begin + shorts.back().tokens);
  print_attention("64 short samples", shape,
                  time_attention(stream, random, shape, shorts, tokens, tokens, by), peak);
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
    print("rms_norm", 4.0 * tokens * hidden, seconds(stream, [&] {
            cuda::rms_norm(x.in(), {}, {}, weight.span(), 1e-5, y.view(), stream.get());
          }));
  }
  {
    const auto gate_up = random_rows(random, tokens, 2 * ffn);
    const Rows<Bf16> out(tokens, ffn);
    print("swiglu", 6.0 * tokens * ffn,
          seconds(stream, [&] { cuda::swiglu(gate_up.in(), out.view(), stream.get()); }));
  }
  {
    const std::size_t n = std::size_t{1} << 28U;
    Numbers<float> weights(n), gradients(n), first(n), second(n);
    for (auto* numbers : {&weights, &gradients, &first, &second}) numbers->fill(0x3c);
    const Numbers<Bf16> copies(n);
    print("adamw", 30.0 * static_cast<double>(n), seconds(stream, [&] {
            cuda::adamw(weights.span(), copies.span(), gradients.span(), first.span(), second.span(), 1, {},
                        stream.get());
          }));
  }
}

}  // namespace

double time_kernels(unsigned seed) {
  std::mt19937 random(seed);
  const cuda::OwnedStream stream;
  const double peak = peak_flops(stream, random), bandwidth = peak_bandwidth(stream);
  std::printf("\ncuBLASLt, 8192 x 8192: %.0f TFLOP/s; copy: %.2f TB/s\n", peak * 1e-12, bandwidth * 1e-12);
  for (const AttentionBy by : ways_of_attention()) time_all_attention(stream, random, peak, by);
  time_memory_bound(stream, random, bandwidth);
  return peak;
}

}  // namespace slimpack::bench
