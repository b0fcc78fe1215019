#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

/// Which pipeline and stage a rank runs, and as which of the stage's tensor-parallel ranks.
struct RankPlace {
  PipelineId pipeline = 0;
  std::size_t stage = 0;
  std::size_t tensor = 0;

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// The ranks that run a plan: for each stage of each pipeline as many as its pipeline's tensor parallelism. Pipelines, which
/// may have different numbers of stages, stand one after another, each from its first stage to its last; the tensor-parallel
/// ranks of a stage follow each other.
class PlanRanks {
 public:
  /// @throws InvalidInput if there is no pipeline, one has no stage or no tensor-parallel rank, ids are not places, or the plan
  /// has several phases. O(pipelines).
  explicit PlanRanks(const Plan& plan) {
    require(!plan.pipelines.empty(), "the plan has no pipelines; expected at least one");
    first_.reserve(plan.pipelines.size() + 1);
    tensor_.reserve(plan.pipelines.size());
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      const PipelinePlan& pipeline = plan.pipelines[p];
      require(pipeline.id == p, "pipelines[", p, "] has id ", pipeline.id, "; expected its place");
      require(pipeline.stages() > 0, "pipeline ", p, " has no stages; expected at least one");
      require(pipeline.phase == 0, "pipelines[", p, "].phase is ", pipeline.phase,
              "; expected 0, as executors run plans of one phase");
      require(pipeline.tp > 0, "pipeline ", p, " has tp ", pipeline.tp, "; expected a positive number");
      tensor_.push_back(static_cast<std::size_t>(pipeline.tp));
      first_.push_back(first_.back() + pipeline.stages() * tensor_.back());
    }
  }

  /// Ranks in all.
  [[nodiscard]] std::size_t size() const { return first_.back(); }
  [[nodiscard]] std::size_t pipelines() const { return first_.size() - 1; }
  /// Stages of a pipeline < pipelines().
  [[nodiscard]] std::size_t stages(std::size_t pipeline) const {
    return (first_[pipeline + 1] - first_[pipeline]) / tensor_[pipeline];
  }
  /// Ranks of each stage of a pipeline < pipelines().
  [[nodiscard]] std::size_t tensor_ranks(std::size_t pipeline) const { return tensor_[pipeline]; }
  /// Rank of a place that exists.
  [[nodiscard]] std::size_t rank_of(RankPlace place) const {
    return first_[place.pipeline] + place.stage * tensor_[place.pipeline] + place.tensor;
  }
  /// The inverse of `rank_of`. @pre rank < size(). O(log(pipelines)).
  [[nodiscard]] RankPlace place_of(std::size_t rank) const {
    const auto next = std::upper_bound(first_.begin(), first_.end(), rank);
    const auto pipeline = static_cast<std::size_t>(next - first_.begin()) - 1;
    const std::size_t within = rank - first_[pipeline], tensor = tensor_[pipeline];
    return {static_cast<PipelineId>(pipeline), within / tensor, within % tensor};
  }
  friend bool operator==(const PlanRanks&, const PlanRanks&) = default;

 private:
  std::vector<std::size_t> first_{0};  ///< [pipeline] its first stage's first rank; their number at the end
  std::vector<std::size_t> tensor_;    ///< [pipeline] ranks of a stage
};

/// Ranks that run a plan. @throws InvalidInput as `PlanRanks`.
[[nodiscard]] inline std::size_t rank_count(const Plan& plan) { return PlanRanks(plan).size(); }

/// Stages of each pipeline of a plan whose pipelines have equally many.
/// @throws InvalidInput as `PlanRanks`, or if they have not.
[[nodiscard]] inline std::size_t stages_per_pipeline(const Plan& plan) {
  const PlanRanks ranks(plan);
  for (std::size_t p = 1; p < ranks.pipelines(); ++p) {
    require(ranks.stages(p) == ranks.stages(0), "pipeline ", p, " has ", ranks.stages(p),
            " stages and pipeline 0 ", ranks.stages(0), "; expected equally many");
  }
  return ranks.stages(0);
}

}  // namespace slimpack
