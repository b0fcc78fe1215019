// Equal slices and chunks of InfiniPipe, one call each, on one core: GPT of 13B, backward pass, 4 stages of 8 ranks on A800.
// equal_slices: arguments are tokens of a sample and slices; the counter is the longest slice over the mean.
// chunks: arguments are samples, tokens of context, slices of the longest sample, and how short samples are packed (0: the paper's
// Algorithm 1; 1: time divided equally, with its limit of tokens; 2: without it). Lengths: examples/data/github.train.txt, or the
// file that SLIMPACK_LENGTHS names. Counters: relative standard deviation of time and of tokens over all chunks, in percent (Table 2), and over those that
// packing decides: all but the slices that others go on from.
// bound_of_table_2: arguments are tokens of context and slices of the longest of 512 samples. Counter: the least over meshes (of 256 tiles),
// packings and numbers of chunks of (time / 6.2 %)^2 + (tokens / 5.5 %)^2; above 2, no mesh and no packing has both.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/slicing/chunk_balance.hpp"
#include "slimpack/slicing/chunk_ways.hpp"

namespace {

using namespace slimpack;

const Prices& prices() {
  static const Prices priced = [] {
    Job job;
    job.model = transformer_preset("llama-13b");
    job.device = device_preset("a800");
    job.layout.pp = 4;
    job.layout.cp = 8;
    CalibratedOptions options;
    options.exchanges = {KeyExchange::all_to_all};
    return Prices(CalibratedCost(job, options), job.layout.cp);
  }();
  return priced;
}

/// In percent of the mean.
double relative_deviation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return 100.0 * std::sqrt(squares / n) / mean;
}

void equal_slices_of_a_sample(benchmark::State& state) {
  const SlicePrices backward(prices(), Pass::backward);
  const Tokens length = state.range(0);
  const auto count = static_cast<std::size_t>(state.range(1));
  EqualSlices slices;
  for (auto _ : state) benchmark::DoNotOptimize(slices = equal_slices(backward, length, count));
  double sum = 0.0;
  Tokens end = 0;
  for (const Tokens size : slices.sizes) {
    sum += backward(end, end + size);
    end += size;
  }
  state.counters["max_over_mean"] = slices.most * static_cast<double>(count) / sum;
}
BENCHMARK(equal_slices_of_a_sample)->Args({262144, 16})->Args({262144, 64})->Args({32768, 16});

void chunks_of_a_batch(benchmark::State& state) {
  const SlicePrices backward(prices(), Pass::backward);
  const std::vector<Tokens> lengths = bench::lengths(static_cast<std::size_t>(state.range(0)), state.range(1),
                                                     "SLIMPACK_LENGTHS", "examples/data/github.train.txt");
  std::vector<SampleId> samples(lengths.size());
  std::iota(samples.begin(), samples.end(), SampleId{0});
  const auto slices = static_cast<std::size_t>(state.range(2));
  Chunks chunks;
  for (auto _ : state) {
    ChunkLimits limits = balanced_limits(lengths, samples, backward, slices);
    if (state.range(3) == 2) limits.tokens = std::numeric_limits<Tokens>::max() / 2;
    chunks = pack_chunks(lengths, samples, backward, limits,
                         state.range(3) == 0 ? ChunkChoice::lightest : ChunkChoice::shortest);
    benchmark::DoNotOptimize(chunks);
  }
  std::vector<double> seconds, tokens, packed_seconds, packed_tokens;
  for (std::size_t k = 0; k < chunks.packs.size(); ++k) {
    seconds.push_back(0.0);
    for (const Slice& slice : chunks.packs[k]) seconds.back() += backward(slice.begin, slice.end);
    tokens.push_back(static_cast<double>(count_tokens(chunks.packs[k])));
    const Slice& first = chunks.packs[k].front();
    if (first.end < lengths[first.sample]) continue;  // a slice that others go on from is a chunk by itself
    packed_seconds.push_back(seconds.back());
    packed_tokens.push_back(tokens.back());
  }
  state.counters["chunks"] = static_cast<double>(seconds.size());
  state.counters["time_RSD"] = relative_deviation(seconds);
  state.counters["length_RSD"] = relative_deviation(tokens);
  state.counters["packed_time_RSD"] = relative_deviation(packed_seconds);
  state.counters["packed_length_RSD"] = relative_deviation(packed_tokens);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void bound_of_table_2(benchmark::State& state) {
  const SlicePrices backward(prices(), Pass::backward);
  const Tokens context = state.range(0);
  const std::vector<Tokens> lengths =
      bench::lengths(512, context, "SLIMPACK_LENGTHS", "examples/data/github.train.txt");
  const auto slices = static_cast<std::size_t>(state.range(1));
  // As many chunks as have the mean slice's tokens, and some fewer or more.
  const auto usual = static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), Tokens{0}) /
                                              *std::max_element(lengths.begin(), lengths.end())) *
                     slices;
  double least = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    for (std::size_t chunks = usual / 4; chunks <= 4 * usual; chunks += chunks / 25 + 1)
      least = std::min(least, least_chunk_deviation(lengths, backward, slices, chunks,
                                                    {.seconds = 0.062, .tokens = 0.055}, context / 256));
  }
  state.counters["least"] = least;
}
BENCHMARK(bound_of_table_2)
    ->ArgsProduct({{8192, 16384, 32768, 65536, 131072, 196608}, {2, 4, 8, 16}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(chunks_of_a_batch)->ArgsProduct({{512}, {65536, 196608}, {16}, {0, 1, 2}});
BENCHMARK(chunks_of_a_batch)->ArgsProduct({{512}, {98304}, {8}, {0, 1, 2}});
BENCHMARK(chunks_of_a_batch)->ArgsProduct({{512}, {8192, 32768}, {2}, {0, 1, 2}});
BENCHMARK(chunks_of_a_batch)
    ->Args({1000000, 196608, 16, 0})
    ->Args({1000000, 196608, 16, 2})
    ->Unit(benchmark::kMillisecond);

}  // namespace
