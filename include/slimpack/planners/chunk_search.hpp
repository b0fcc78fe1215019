#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/local_search.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/chunk_options.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/chunk_scheduler.hpp"
#include "slimpack/schedule/lower_bound.hpp"
#include "slimpack/slicing/chunk_sequences.hpp"
#include "slimpack/slicing/chunks.hpp"

namespace slimpack::detail {

/// The best chunks found for a pipeline.
struct ChunkCandidate {
  ChunkSchedule found;
  Chunks chunks;
  std::size_t slices = 0;  ///< of the longest sample; 0: packs of whole samples
  double whole_seconds = std::numeric_limits<double>::infinity();  ///< of the best one that cuts no sample

  [[nodiscard]] double seconds() const { return found.schedule.seconds; }
};

/// Chunks of the sample that has most of them, at least 1.
[[nodiscard]] inline std::size_t longest_sequence(const Chunks& chunks, std::span<const Tokens> lengths) {
  const Ragged<PackId> sequences = chunk_sequences(chunks.packs, lengths);
  std::size_t most = 1;
  for (std::size_t q = 0; q < sequences.size(); ++q) most = std::max(most, sequences[q].size());
  return most;
}

/// Tries numbers of slices for the samples of one pipeline after another.
class ChunkSearch {
 public:
  /// All have to outlive this.
  ChunkSearch(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory,
              const ChunkPlanOptions& options)
      : lengths_(lengths),
        options_(options),
        prices_(prices.alone(), Pass::backward),
        scheduler_(lengths, prices, memory, options.schedule) {
    scheduler_.options().groups = false;
  }

  [[nodiscard]] Scheduler& scheduler() { return scheduler_.scheduler(); }

  /// Says what the finest chunks lack. @param samples of a pipeline for which nothing fits. @throws InvalidInput always.
  void refuse(std::span<const SampleId> samples, const Memory& memory) {
    const std::size_t slices = options_.slices > 0 ? options_.slices : most_slices();
    const Chunks finest = chunks_of(slices).front();
    const ChunkScheduler::Shortage most = scheduler_.shortage(finest.packs);
    const bool recomputes = options_.schedule.recompute != ChunkRecompute::none;
    require(
        false, "chunks of ", samples.size(), " samples, the longest of ", longest_, " tokens in ", slices,
        " slices, do not fit into ", memory.capacity_text(), " because stage ", most.stage, " needs ",
        most.bytes / 1e9, recomputes ? " GB with all layers recomputed, " : " GB with nothing recomputed, ",
        std::max(0.0, most.bytes - memory.capacity_bytes()) / 1e9,
        " GB more than there are; expected shorter samples, more stages, more context parallelism or more "
        "memory",
        options_.slices > 0 ? ", or the number of slices left to the planner" : "",
        recomputes ? "" : ", or recomputation");
  }

  /// @param samples of the pipeline. @param first slices to try before others; 0: none.
  /// @param enough seconds; the search ends when a schedule takes no more.
  [[nodiscard]] ChunkCandidate operator()(std::span<const SampleId> samples, std::size_t first,
                                          double enough) {
    best_ = {};
    tried_.clear();
    if (samples.empty()) {
      try_chunks({}, 0);
      return std::move(best_);
    }
    search(samples, first, enough);
    if (best_.seconds() > enough) scheduler_.refine(best_.found);
    const bool groups = options_.schedule.groups && options_.schedule.recompute == ChunkRecompute::adaptive;
    if (groups && best_.seconds() > enough) group();
    return std::move(best_);
  }

 private:
  void search(std::span<const SampleId> samples, std::size_t first, double enough) {
    samples_ = samples;
    longest_ = 0;
    for (const SampleId id : samples) longest_ = std::max(longest_, lengths_[id]);
    if (options_.slices > 0) return try_slices(options_.slices);
    const std::size_t most = most_slices();
    if (first > 0) try_slices(std::min(first, most));
    if (best_.seconds() <= enough) return;
    for (std::size_t n = 1; n <= most; n *= 2) try_slices(n);
    if (options_.whole_samples) try_whole_samples();
    for (const double step : {0.5, 0.25}) {
      const auto middle = static_cast<double>(std::max<std::size_t>(1, best_.slices));
      for (const double factor : {std::exp2(-step), std::exp2(step)}) {
        const auto n = static_cast<std::size_t>(std::lround(middle * factor));
        if (n >= 1 && n <= most) try_slices(n);
      }
    }
  }

  /// Groups the sequences of the best chunks.
  void group() {
    if (!best_.found.schedule.memory_bound) return;
    scheduler_.options().groups = true;
    const std::size_t slices = best_.slices;
    try_chunks(Chunks{best_.chunks}, slices);
    scheduler_.options().groups = false;
  }

  [[nodiscard]] std::size_t most_slices() const {
    return std::min(options_.most_slices, static_cast<std::size_t>((longest_ - 1) / options_.tile + 1));
  }

  void try_slices(std::size_t slices) {
    if (std::find(tried_.begin(), tried_.end(), slices) != tried_.end()) return;
    tried_.push_back(slices);
    for (const Chunks& chunks : chunks_of(slices)) try_chunks(chunks, slices);
  }

  /// The ways to make chunks with so many slices of the longest sample, at least one.
  [[nodiscard]] std::vector<Chunks> chunks_of(std::size_t slices) const {
    std::vector<Chunks> out;
    for (const Chunking way : options_.chunking) {
      if (way == Chunking::balanced) add_balanced(slices, out);
      if (way == Chunking::even) {
        const auto n = static_cast<Tokens>(slices);
        const Tokens tiles = ((longest_ + n - 1) / n + options_.tile - 1) / options_.tile;
        out.push_back(even_chunks(lengths_, samples_, prices_, tiles * options_.tile));
      }
      if (way == Chunking::lone)
        out.push_back(lone_chunks(lengths_, samples_, prices_, slices, options_.tile));
    }
    return out;
  }

  void add_balanced(std::size_t slices, std::vector<Chunks>& out) const {
    ChunkLimits limits = balanced_limits(lengths_, samples_, prices_, slices, options_.tile);
    const auto add = [&](ChunkChoice choice) {
      out.push_back(pack_chunks(lengths_, samples_, prices_, limits, choice));
    };
    if (!options_.level || samples_.size() <= options_.most_samples_lightest) add(ChunkChoice::lightest);
    if (!options_.level) return;
    add(ChunkChoice::shortest);
    limits.tokens = std::numeric_limits<Tokens>::max() / 2;
    add(ChunkChoice::shortest);
  }

  void try_whole_samples() {
    std::vector<Tokens> own;
    for (const SampleId id : samples_) own.push_back(lengths_[id]);
    const Tokens all = std::accumulate(own.begin(), own.end(), Tokens{0});
    for (const Tokens tokens : useful_pack_lengths(own, all))
      try_chunks(even_chunks(lengths_, samples_, prices_, tokens), 0);
  }

  void try_chunks(const Chunks& chunks, std::size_t slices) {
    const std::size_t longest = longest_sequence(chunks, lengths_);
    if (options_.schedule.recompute != ChunkRecompute::oldest) return try_schedule(chunks, slices, 0);
    if (options_.kept > 0) return try_schedule(chunks, slices, options_.kept);
    for (std::size_t kept = 1; kept < 2 * longest; kept *= 2)
      try_schedule(chunks, slices, std::min(kept, longest));
  }

  void try_schedule(const Chunks& chunks, std::size_t slices, std::size_t kept) {
    scheduler_.options().kept = kept;
    const bool whole =
        std::all_of(chunks.kinds.begin(), chunks.kinds.end(), [](auto k) { return k == ChunkKind::batched; });
    ChunkSchedule found = scheduler_(chunks.packs, best_.seconds());
    if (whole) best_.whole_seconds = std::min(best_.whole_seconds, found.schedule.seconds);
    if (found.schedule.seconds >= best_.seconds()) return;
    best_.found = std::move(found);
    best_.chunks = chunks;
    best_.slices = slices;
  }

  std::span<const Tokens> lengths_;
  const ChunkPlanOptions& options_;
  SlicePrices prices_;
  ChunkScheduler scheduler_;
  std::span<const SampleId> samples_;
  Tokens longest_ = 0;
  std::vector<std::size_t> tried_;
  ChunkCandidate best_;
};

/// Samples of each pipeline: as equal in work as LPT and exchanges make them. [pipeline], most work first.
[[nodiscard]] inline std::vector<std::vector<SampleId>> balanced_samples(std::span<const Tokens> lengths,
                                                                         std::size_t pipelines,
                                                                         const Prices& prices) {
  std::vector<double> work;
  for (const Tokens length : lengths) work.push_back(document_seconds(prices, length));
  Assignment assignment = lpt(work, pipelines);
  improve_assignment(work, assignment);
  std::vector<std::uint32_t> order(pipelines);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return assignment.load[a] > assignment.load[b]; });
  std::vector<std::uint32_t> place(pipelines);
  for (std::uint32_t i = 0; i < pipelines; ++i) place[order[i]] = i;
  std::vector<std::vector<SampleId>> out(pipelines);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    out[place[assignment.bin[i]]].push_back(static_cast<SampleId>(i));
  return out;
}

/// What kind of pipeline was chosen, and what else it would have cost (InfiniPipe, section 1: elastic pipelines).
[[nodiscard]] inline std::string chunk_note(const ChunkCandidate& slowest, std::span<const Tokens> lengths) {
  const Packs& packs = slowest.found.schedule.forward.packs;
  std::size_t cut = 0, whole = 0;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    const bool is_cut = std::any_of(packs[k].begin(), packs[k].end(),
                                    [&](const Slice& slice) { return slice.size() < lengths[slice.sample]; });
    ++(is_cut ? cut : whole);
  }
  const char* const kind = cut == 0 ? "batch-level" : whole == 0 ? "token-level" : "hybrid";
  std::string note =
      concat("a ", kind, " pipeline of ", packs.size(), packs.size() == 1 ? " chunk: " : " chunks: ");
  note += cut == 0 ? concat("no sample is cut")
                   : concat("the longest sample in ", slowest.slices, " slices, ", whole,
                            " chunks of whole samples");
  if (slowest.found.groups > 1)
    note += concat("; ", slowest.found.groups, " pipelines one after another, by numbers of chunks");
  if (slowest.found.schedule.recompute.per_pack())
    note += "; each chunk recomputes what it needs on each stage";
  if (cut == 0) return note;
  if (slowest.whole_seconds == std::numeric_limits<double>::infinity())
    return note + "; without cutting, no schedule is as fast";
  const double percent = std::round(1000.0 * (slowest.whole_seconds / slowest.seconds() - 1.0)) / 10.0;
  return note + concat("; without cutting, it takes ", percent, " % longer");
}

/// `plan_chunks` with prices and memory of any models.
[[nodiscard]] inline Plan search_chunks(std::string_view planner, std::span<const Tokens> lengths,
                                        const Job& job, GroupPrices& prices, const Memory& memory,
                                        const ChunkPlanOptions& options) {
  validate_batch(lengths, job.layout.dp);
  require(options.tile > 0, "tile is ", options.tile, "; expected a positive number of tokens");
  require(!options.chunking.empty(), "no chunking is given; expected at least one");
  require(!options.schedule.orders.empty(), "no order of passes is given; expected at least one");
  require(options.most_slices > 0, "most_slices is 0; expected a positive number");
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  ChunkSearch search(lengths, prices, memory, options);
  std::vector<PlacedSchedule> placed;
  ChunkCandidate slowest;
  double most = 0.0;
  std::size_t slices = 0;
  for (const std::vector<SampleId>& samples : balanced_samples(lengths, pipelines, prices.alone())) {
    ChunkCandidate best = search(samples, slices, most);
    if (!best.found.schedule.fits()) search.refuse(samples, memory);
    slices = best.slices;
    auto peaks = search.scheduler().peak_bytes(best.found.schedule);
    if (best.seconds() > most) {
      most = best.seconds();
      slowest = best;
    }
    placed.push_back(
        {{static_cast<PipelineId>(placed.size())}, std::move(best.found.schedule), std::move(peaks)});
  }
  Plan plan = assemble_plan(planner, lengths, job.model, job.device, layout_strategy(job), std::move(placed),
                            prices.alone().sync_seconds());
  const StepLowerBound bound = step_lower_bound(lengths, pipelines, prices);
  state_lower_bound(bound.seconds(), bound.exists, plan);
  plan.notes.push_back(chunk_note(slowest, lengths));
  return plan;
}

}  // namespace slimpack::detail
