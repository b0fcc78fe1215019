#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/partition/capped_greedy.hpp"
#include "slimpack/partition/local_search.hpp"
#include "slimpack/partition/packing.hpp"
#include "slimpack/stream/document.hpp"
#include "slimpack/stream/outlier_queues.hpp"

namespace slimpack::detail {

/// A micro-batch for every document so that none holds more than `max_tokens`: by next fit in data order, or
/// else by first-fit decreasing. Next fit always works for up to (micro_batches + 1) / 2 times max_tokens,
/// because two neighbouring micro-batches hold more than max_tokens together.
/// @throws InvalidInput if neither finds room. O(n log n).
inline std::vector<std::uint32_t> home_micro_batches(std::span<const Tokens> lengths,
                                                     const OutlierDelayOptions& options) {
  std::vector<std::uint32_t> home(lengths.size());
  std::size_t bin = 0;
  Tokens filled = 0, total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (filled + lengths[i] > options.max_tokens) {
      ++bin;
      filled = 0;
    }
    filled += lengths[i];
    total += lengths[i];
    home[i] = static_cast<std::uint32_t>(bin);
  }
  if (bin < options.micro_batches) return home;
  Packing packing = first_fit_decreasing(lengths, options.max_tokens);
  require(packing.load.size() <= options.micro_batches, "the batch has ", total,
          " tokens and was packed into ", packing.load.size(), " micro-batches of at most ",
          options.max_tokens, "; expected to fit into the ", options.micro_batches,
          " of an iteration, as any batch of up to ",
          (static_cast<Tokens>(options.micro_batches) + 1) * options.max_tokens / 2, " tokens does");
  return std::move(packing.bin);
}

/// Algorithm 1's greedy packing, with guaranteed room for the first `due` documents.
inline CappedAssignment<double> pack_with_due(std::span<const double> work, std::span<const Tokens> lengths,
                                              std::span<const WaitingDocument> documents, std::size_t due,
                                              const OutlierDelayOptions& options) {
  auto packed = capped_greedy(work, {lengths, options.max_tokens}, options.micro_batches);
  if (std::none_of(packed.left.begin(), packed.left.end(), [&](std::uint32_t i) { return i < due; }))
    return packed;
  std::vector<double> load(options.micro_batches, 0.0);
  std::vector<Tokens> filled(options.micro_batches, 0);
  for (std::size_t i = 0; i < due; ++i) {
    load[documents[i].home] += work[i];
    filled[documents[i].home] += lengths[i];
  }
  packed = capped_greedy(work.subspan(due), {lengths.subspan(due), options.max_tokens},
                         BinContents<double>{load, filled});
  for (std::uint32_t& item : packed.left) item += static_cast<std::uint32_t>(due);
  std::vector<std::uint32_t> homes(due);
  for (std::size_t i = 0; i < due; ++i) homes[i] = documents[i].home;
  auto& bin = packed.assignment.bin;
  bin.insert(bin.begin(), homes.begin(), homes.end());
  return packed;
}

/// Local search on the documents that found room.
inline void refine(std::span<const double> work, std::span<const Tokens> lengths, Tokens max_tokens,
                   CappedAssignment<double>& packed) {
  const double total = [&] {
    double sum = 0.0;
    for (const double load : packed.assignment.load) sum += load;
    return sum;
  }();
  // Smaller differences don't matter.
  constexpr double level = 1.0005;
  const double makespan = packed.assignment.makespan();
  if (makespan * static_cast<double>(packed.filled.size()) <= level * total) return;
  std::vector<double> weights;
  std::vector<Tokens> sizes;
  std::vector<std::uint32_t> items;
  Assignment placed{{}, packed.assignment.load};
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (packed.assignment.bin[i] == unassigned) continue;
    weights.push_back(work[i]);
    sizes.push_back(lengths[i]);
    items.push_back(static_cast<std::uint32_t>(i));
    placed.bin.push_back(packed.assignment.bin[i]);
  }
  improve_assignment(weights, placed, {.limit = {sizes, max_tokens}});
  packed.assignment.load = placed.load;
  for (std::size_t k = 0; k < items.size(); ++k) packed.assignment.bin[items[k]] = placed.bin[k];
}

/// Documents by micro-batch, in the given order within each.
inline PackedIteration gather(std::int64_t iteration, std::span<const WaitingDocument> documents,
                              std::span<const double> work, std::span<const std::uint32_t> bin,
                              std::size_t micro_batches) {
  PackedIteration packed{.iteration = iteration};
  packed.offsets.assign(micro_batches + 1, 0);
  packed.tokens.assign(micro_batches, 0);
  packed.workload.assign(micro_batches, 0.0);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (bin[i] == unassigned) continue;
    ++packed.offsets[bin[i] + 1];
    packed.tokens[bin[i]] += documents[i].document.length;
    packed.workload[bin[i]] += work[i];
  }
  for (std::size_t m = 0; m < micro_batches; ++m) packed.offsets[m + 1] += packed.offsets[m];
  packed.documents.resize(packed.offsets.back());
  std::vector<std::size_t> next(packed.offsets.begin(), packed.offsets.end() - 1);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (bin[i] == unassigned) continue;
    const auto& [document, arrived, home] = documents[i];
    packed.documents[next[bin[i]]++] = {document.id, document.length, iteration - arrived};
  }
  return packed;
}

}  // namespace slimpack::detail
