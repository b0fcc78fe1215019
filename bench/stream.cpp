// Packing ahead of training, compared with what other systems do, written again here: one binary, the same
// input. Lengths: examples/data/github.train.txt from the repository's root, or the file that
// SLIMPACK_LENGTHS names; truncated to 131072 tokens, starting again at the end of the file. The layout is
// WLB-LLM's 7B-128K: 4 micro-batches of 131072 tokens, L_max twice that. Workload of s tokens: s + s² /
// 49408, a 7B model's dense products and attention, in units of a token's dense products.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/partition/capped_search.hpp"
#include "slimpack/stream/fixed_length_packing.hpp"
#include "slimpack/stream/outlier_delay.hpp"
#include "slimpack/stream/queue_thresholds.hpp"
#include "slimpack/stream/sequences.hpp"

namespace {

using namespace slimpack;

constexpr Tokens context = 131072;
constexpr std::size_t micro_batches = 4;

double work_of(Tokens length) {
  const auto s = static_cast<double>(length);
  return s + s * s / 49408.0;
}

std::vector<Tokens> lengths(std::size_t count) {
  return bench::lengths(count, context, "SLIMPACK_LENGTHS", "examples/data/github.train.txt");
}

std::vector<Document> documents_of(const std::vector<Tokens>& all) {
  std::vector<Document> documents;
  for (std::size_t i = 0; i < all.size(); ++i) documents.push_back({i, all[i]});
  return documents;
}

/// 60,000 documents in global batches, without the last, incomplete one.
struct Corpus {
  std::vector<Tokens> all = lengths(60000);
  std::vector<std::size_t> batches = global_batches(all, context, micro_batches);
  Corpus() {
    batches.pop_back();
    all.resize(batches.back());
  }
};

/// Processor time of this process, so that others on the machine don't count.
double cpu_milliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// ---- The stream ----

OutlierDelayOptions stream_options(std::int64_t queues, std::int64_t balanced_percent) {
  OutlierDelayOptions options{.micro_batches = micro_batches, .max_tokens = 2 * context};
  if (queues == 1) options.thresholds = {57344};
  if (queues == 2) options.thresholds = {30720, 77824};
  if (queues == 3) options.thresholds = {30720, 57344, 90112};
  if (balanced_percent > 0) {
    options.thresholds = {28672};
    options.release = OutlierRelease::balanced;
    options.target_imbalance = static_cast<double>(balanced_percent) / 100.0;
  }
  return options;
}

/// Time of a global batch. Arguments: queues; target of `OutlierRelease::balanced` in percent, or 0.
void push(benchmark::State& state) {
  const Corpus corpus;
  std::vector<Document> documents = documents_of(corpus.all);
  using Stream = OutlierDelayStream<double (*)(Tokens)>;
  const OutlierDelayOptions options = stream_options(state.range(0), state.range(1));
  Stream measured(options, work_of), timed(options, work_of);
  for (std::size_t b = 0; b + 1 < corpus.batches.size(); ++b) {
    static_cast<void>(measured.push(
        std::span(documents).subspan(corpus.batches[b], corpus.batches[b + 1] - corpus.batches[b])));
  }
  const double imbalance = measured.statistics().mean_imbalance();
  const double total = measured.statistics().total_imbalance();
  static_cast<void>(measured.flush());
  std::size_t b = 0;
  std::int64_t packed = 0;
  for (auto _ : state) {
    const auto batch =
        std::span(documents).subspan(corpus.batches[b], corpus.batches[b + 1] - corpus.batches[b]);
    benchmark::DoNotOptimize(timed.push(batch));
    packed += static_cast<std::int64_t>(batch.size());
    if (++b + 1 == corpus.batches.size()) {
      state.PauseTiming();
      b = 0;
      timed = Stream(options, work_of);
      state.ResumeTiming();
    }
  }
  state.SetItemsProcessed(packed);
  state.counters["imbalance"] = imbalance;
  state.counters["total_imbalance"] = total;
  state.counters["token_delay"] = measured.statistics().mean_token_delay();
  state.counters["document_delay"] = measured.statistics().mean_document_delay();
  state.counters["max_delay"] = static_cast<double>(measured.statistics().max_delay());
}
BENCHMARK(push)
    ->Args({0, 0})
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({3, 0})
    ->Args({1, 100})
    ->Args({1, 105})
    ->Args({1, 110})
    ->Args({1, 120})
    ->Unit(benchmark::kMicrosecond);

/// One global batch of many documents. Arguments: documents, micro-batches.
void push_many(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0)),
             bins = static_cast<std::size_t>(state.range(1));
  const auto documents = documents_of(lengths(count));
  Tokens total = 0, longest = 0;
  for (const Document& document : documents) {
    total += document.length;
    longest = std::max(longest, document.length);
  }
  const Tokens most = std::max(2 * total / static_cast<Tokens>(bins), longest);
  OutlierDelayStream<double (*)(Tokens)> stream({.micro_batches = bins, .max_tokens = most}, work_of);
  double imbalance = 0.0;
  for (auto _ : state) imbalance = imbalance_degree(stream.push(documents).workload);
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["imbalance"] = imbalance;
}
void push_sizes(benchmark::internal::Benchmark* b) {
  b->Args({128, 4})->Args({128, 8})->Args({2048, 8})->Args({16384, 64})->Unit(benchmark::kMicrosecond);
}
BENCHMARK(push_many)->Apply(push_sizes);

/// The same documents by Algorithm 1 as DistCA implements it: for every document, workloads and lengths of
/// all micro-batches are added up again.
void push_many_summed_again(benchmark::State& state) {
  const auto bins = static_cast<std::size_t>(state.range(1));
  const std::vector<Tokens> given = lengths(static_cast<std::size_t>(state.range(0)));
  const Tokens total = std::accumulate(given.begin(), given.end(), Tokens{0});
  const Tokens most = std::max(2 * total / static_cast<Tokens>(bins), context);
  std::vector<double> work(bins);
  for (auto _ : state) {
    std::vector<Tokens> sorted = given;
    std::sort(sorted.begin(), sorted.end(), std::greater<>{});
    std::vector<std::vector<Tokens>> batch(bins);
    std::vector<Tokens> held(bins), remained;
    for (const Tokens length : sorted) {
      for (std::size_t m = 0; m < bins; ++m) {
        work[m] = 0.0;
        for (const Tokens s : batch[m]) work[m] += work_of(s);
        held[m] = std::accumulate(batch[m].begin(), batch[m].end(), Tokens{0});
      }
      const auto lightest =
          static_cast<std::size_t>(std::min_element(work.begin(), work.end()) - work.begin());
      const auto emptiest =
          static_cast<std::size_t>(std::min_element(held.begin(), held.end()) - held.begin());
      if (held[lightest] + length <= most) {
        batch[lightest].push_back(length);
      } else if (held[emptiest] + length <= most) {
        batch[emptiest].push_back(length);
      } else {
        remained.push_back(length);
      }
    }
    benchmark::DoNotOptimize(remained.data());
    for (std::size_t m = 0; m < bins; ++m) {
      work[m] = 0.0;
      for (const Tokens s : batch[m]) work[m] += work_of(s);
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["imbalance"] = imbalance_degree(work);
}
BENCHMARK(push_many_summed_again)->Apply(push_sizes);

/// A state with documents in two queues, saved and restored. Argument: documents that wait.
void save_and_restore(benchmark::State& state) {
  OutlierDelayStream<double (*)(Tokens)> stream(
      {.micro_batches = 1 << 20, .max_tokens = context, .thresholds = {1, 2000}}, work_of);
  static_cast<void>(stream.push(documents_of(lengths(static_cast<std::size_t>(state.range(0))))));
  std::string saved;
  for (auto _ : state) {
    saved = stream.save();
    stream.restore(saved);
  }
  state.counters["bytes"] = static_cast<double>(saved.size());
}
BENCHMARK(save_and_restore)->Arg(16)->Arg(1024)->Unit(benchmark::kMicrosecond);

/// Tuning from the first batches of the data, measured on the others. Arguments: batches, queues, balanced.
void tune(benchmark::State& state) {
  const Corpus corpus;
  const auto count = static_cast<std::size_t>(state.range(0));
  if (count + 2 > corpus.batches.size()) {
    state.SkipWithError("the lengths have too few batches");
    return;
  }
  OutlierDelayOptions options{.micro_batches = micro_batches, .max_tokens = 2 * context};
  if (state.range(2) != 0) options.release = OutlierRelease::balanced;
  const auto sample = std::span(corpus.all).first(corpus.batches[count]);
  QueueTuning tuned;
  for (auto _ : state) {
    tuned = tune_queues(sample, std::span(corpus.batches).first(count + 1), options, work_of,
                        {.max_queues = static_cast<std::size_t>(state.range(1))});
  }
  OutlierDelayStream<double (*)(Tokens)> stream(tuned.options, work_of);
  const auto documents = documents_of(corpus.all);
  for (std::size_t b = count; b + 1 < corpus.batches.size(); ++b) {
    static_cast<void>(stream.push(
        std::span(documents).subspan(corpus.batches[b], corpus.batches[b + 1] - corpus.batches[b])));
  }
  state.counters["imbalance"] = stream.statistics().mean_imbalance();
  static_cast<void>(stream.flush());
  state.counters["token_delay"] = stream.statistics().mean_token_delay();
  state.counters["trials"] = static_cast<double>(tuned.trials.size());
  std::string chosen;
  for (const Tokens threshold : tuned.options.thresholds) chosen += std::to_string(threshold) + " ";
  state.SetLabel(chosen + "at " + std::to_string(tuned.options.target_imbalance));
}
BENCHMARK(tune)
    ->Args({200, 1, 0})
    ->Args({200, 2, 0})
    ->Args({200, 3, 0})
    ->Args({200, 1, 1})
    ->Unit(benchmark::kMillisecond);

// ---- Fixed length ----

/// Time of a global batch within its window. Arguments: method (0 original, 1 greedy, 2 search), window in
/// global batches.
void fixed_length(benchmark::State& state) {
  const Corpus corpus;
  const auto documents = documents_of(corpus.all);
  const Packs sequences = fill_sequences(corpus.all, context).sequences;
  const auto window = static_cast<std::size_t>(state.range(1)), size = window * micro_batches;
  const FixedLengthOptions options{.micro_batches = micro_batches,
                                   .context = context,
                                   .method = static_cast<FixedLengthMethod>(state.range(0))};
  double imbalance = 0.0, shift = 0.0, gap = 0.0, windows = 0.0;
  for (std::size_t s = 0; s + size <= sequences.size(); s += size) {
    const auto packed = pack_fixed_length(documents, sequences, s, s + size, 0, options, work_of);
    for (const PackedIteration& iteration : packed.iterations)
      imbalance += imbalance_degree(iteration.workload);
    shift += packed.mean_token_shift;
    gap += packed.largest / packed.bound - 1.0;
    windows += 1.0;
  }
  std::size_t s = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pack_fixed_length(documents, sequences, s, s + size, 0, options, work_of));
    s = s + 2 * size <= sequences.size() ? s + size : 0;
  }
  state.counters["imbalance"] = imbalance / windows / static_cast<double>(window);
  state.counters["token_shift"] = shift / windows;
  state.counters["gap"] = gap / windows;
}
BENCHMARK(fixed_length)->Args({0, 1})->ArgsProduct({{1, 2}, {1, 2, 4, 8}})->Unit(benchmark::kMicrosecond);

/// Eq. 1, squares of the lengths into sequences of 131072. Arguments: window in global batches; 0: documents
/// whole, 2: cut at the sequences' ends, so that no token of room is left. Percent of the problems with a gap
/// of at most 0.5 %; worst gap and CPU time.
void equation_1(benchmark::State& state) {
  const std::vector<Tokens> all = lengths(60000);
  const auto bins = static_cast<std::size_t>(state.range(0)) * micro_batches;
  const Packs sequences = fill_sequences(all, context, static_cast<SequenceEnd>(state.range(1))).sequences;
  struct Problem {
    std::vector<std::int64_t> weights, sizes;
    std::vector<std::uint32_t> original;
  };
  std::vector<Problem> problems;
  for (std::size_t s = 0; s + bins <= sequences.size(); s += bins) {
    problems.emplace_back();
    for (std::size_t b = 0; b < bins; ++b) {
      for (const Slice& slice : sequences[s + b]) {
        problems.back().sizes.push_back(slice.size());
        problems.back().weights.push_back(slice.size() * slice.size());
        problems.back().original.push_back(static_cast<std::uint32_t>(b));
      }
    }
  }
  const auto solve = [&](const Problem& problem) {
    return capped_search(problem.weights, {problem.sizes, context}, bins,
                         {.start = problem.original, .gap = 0.005});
  };
  double worst_gap = 0.0, gap = 0.0, slowest = 0.0, proven = 0.0;
  for (const Problem& problem : problems) {
    const double start = cpu_milliseconds();
    const auto answer = solve(problem);
    slowest = std::max(slowest, cpu_milliseconds() - start);
    worst_gap = std::max(worst_gap, answer.gap());
    gap += answer.gap();
    proven += answer.gap() <= 0.005 ? 1.0 : 0.0;
  }
  std::size_t p = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(solve(problems[p]));
    p = p + 1 == problems.size() ? 0 : p + 1;
  }
  const auto count = static_cast<double>(problems.size());
  state.counters["problems"] = count;
  state.counters["proven_percent"] = 100.0 * proven / count;
  state.counters["gap"] = gap / count;
  state.counters["worst_gap"] = worst_gap;
  state.counters["slowest_ms"] = slowest;
}
BENCHMARK(equation_1)->ArgsProduct({{1, 2, 4}, {0, 2}})->Unit(benchmark::kMicrosecond);

}  // namespace
