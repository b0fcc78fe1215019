#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/balanced_samples.hpp"
#include "slimpack/planners/assemble_on_layout.hpp"
#include "slimpack/planners/slice_search.hpp"

namespace slimpack::detail {

/// Says what the finest chunks of a pipeline lack. @throws InvalidInput always.
[[noreturn]] inline void refuse_chunks(std::size_t samples, const SliceSearch::Shortage& shortage,
                                       const Memory& memory, const ChunkPlanOptions& options) {
  const ChunkScheduler::Shortage& most = shortage.most;
  const bool recomputes = options.schedule.recompute != ChunkRecompute::none;
  throw InvalidInput(concat(
      "chunks of ", samples, " samples, the longest of ", shortage.longest, " tokens in ", shortage.slices,
      " slices, do not fit into ", memory.capacity_text(), " because stage ", most.stage, " needs ",
      most.bytes / 1e9, recomputes ? " GB with all layers recomputed, " : " GB with nothing recomputed, ",
      std::max(0.0, most.bytes - memory.capacity_bytes()) / 1e9,
      " GB more than there are; expected shorter samples, more stages, more context parallelism or more "
      "memory",
      options.slices > 0 ? ", or the number of slices left to the planner" : "",
      recomputes ? "" : ", or recomputation"));
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
  std::vector<double> work;
  for (const Tokens length : lengths) work.push_back(document_seconds(prices.alone(), length));
  SliceSearch search(lengths, prices, memory, options);
  std::vector<PlacedSchedule> placed;
  ChunkCandidate slowest;
  double most = 0.0;
  std::size_t slices = 0;
  for (const std::vector<SampleId>& samples : balanced_samples(work, pipelines)) {
    ChunkCandidate best = search(samples, slices, most);
    if (!best.found.schedule.fits()) refuse_chunks(samples.size(), search.shortage(), memory, options);
    slices = best.slices;
    if (best.seconds() > most) {
      most = best.seconds();
      slowest = best;
    }
    placed.push_back(
        placed_from(placed.size(), search.scheduler().with_peaks(std::move(best.found.schedule))));
  }
  Plan plan = assemble_on_layout(planner, lengths, job, std::move(placed), prices);
  plan.notes.push_back(chunk_note(slowest, lengths));
  return plan;
}

}  // namespace slimpack::detail
