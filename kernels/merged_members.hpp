#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device_links.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/transport/collectives.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Groups of ranks that this rank belongs to, each made when it is first asked for.
template <Transport T>
class RankGroups {
 public:
  /// @param transport, ranks have to outlive it. @param place of this rank.
  RankGroups(T& transport, const PlanRanks& ranks, RankPlace place)
      : transport_(transport), ranks_(ranks), place_(place) {}

  /// The task's members, on this rank's stage.
  Group<T>& members(const StageTask& task) {
    std::vector<std::size_t> ranks;
    for (const PipelineId member : task.members) ranks.push_back(ranks_.rank_of({member, place_.stage}));
    return of(ranks);
  }

  /// The ranks that hold a unit of weights, one of each pipeline, in the pipelines' order.
  Group<T>& holders(const Plan& plan, const WeightUnit& unit) {
    std::vector<std::size_t> ranks;
    for (const PipelinePlan& pipeline : plan.pipelines)
      ranks.push_back(ranks_.rank_of({pipeline.id, stage_of_unit(pipeline.layers, unit.place)}));
    return of(ranks);
  }

 private:
  Group<T>& of(const std::vector<std::size_t>& ranks) {
    auto& group = groups_[ranks];
    if (!group) group = std::make_unique<Group<T>>(transport_, ranks);
    return *group;
  }

  T& transport_;
  const PlanRanks& ranks_;
  RankPlace place_;
  std::map<std::vector<std::size_t>, std::unique_ptr<Group<T>>> groups_;  // by ranks
};

/// Consecutive parts of these sizes.
template <class T>
[[nodiscard]] std::vector<std::span<T>> consecutive_parts(std::span<T> numbers,
                                                          std::span<const std::size_t> sizes) {
  std::vector<std::span<T>> parts;
  std::size_t begin = 0;
  for (const std::size_t size : sizes) {
    parts.push_back(numbers.subspan(begin, size));
    begin += size;
  }
  return parts;
}

/// Blocks of a task's members as blocks of their stage's replicas; those of no bytes are left out.
[[nodiscard]] inline std::vector<DeviceBlock> by_replica(const StageTask& task,
                                                         std::span<const DeviceBlock> blocks) {
  std::vector<DeviceBlock> result;
  for (const DeviceBlock& block : blocks) {
    const auto pipeline = static_cast<std::size_t>(task.members[block.position]);
    if (block.bytes > 0) result.push_back({pipeline, block.data, block.bytes});
  }
  return result;
}

}  // namespace slimpack::kernels
