#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/planners/micro_batches.hpp"
#include "slimpack/stream/document.hpp"

namespace slimpack {

/// @throws InvalidInput if a batch of documents has fewer tokens than there are context-parallel ranks. O(documents).
inline void require_shardable(std::span<const Document> batch, std::int32_t cp) {
  Tokens tokens = 0;
  for (const Document& document : batch) tokens += std::clamp<Tokens>(document.length, 0, cp);
  require(batch.empty() || tokens >= cp, "cp is ", cp, "; expected at most the ", tokens,
          " tokens of the batch");
}

/// Plans a packed iteration of documents. The plan's samples are the documents of `known`, in that order, then
/// those of the iteration that are not among them; `document_ids` has the id of each. Samples that the
/// iteration does not train are deferred; a note says how many.
/// @param known documents with distinct ids.
/// @throws InvalidInput as `MicroBatchPlanner::plan`. Complexity: that, and O(n log n) for n documents.
[[nodiscard]] inline Plan plan_documents(std::string_view name, const PackedIteration& packed,
                                         std::span<const Document> known, MicroBatchPlanner& planner) {
  std::vector<Tokens> lengths;
  std::vector<std::uint64_t> ids;
  std::vector<std::pair<std::uint64_t, SampleId>> samples;
  const auto add = [&](std::uint64_t id, Tokens length) {
    samples.emplace_back(id, static_cast<SampleId>(ids.size()));
    ids.push_back(id);
    lengths.push_back(length);
  };
  for (const Document& document : known) add(document.id, document.length);
  std::sort(samples.begin(), samples.end());
  const auto sorted = samples.size();
  const auto find = [&](std::uint64_t id) {
    const auto end = samples.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto found = std::lower_bound(samples.begin(), end, std::pair(id, SampleId{0}));
    return found != end && found->first == id ? found->second : static_cast<SampleId>(ids.size());
  };
  Packs packs;
  for (std::size_t m = 0; m < packed.micro_batches(); ++m) {
    for (const PackedDocument& document : packed.micro_batch(m)) {
      const SampleId sample = find(document.id);
      if (sample == ids.size()) add(document.id, document.length);
      packs.add({sample, 0, document.length});
    }
    packs.close();
  }
  Plan plan = planner.plan(name, lengths, packs);
  plan.document_ids = std::move(ids);
  Tokens waiting = 0;
  for (const SampleId id : plan.deferred) waiting += plan.tokens[id];
  if (waiting > 0) {
    plan.notes.push_back(
        concat(plan.deferred.size(), " documents of ", waiting, " tokens wait for a later iteration"));
  }
  return plan;
}

}  // namespace slimpack
