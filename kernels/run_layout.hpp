#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/ranks.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::kernels {

/// What a back end asks of the pipelines of a run.
struct RunLimits {
  bool tensor_parallel = true;   ///< whether several ranks may share a stage; otherwise tp is 1
  bool equal_pipelines = false;  ///< whether all pipelines hold the same layers on their stages
};

/// The pipelines with which a run begins, and a rank's place in them. Later plans have to keep to them.
class RunLayout {
 public:
  /// @throws InvalidInput if the plan is for another number of ranks, has context parallelism, or exceeds the limits.
  RunLayout(const Plan& plan, std::size_t rank, std::size_t ranks, const RunLimits& limits) : ranks_(plan) {
    place_ = ranks_.place_in_run(rank, ranks);
    for (const PipelinePlan& pipeline : plan.pipelines) require_limits(plan, pipeline, limits);
    for (const PipelinePlan& pipeline : plan.pipelines) layers_.push_back(pipeline.layers);
  }

  [[nodiscard]] const PlanRanks& ranks() const { return ranks_; }
  [[nodiscard]] RankPlace place() const { return place_; }
  [[nodiscard]] std::size_t pipelines() const { return layers_.size(); }

  /// Tensor-parallel ranks of one stage of each pipeline: all, and those of the pipelines before this rank's.
  struct TensorRanks {
    std::size_t all = 0, before = 0;
  };
  [[nodiscard]] TensorRanks tensor_ranks() const {
    TensorRanks counted;
    for (std::size_t p = 0; p < ranks_.pipelines(); ++p) {
      if (p < place_.pipeline) counted.before += ranks_.tensor_ranks(p);
      counted.all += ranks_.tensor_ranks(p);
    }
    return counted;
  }

  /// The rank's stage for messages: `stage 0 of pipeline 1`.
  [[nodiscard]] std::string stage_name() const {
    std::string stage = concat("stage ", place_.stage, " of pipeline ", place_.pipeline);
    if (ranks_.tensor_ranks(place_.pipeline) == 1) return stage;
    return concat(stage, " (tensor-parallel rank ", place_.tensor, ")");
  }

  /// @throws InvalidInput if a plan has other pipelines, other layers on a stage, or its devices in another order.
  void check(const Plan& plan) const {
    require(plan.pipelines.size() == layers_.size(), "the plan is for ", plan.pipelines.size(),
            " pipelines; expected the ", layers_.size(), " with which the run began");
    for (std::size_t p = 0; p < layers_.size(); ++p) {
      require(plan.pipelines[p].layers == layers_[p], "pipeline ", p, " has ", plan.pipelines[p].stages(),
              " stages that hold other layers than those with which the run began; expected its ",
              layers_[p].size(), " stages and their layers");
      require(static_cast<std::size_t>(plan.pipelines[p].tp) == ranks_.tensor_ranks(p), "pipeline ", p,
              " has tp ", plan.pipelines[p].tp, "; expected the ", ranks_.tensor_ranks(p),
              " with which the run began");
    }
    require(PlanRanks(plan) == ranks_,
            "the plan's devices stand in another order than those with which the "
            "run began; expected each rank at its stage of its pipeline");
  }

 private:
  static void require_limits(const Plan& plan, const PipelinePlan& pipeline, const RunLimits& limits) {
    require(pipeline.cp == 1, "pipeline ", pipeline.id, " has cp ", pipeline.cp,
            "; expected 1: context_ranks_as_members(plan, block) has a pipeline for each context-parallel "
            "rank");
    require(limits.tensor_parallel || pipeline.tp == 1, "pipeline ", pipeline.id, " has tp ", pipeline.tp,
            "; expected 1, for the back end runs whole stages: whole_stages(plan) makes a rank of each");
    require(
        !limits.equal_pipelines || pipeline.layers == plan.pipelines[0].layers, "pipeline ", pipeline.id,
        " holds other layers on its stages than pipeline 0; expected the same with links between devices");
  }

  PlanRanks ranks_;
  RankPlace place_;
  std::vector<std::vector<std::int32_t>> layers_;  ///< [pipeline][stage]
};

}  // namespace slimpack::kernels
