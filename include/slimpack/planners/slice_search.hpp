#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/chunk_options.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/schedule/chunk_scheduler.hpp"
#include "slimpack/slicing/chunk_ways.hpp"

namespace slimpack::detail {

/// The best chunks found for a pipeline.
struct ChunkCandidate {
  ChunkSchedule found;
  Chunks chunks;
  std::size_t slices = 0;  ///< of the longest sample; 0: packs of whole samples
  double whole_seconds = std::numeric_limits<double>::infinity();  ///< of the best one that cuts no sample

  [[nodiscard]] double seconds() const { return found.schedule.seconds; }
};

/// Tries numbers of slices for the samples of one pipeline after another.
class SliceSearch {
 public:
  /// All have to outlive this.
  SliceSearch(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory,
              const ChunkPlanOptions& options)
      : lengths_(lengths),
        options_(options),
        prices_(prices.alone(), Pass::backward),
        scheduler_(lengths, prices, memory, options.schedule) {
    scheduler_.options().groups = false;
  }

  /// @param samples of the pipeline; they have to outlive a call of `shortage`.
  /// @param first slices to try before others; 0: none.
  /// @param enough seconds; the search ends when a schedule takes no more.
  [[nodiscard]] ChunkCandidate operator()(std::span<const SampleId> samples, std::size_t first,
                                          double enough) {
    samples_ = samples;
    longest_ = 0;
    for (const SampleId id : samples) longest_ = std::max(longest_, lengths_[id]);
    best_ = {};
    tried_.clear();
    if (samples.empty()) {
      try_chunks({}, 0);
      return std::move(best_);
    }
    search(first, enough);
    if (best_.seconds() > enough) scheduler_.refine(best_.found);
    if (best_.seconds() > enough) try_groups();
    return std::move(best_);
  }

  [[nodiscard]] Scheduler& scheduler() { return scheduler_.scheduler(); }

  /// Why nothing fits. @pre the last call had samples, and found no schedule.
  struct Shortage {
    Tokens longest = 0;      ///< sample
    std::size_t slices = 0;  ///< most that it may be cut into
    ChunkScheduler::Shortage most = {};
  };
  [[nodiscard]] Shortage shortage() {
    const std::size_t slices = options_.slices > 0 ? options_.slices : most_slices();
    return {longest_, slices, scheduler_.shortage(chunks_of(slices).front().packs)};
  }

 private:
  void search(std::size_t first, double enough) {
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

  /// Groups the sequences of the best chunks, if that may recompute less.
  void try_groups() {
    const bool adaptive = options_.schedule.recompute == ChunkRecompute::adaptive;
    if (!options_.schedule.groups || !adaptive || !best_.found.schedule.memory_bound) return;
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
    const Tokens tile = options_.tile;
    std::vector<Chunks> out;
    for (const Chunking way : options_.chunking) {
      if (way == Chunking::balanced) add_balanced(slices, out);
      if (way == Chunking::even)
        out.push_back(even_chunks(lengths_, samples_, prices_, even_slice(longest_, slices, tile)));
      if (way == Chunking::lone) out.push_back(lone_chunks(lengths_, samples_, prices_, slices, tile));
    }
    return out;
  }

  void add_balanced(std::size_t slices, std::vector<Chunks>& out) const {
    const ChunkLimits limits = balanced_limits(lengths_, samples_, prices_, slices, options_.tile);
    if (!options_.level || samples_.size() <= options_.most_samples_lightest)
      out.push_back(pack_chunks(lengths_, samples_, prices_, limits, ChunkChoice::lightest));
    if (!options_.level) return;
    for (const bool limit_tokens : {true, false})
      out.push_back(level_chunks(lengths_, samples_, prices_, limits, limit_tokens));
  }

  void try_whole_samples() {
    std::vector<Tokens> own;
    for (const SampleId id : samples_) own.push_back(lengths_[id]);
    const Tokens all = std::accumulate(own.begin(), own.end(), Tokens{0});
    for (const Tokens tokens : useful_pack_lengths(own, all))
      try_chunks(even_chunks(lengths_, samples_, prices_, tokens), 0);
  }

  void try_chunks(const Chunks& chunks, std::size_t slices) {
    ChunkSchedule found = scheduler_(chunks.packs, best_.seconds());
    if (chunks.whole_samples()) best_.whole_seconds = std::min(best_.whole_seconds, found.schedule.seconds);
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
  Tokens longest_ = 0;  // of the samples
  std::vector<std::size_t> tried_;
  ChunkCandidate best_;
};

}  // namespace slimpack::detail
