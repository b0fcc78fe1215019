#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
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

/// The ranks that run a plan: for each stage of each pipeline as many as its pipeline's tensor parallelism.
///
/// Ranks are numbered as the plan's devices are: rank r runs what belongs on the device with the r-th lowest id, so that
/// ranks share nodes as the plan was priced. Where a pipeline names no devices, ranks are numbered as in a layout: stage by
/// stage, within a stage pipeline by pipeline, and the tensor-parallel ranks of a stage follow each other. Pipelines may have
/// different numbers of stages. Of a pipeline with context parallelism, only the first context rank counts
/// (`context_ranks_as_members`).
class PlanRanks {
 public:
  /// @throws InvalidInput if there is no pipeline, one has no stage or no tensor-parallel rank, ids are not places, the plan
  /// has several phases, or devices are named twice or too few for a stage. O(ranks log(ranks)).
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
    number(plan);
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
    return ranks_[first_[place.pipeline] + place.stage * tensor_[place.pipeline] + place.tensor];
  }
  /// The inverse of `rank_of`. @pre rank < size().
  [[nodiscard]] RankPlace place_of(std::size_t rank) const { return places_[rank]; }
  /// The same in a run of so many ranks. @throws InvalidInput if the plan is for another number, or the rank is none of them.
  [[nodiscard]] RankPlace place_in_run(std::size_t rank, std::size_t ranks) const {
    require(ranks == size(), "there are ", ranks, " ranks; expected the ", size(), " that the plan is for");
    require(rank < size(), "the rank is ", rank, "; expected below ", size());
    return place_of(rank);
  }
  friend bool operator==(const PlanRanks&, const PlanRanks&) = default;

 private:
  /// A rank before it has its number.
  struct Numbered {
    DeviceId device;
    RankPlace place;
  };

  void number(const Plan& plan) {
    const bool named = std::none_of(plan.pipelines.begin(), plan.pipelines.end(),
                                    [](const PipelinePlan& pipeline) { return pipeline.devices.empty(); });
    std::vector<Numbered> all;
    all.reserve(size());
    for (std::size_t p = 0; p < pipelines(); ++p) {
      for (std::size_t s = 0; s < stages(p); ++s) {
        for (std::size_t t = 0; t < tensor_[p]; ++t) {
          const RankPlace place{static_cast<PipelineId>(p), s, t};
          all.push_back({named ? device_of(plan.pipelines[p], place) : 0, place});
        }
      }
    }
    const auto key = [](const Numbered& n) {
      return std::tuple(n.device, n.place.stage, n.place.pipeline, n.place.tensor);
    };
    std::sort(all.begin(), all.end(), [&](const Numbered& a, const Numbered& b) { return key(a) < key(b); });
    ranks_.resize(size());
    for (const Numbered& one : all) {
      require(!named || places_.empty() || all[places_.size() - 1].device != one.device, "device ",
              one.device, " runs two stages of the plan; expected distinct devices");
      ranks_[first_[one.place.pipeline] + one.place.stage * tensor_[one.place.pipeline] + one.place.tensor] =
          places_.size();
      places_.push_back(one.place);
    }
  }

  static DeviceId device_of(const PipelinePlan& pipeline, const RankPlace& place) {
    require(
        pipeline.devices.size() == pipeline.stages() && place.tensor < pipeline.devices[place.stage].size(),
        "stage ", place.stage, " of pipeline ", pipeline.id, " names fewer devices than its tp of ",
        pipeline.tp, "; expected one for each rank");
    return pipeline.devices[place.stage][place.tensor];
  }

  std::vector<std::size_t> first_{
      0};  ///< [pipeline] place of its first stage in `ranks_`; their number at the end
  std::vector<std::size_t> tensor_;  ///< [pipeline] ranks of a stage
  std::vector<std::size_t> ranks_;   ///< [place] its rank; pipeline by pipeline, stage by stage
  std::vector<RankPlace> places_;    ///< [rank]
};

/// Ranks that run a plan. @throws InvalidInput as `PlanRanks`.
[[nodiscard]] inline std::size_t rank_count(const Plan& plan) { return PlanRanks(plan).size(); }

}  // namespace slimpack
