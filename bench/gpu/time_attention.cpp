#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/pack_attention.hpp"
#include "kernels/cuda/profile_device.hpp"
#include "kernels/cuda/runtime.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16;
using kernels::HeadShape;

/// What packs share: keys and values, and their gradients.
struct Cache {
  Cache(std::mt19937& random, const HeadShape& shape, std::size_t rows)
      : k(random_rows(random, rows, shape.kv_width())),
        v(random_rows(random, rows, shape.kv_width())),
        dk(rows, shape.kv_width()),
        dv(rows, shape.kv_width()) {
    dk.fill(0), dv.fill(0);
  }

  Rows<Bf16> k, v;
  Rows<float> dk, dv;
};

/// A pack's own matrices.
struct PackRows {
  PackRows(std::mt19937& random, const HeadShape& shape, std::size_t tokens)
      : q(random_rows(random, tokens, shape.query_width())),
        dout(random_rows(random, tokens, shape.query_width())),
        out(tokens, shape.query_width()),
        dq(tokens, shape.query_width()),
        lse(shape.heads, tokens),
        delta(shape.heads, tokens) {}

  Rows<Bf16> q, dout, out, dq;
  Rows<float> lse, delta;
};

struct AttentionTimes {
  double forward = 0.0, backward = 0.0;  ///< seconds
};

/// Times of all packs, forward in order and backward in the other one.
/// @param rows of each pack; packs of equal size may share them
AttentionTimes time_packs(const cuda::OwnedStream& stream, const std::vector<AttentionShape>& packs,
                          PackRows& rows, Cache& cache, AttentionBy by, int repeats) {
  std::deque<PackAttention> prepared;
  for (const AttentionShape& pack : packs)
    prepared.emplace_back(by, timed_heads, pack.slices,
                          cuda::AttentionInput{rows.q.in(), cache.k.in(), cache.v.in()});
  const auto forward = [&] {
    for (PackAttention& p : prepared) p.forward(rows.out, rows.lse, stream.get());
  };
  const auto backward = [&] {
    for (auto p = prepared.rbegin(); p != prepared.rend(); ++p)
      p->backward({rows.out, rows.lse, rows.dout, rows.delta, rows.dq, cache.dk, cache.dv}, stream.get());
  };
  AttentionTimes times;
  times.forward = cuda::median_seconds(stream, forward, repeats);
  times.backward = cuda::median_seconds(stream, backward, repeats);
  return times;
}

/// Two products forward and five backward, each 2 operations per pair and number of a head.
double product_flops(double pairs) { return 2.0 * pairs * static_cast<double>(timed_heads.query_width()); }

void print_head() {
  std::printf("\n| attention | by | forward | rate | of cuBLASLt's | backward | rate | of cuBLASLt's |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
}

void print_line(const std::string& what, const char* by, double pairs, const AttentionTimes& t, double peak) {
  const double work = product_flops(pairs);
  std::printf("| %s | %s | %.3f ms | %.0f TFLOP/s | %.2f | %.3f ms | %.0f TFLOP/s | %.2f |\n", what.c_str(),
              by, t.forward * 1e3, 2 * work / t.forward * 1e-12, 2 * work / t.forward / peak,
              t.backward * 1e3, 5 * work / t.backward * 1e-12, 5 * work / t.backward / peak);
}

void time_shape(const AttentionShape& shape, const cuda::OwnedStream& stream, std::mt19937& random,
                double peak, const FigureFile& figures, AttentionBy by) {
  constexpr int repeats = 10;
  Cache cache(random, timed_heads, static_cast<std::size_t>(shape.keys));
  PackRows rows(random, timed_heads, static_cast<std::size_t>(shape.tokens()));
  const auto name = [&](const char* pass) {
    return "attention/" + shape.name + "/" + pass + "/" + name_of(by);
  };
  try {
    const AttentionTimes t = time_packs(stream, {shape}, rows, cache, by, repeats);
    print_line(shape.name, name_of(by), shape.pairs(), t, peak);
    figures.add(name("forward"), t.forward);
    figures.add(name("backward"), t.backward);
  } catch (const std::exception& error) {
    std::printf("| %s | %s | refused: %s | | | | | |\n", shape.name.c_str(), name_of(by), error.what());
    for (const char* pass : {"forward", "backward"}) figures.add_words(name(pass), error.what());
  }
}

}  // namespace

std::vector<AttentionBy> attention_ways() {
  std::vector<AttentionBy> ways = our_attention();
  for (const AttentionBy by : library_attention()) ways.push_back(by);
  return ways;
}

void time_attention(const cuda::Ceilings& ceilings, const FigureFile& figures, unsigned seed,
                    AttentionBy by) {
  std::mt19937 random(seed);
  const cuda::OwnedStream stream;
  print_head();
  for (const AttentionShape& shape : attention_shapes())
    time_shape(shape, stream, random, ceilings.flops, figures, by);
}

void time_slicing(const cuda::Ceilings& ceilings, const FigureFile& figures, unsigned seed, AttentionBy by) {
  constexpr std::int32_t tokens = 262144, count = 32, slice = tokens / count;
  constexpr int repeats = 2;  // a piece takes seconds; the slower one counts
  std::mt19937 random(seed);
  const cuda::OwnedStream stream;
  Cache cache(random, timed_heads, tokens);
  PackRows rows(random, timed_heads, tokens), slice_rows(random, timed_heads, slice);
  const AttentionShape whole_shape = pack_of("262144 tokens in one piece", {tokens});
  std::vector<AttentionShape> slices;
  for (std::int32_t i = 0; i < count; ++i)
    slices.push_back({"", {{0, slice, 0, i * slice}}, (i + 1) * slice});
  print_head();
  const AttentionTimes whole = time_packs(stream, {whole_shape}, rows, cache, by, repeats);
  print_line(whole_shape.name, name_of(by), whole_shape.pairs(), whole, ceilings.flops);
  const AttentionTimes sliced = time_packs(stream, slices, slice_rows, cache, by, repeats);
  print_line("262144 tokens in 32 slices", name_of(by), whole_shape.pairs(), sliced, ceilings.flops);
  const double forward = sliced.forward / whole.forward - 1, backward = sliced.backward / whole.backward - 1,
               all = (sliced.forward + sliced.backward) / (whole.forward + whole.backward) - 1;
  std::printf("\nSlicing costs %+.1f %% forward, %+.1f %% backward, %+.1f %% in all.\n", 100 * forward,
              100 * backward, 100 * all);
  figures.add("slicing/forward", forward);
  figures.add("slicing/backward", backward);
  figures.add("slicing/all", all);
}

}  // namespace slimpack::bench
