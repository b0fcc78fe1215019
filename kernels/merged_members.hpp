#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device_links.hpp"
#include "kernels/transport/collectives.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Groups of the ranks that run merged packs together, each made when it is first asked for.
template <Transport T>
class MemberGroups {
 public:
  /// @param stage of this rank. @param stages of each pipeline.
  MemberGroups(T& transport, std::size_t stage, std::size_t stages)
      : transport_(transport), stage_(stage), stages_(stages) {}

  /// The task's members, on this rank's stage.
  Group<T>& operator()(const StageTask& task) {
    std::vector<std::size_t> ranks;
    for (const PipelineId member : task.members) ranks.push_back(rank_of({member, stage_}, stages_));
    auto& group = groups_[ranks];
    if (!group) group = std::make_unique<Group<T>>(transport_, ranks);
    return *group;
  }

 private:
  T& transport_;
  std::size_t stage_, stages_;
  std::map<std::vector<std::size_t>, std::unique_ptr<Group<T>>> groups_;  // by ranks
};

/// Parts of these sizes that lie one behind another.
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
