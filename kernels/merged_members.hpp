#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
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

  /// The tensor-parallel ranks of this rank's stage.
  Group<T>& tensor() {
    std::vector<std::size_t> ranks;
    for (std::size_t i = 0; i < ranks_.tensor_ranks(place_.pipeline); ++i)
      ranks.push_back(ranks_.rank_of({place_.pipeline, place_.stage, i}));
    return of(ranks);
  }

  /// The task's members, on this rank's stage, of its tensor-parallel ranks those like this one.
  Group<T>& members(const StageTask& task) {
    std::vector<std::size_t> ranks;
    for (const PipelineId member : task.members)
      ranks.push_back(ranks_.rank_of({member, place_.stage, place_.tensor}));
    return of(ranks);
  }

  /// The ranks that hold a piece of weights, in the pipelines' order: one of each pipeline, or all tensor-parallel ranks of
  /// what these have in common.
  Group<T>& holders(const Plan& plan, const WeightPiece& piece) {
    const std::size_t shares = this->shares();
    std::vector<std::size_t> ranks;
    for (const PipelinePlan& pipeline : plan.pipelines) {
      const std::size_t stage = stage_of_unit(pipeline.layers, piece.place),
                        tensor = ranks_.tensor_ranks(pipeline.id);
      for (std::size_t i = 0; i < tensor; ++i) {
        if (piece.share == shares || piece.share / (shares / tensor) == i)
          ranks.push_back(ranks_.rank_of({pipeline.id, stage, i}));
      }
    }
    return of(ranks);
  }

  /// Shares into which the pipelines' tensor parallelism cuts weights: each rank holds some of them whole.
  [[nodiscard]] std::size_t shares() const {
    std::size_t shares = 1;
    for (std::size_t p = 0; p < ranks_.pipelines(); ++p) shares = std::lcm(shares, ranks_.tensor_ranks(p));
    return shares;
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
