#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack {

namespace detail {

/// Part `i` of `parts` of a stage's devices, which are numbered context rank by context rank.
inline std::vector<std::vector<DeviceId>> context_rank_devices(const PipelinePlan& pipeline, std::size_t i) {
  std::vector<std::vector<DeviceId>> devices;
  const auto tp = static_cast<std::size_t>(pipeline.tp);
  for (const std::vector<DeviceId>& stage : pipeline.devices) {
    require((i + 1) * tp <= stage.size(), "a stage of pipeline ", pipeline.id, " names ", stage.size(),
            " devices; expected tp * cp = ", pipeline.tp * pipeline.cp);
    const auto first = stage.begin() + static_cast<std::ptrdiff_t>(i * tp);
    devices.emplace_back(first, first + pipeline.tp);
  }
  return devices;
}

/// Makes each pipeline of a pack all those that its ranks have become, and has shared packs that name no sharding dealt by
/// position. @param first [pipeline] number of its first rank; their number at the end. @param block of packs that are dealt by
/// position. @returns how many such packs there are.
inline std::size_t share_among_ranks(const std::vector<PipelineId>& first, Tokens block, PassPlan& pass) {
  Ragged<PipelineId> members;
  std::size_t unnamed = 0;
  bool by_position = false;
  for (std::size_t k = 0; k < pass.pipelines.size(); ++k) {
    std::size_t count = 0;
    for (const PipelineId p : std::as_const(pass.pipelines)[k]) {
      for (PipelineId rank = first[p]; rank < first[p + 1]; ++rank, ++count) members.add(rank);
    }
    members.close();
    if (count > 1 && pass.sharding[k] == Sharding::none) {
      pass.sharding[k] = Sharding::by_position;
      ++unnamed;
    }
    by_position = by_position || pass.sharding[k] == Sharding::by_position;
  }
  pass.pipelines = std::move(members);
  if (by_position && pass.block == 0) pass.block = block;
  return unnamed;
}

}  // namespace detail

/// The same plan with a pipeline of cp 1 for each context-parallel rank of a pipeline, for executors whose ranks run
/// whole stages: ranks of a pipeline become members of its packs. Ranks of one pipeline follow each other, and keep
/// their order in merged packs, so that each rank has the shard of a pack that the plan gives it (`pack_shards`). Packs that
/// several of them run and that name no sharding are dealt by position; a note says how many.
///
/// Durations are each rank's already, so that the step's times stay; peaks of memory are repeated for each rank, and the
/// bubble ratio counts each rank's time.
/// @param plan that `violations` finds nothing wrong with. @param block of packs that are dealt by position, where the plan
/// names none.
/// @throws InvalidInput if a stage names too few devices. Complexity: O((tasks + slices) * cp).
[[nodiscard]] inline Plan context_ranks_as_members(Plan plan, Tokens block) {
  std::vector<PipelineId> first{0};
  for (const PipelinePlan& pipeline : plan.pipelines)
    first.push_back(first.back() + static_cast<PipelineId>(pipeline.cp));
  std::vector<PipelinePlan> ranks;
  std::vector<std::vector<double>> peaks;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    for (std::int32_t c = 0; c < plan.pipelines[p].cp; ++c) {
      PipelinePlan& rank = ranks.emplace_back(plan.pipelines[p]);
      rank.id = static_cast<PipelineId>(ranks.size() - 1);
      rank.cp = 1;
      rank.devices = detail::context_rank_devices(plan.pipelines[p], static_cast<std::size_t>(c));
      if (p < plan.step.peak_bytes.size()) peaks.push_back(plan.step.peak_bytes[p]);
    }
  }
  plan.pipelines = std::move(ranks);
  plan.step.peak_bytes = std::move(peaks);
  // Where one pass names it, it is that of both.
  if (const Tokens named = std::max(plan.forward.block, plan.backward.block); named > 0) block = named;
  const std::size_t unnamed = detail::share_among_ranks(first, block, plan.forward) +
                              detail::share_among_ranks(first, block, plan.backward);
  if (unnamed > 0)
    plan.notes.push_back(
        concat(unnamed, " packs name no sharding; they are dealt to their ranks by position"));
  plan.step.bubble_ratio = time_plan(plan).bubble_sum.ratio();
  return plan;
}

}  // namespace slimpack
