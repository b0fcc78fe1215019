#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/core/solve.hpp"
#include "slimpack/partition/capped_bound.hpp"
#include "slimpack/partition/capped_greedy.hpp"
#include "slimpack/partition/capped_search.hpp"
#include "slimpack/stream/document.hpp"
#include "slimpack/stream/iteration_packing.hpp"
#include "slimpack/stream/outlier_queues.hpp"

namespace slimpack {

/// How documents are dealt to the sequences of a window.
enum class FixedLengthMethod : std::uint8_t {
  original,  ///< in their order (Plain-4D)
  greedy,    ///< by decreasing length to the lightest sequence with room (Fixed-4D)
  search,    ///< `capped_search`, with a proven gap (in place of the paper's solver for Eq. 1)
};

struct FixedLengthOptions {
  std::size_t micro_batches = 1;  ///< of an iteration: pipeline stages times data-parallel replicas
  Tokens context = 0;             ///< what a sequence may hold
  FixedLengthMethod method = FixedLengthMethod::search;
  double gap = 0.005;                          ///< proven gap at which the search ends
  std::uint64_t max_exchange_steps = 1000000;  ///< of the search
};

/// A window of global batches, packed.
struct FixedLengthWindow {
  std::vector<PackedIteration> iterations = {};
  SolveStatus status = SolveStatus::unknown;
  double largest = 0.0;  ///< workload of the heaviest micro-batch of the window
  double bound = 0.0;    ///< the heaviest micro-batch of any packing of the window has at least this workload
  double mean_token_delay =
      0.0;  ///< iterations by which tokens are trained later than in their order; earlier ones count as 0
  double mean_token_shift = 0.0;  ///< iterations by which tokens are trained later or earlier
};

namespace detail {

/// The documents of a window, each with the iteration in which it would be trained by its order.
struct WindowPieces {
  std::vector<WaitingDocument> documents;
  std::vector<double> work;
  std::vector<Tokens> sizes;
  std::vector<std::uint32_t> original;  // sequences
};

/// The sequence of each piece, and what is known about the answer.
inline std::vector<std::uint32_t> deal_pieces(std::span<const double> work, std::span<const Tokens> sizes,
                                              std::vector<std::uint32_t> original, std::size_t bins,
                                              const FixedLengthOptions& options, FixedLengthWindow& window) {
  const SizeLimit limit{sizes, options.context};
  if (options.method == FixedLengthMethod::search) {
    auto answer = capped_search(
        work, limit, bins,
        {.start = original, .gap = options.gap, .max_exchange_steps = options.max_exchange_steps});
    window.status = answer.status;
    window.bound = answer.bound;
    return std::move(answer.assignment.bin);
  }
  window.status = SolveStatus::feasible;
  window.bound = makespan_lower_bound(work, bins, limit);
  if (options.method == FixedLengthMethod::greedy) {
    if (auto bin = complete_greedy(work, limit, bins)) return std::move(*bin);
  }
  return original;
}

/// The place of each sequence among those of the window, by iteration: in order of decreasing workload, so
/// that the sum of the iterations' largest workloads is least.
inline std::vector<std::uint32_t> places_by_workload(std::span<const double> workload) {
  std::vector<std::uint32_t> order(workload.size()), place(workload.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return workload[a] > workload[b]; });
  for (std::uint32_t k = 0; k < order.size(); ++k) place[order[k]] = k;
  return place;
}

/// Means over all tokens of how much later they are trained, and how far from their order.
inline void measure_shift(FixedLengthWindow& window) {
  double tokens = 0.0, late = 0.0, shifted = 0.0;
  for (const PackedIteration& iteration : window.iterations) {
    for (const PackedDocument& document : iteration.documents) {
      const auto length = static_cast<double>(document.length);
      const auto delay = static_cast<double>(document.delay);
      tokens += length;
      late += length * std::max(delay, 0.0);
      shifted += length * std::abs(delay);
    }
  }
  window.mean_token_delay = tokens > 0.0 ? late / tokens : 0.0;
  window.mean_token_shift = tokens > 0.0 ? shifted / tokens : 0.0;
}

/// Orders the bins from number `first` on by decreasing workload.
inline void order_bins(std::span<const double> work, std::size_t bins, std::size_t first,
                       std::vector<std::uint32_t>& bin) {
  std::vector<double> load(bins - first, 0.0);
  for (std::size_t i = 0; i < bin.size(); ++i) {
    if (bin[i] >= first) load[bin[i] - first] += work[i];
  }
  const auto place = places_by_workload(load);
  for (std::uint32_t& b : bin) {
    if (b >= first) b = static_cast<std::uint32_t>(first) + place[b - first];
  }
}

/// The heaviest micro-batches form the first iteration. The search then continues with the others alone,
/// because the window's heaviest one says nothing about them, and so on.
inline void search_rest(const WindowPieces& pieces, std::size_t bins, const FixedLengthOptions& options,
                        std::vector<std::uint32_t>& bin) {
  for (std::size_t first = options.micro_batches; first < bins; first += options.micro_batches) {
    std::vector<double> work;
    std::vector<Tokens> sizes;
    std::vector<std::uint32_t> items, start;
    for (std::uint32_t i = 0; i < bin.size(); ++i) {
      if (bin[i] < first) continue;
      work.push_back(pieces.work[i]);
      sizes.push_back(pieces.sizes[i]);
      items.push_back(i);
      start.push_back(bin[i] - static_cast<std::uint32_t>(first));
    }
    const auto answer =
        capped_search(work, {sizes, options.context}, bins - first,
                      {.start = start, .gap = options.gap, .max_exchange_steps = options.max_exchange_steps});
    for (std::size_t k = 0; k < items.size(); ++k)
      bin[items[k]] = static_cast<std::uint32_t>(first) + answer.assignment.bin[k];
    order_bins(pieces.work, bins, first, bin);
  }
}

/// Assigns a window's pieces to its iterations.
inline FixedLengthWindow pack_pieces(const WindowPieces& pieces, std::size_t sequences, std::int64_t first,
                                     const FixedLengthOptions& options) {
  const std::size_t n = options.micro_batches, count = (sequences + n - 1) / n;
  FixedLengthWindow window;
  auto bin = deal_pieces(pieces.work, pieces.sizes, pieces.original, count * n, options, window);
  if (options.method != FixedLengthMethod::original) order_bins(pieces.work, count * n, 0, bin);
  if (options.method == FixedLengthMethod::search) search_rest(pieces, count * n, options, bin);
  std::vector<std::uint32_t> here(bin.size());
  for (std::size_t t = 0; t < count; ++t) {
    for (std::size_t i = 0; i < bin.size(); ++i)
      here[i] = bin[i] / n == t ? static_cast<std::uint32_t>(bin[i] % n) : unassigned;
    window.iterations.push_back(
        gather(first + static_cast<std::int64_t>(t), pieces.documents, pieces.work, here, n));
    const auto& load = window.iterations.back().workload;
    window.largest = std::max(window.largest, *std::max_element(load.begin(), load.end()));
  }
  measure_shift(window);
  return window;
}

}  // namespace detail

/// Repacks the documents of a window of global batches into the same number of sequences (WLB-LLM, section
/// 3.2). The window's sequences are assigned to its iterations by decreasing workload, the heaviest to the
/// first iteration, unless the order is the original one. If the greedy algorithm finds no room for a
/// document, even by exchanging others, the window stays in its original order.
/// @param documents of the data. @param sequences their slices in the original order, as `fill_sequences`
/// makes them. @param begin,end the window's sequences, a multiple of micro_batches except at the end of the
/// data, where the last iteration is completed with empty micro-batches. @param first_iteration of the
/// window.
/// @param workload of a document by its tokens.
/// @throws InvalidInput if the window is empty or outside of the sequences, or a sequence exceeds the
/// context. Complexity: greedy O(n log n + n sequences); search as `capped_search`.
template <DocumentWorkload Workload>
[[nodiscard]] FixedLengthWindow pack_fixed_length(std::span<const Document> documents, const Packs& sequences,
                                                  std::size_t begin, std::size_t end,
                                                  std::int64_t first_iteration,
                                                  const FixedLengthOptions& options, Workload workload) {
  require(options.micro_batches >= 1, "micro_batches is 0; expected at least 1");
  require(begin < end && end <= sequences.size(), "the window has sequences ", begin, " to ", end,
          "; expected at least one of the ", sequences.size());
  detail::WindowPieces pieces;
  for (std::size_t s = begin; s < end; ++s) {
    const Tokens held = count_tokens(sequences[s]);
    require(held <= options.context, "sequence ", s, " holds ", held,
            " tokens; expected at most the context of ", options.context);
    const std::size_t iteration = (s - begin) / options.micro_batches;
    for (const Slice& slice : sequences[s]) {
      require(slice.sample < documents.size(), "sequence ", s, " holds document number ", slice.sample,
              "; expected less than ", documents.size());
      const Document piece{documents[slice.sample].id, slice.size()};
      pieces.documents.push_back({piece, first_iteration + static_cast<std::int64_t>(iteration), 0});
      pieces.work.push_back(workload(slice.size()));
      pieces.sizes.push_back(slice.size());
      pieces.original.push_back(static_cast<std::uint32_t>(s - begin));
    }
  }
  return detail::pack_pieces(pieces, end - begin, first_iteration, options);
}

}  // namespace slimpack
