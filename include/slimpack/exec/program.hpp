#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/exec/lifetime.hpp"
#include "slimpack/exec/ranks.hpp"
#include "slimpack/exec/stage_owners.hpp"
#include "slimpack/exec/stage_task.hpp"
#include "slimpack/plan/graph.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/schedule/task.hpp"
#include "slimpack/sharding/by_position.hpp"
#include "slimpack/sharding/sample_owners.hpp"
#include "slimpack/sharding/tensor_share.hpp"

namespace slimpack {

/// Tokens of a chunk of samples that several ranks share by position. @param otherwise where the plan names none.
/// @throws InvalidInput if the passes name different ones.
[[nodiscard]] inline Tokens block_of(const Plan& plan, Tokens otherwise) {
  const Tokens forward = plan.forward.block, backward = plan.backward.block;
  require(forward == 0 || backward == 0 || forward == backward, "forward packs have block ", forward,
          " and backward packs ", backward, "; expected the same");
  return forward != 0 ? forward : backward != 0 ? backward : otherwise;
}

struct StageProgramOptions {
  /// Tokens of a chunk of a merged sample, where the plan names none; the same on all ranks.
  Tokens block = default_ownership_block;
};

/// What one stage of one pipeline does in a step: its tasks in order. Built once per step; walking it
/// allocates nothing. It refers to the plan, which has to outlive it.
class StageProgram {
 public:
  /// @param plan that `violations` finds nothing wrong with. @param place of a rank, as `PlanRanks` has them.
  /// @throws InvalidInput if there is no such stage or tensor-parallel rank, a task is not of this pipeline, slices of
  /// a sample are on different pipelines (its keys and values could not be found), members have other layers or another tensor
  /// parallelism than this stage, a token has no backward pack, or as `stage_owners`: if packs are shared so that a token is on
  /// different members in the two passes.
  /// Complexity: O(slices of the plan + tasks and owned ranges of the stage), and that of `stage_owners`.
  StageProgram(const Plan& plan, const RankPlace& place, const StageProgramOptions& options = {});
  StageProgram(const Plan&&, const RankPlace&, const StageProgramOptions& = {}) = delete;
  /// Of the stage's first tensor-parallel rank.
  StageProgram(const Plan& plan, PipelineId pipeline, std::size_t stage,
               const StageProgramOptions& options = {})
      : StageProgram(plan, RankPlace{pipeline, stage, 0}, options) {}
  StageProgram(const Plan&&, PipelineId, std::size_t, const StageProgramOptions& = {}) = delete;
  StageProgram(StageProgram&&) = default;
  StageProgram& operator=(StageProgram&&) = default;
  StageProgram(const StageProgram&) = delete;
  StageProgram& operator=(const StageProgram&) = delete;
  ~StageProgram() = default;

  [[nodiscard]] std::span<const StageTask> tasks() const { return tasks_; }
  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] PipelineId pipeline() const { return place_.pipeline; }
  [[nodiscard]] std::size_t stage() const { return place_.stage; }
  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] bool first() const { return place_.stage == 0; }
  [[nodiscard]] bool last() const { return place_.stage + 1 == stages_; }
  [[nodiscard]] std::size_t rank() const { return rank_; }
  /// Which of the stage's tensor-parallel ranks this is, and so whose rows it holds.
  [[nodiscard]] const TensorShare& tensor() const { return tensor_; }
  /// The same tensor-parallel rank of the stage before. @pre not the first stage.
  [[nodiscard]] std::size_t rank_before() const { return rank_before_; }
  /// The same of the next stage. @pre not the last stage.
  [[nodiscard]] std::size_t rank_after() const { return rank_after_; }
  /// Which members hold which tokens of the samples that the stage runs.
  [[nodiscard]] const SampleOwners& owners() const { return owners_; }
  /// Layers that the stage holds.
  [[nodiscard]] std::int32_t layers() const { return plan_->pipelines[place_.pipeline].layers[place_.stage]; }
  /// Whether a schedule splits weight gradients off on this stage.
  [[nodiscard]] bool has_weight_tasks() const { return weight_tasks_ > 0; }

 private:
  class Builder;

  const Plan* plan_ = nullptr;
  RankPlace place_;
  TensorShare tensor_;
  std::size_t rank_ = 0, rank_before_ = 0, rank_after_ = 0, stages_ = 0;
  SampleOwners owners_;
  std::size_t weight_tasks_ = 0;
  std::vector<StageTask> tasks_;
  std::vector<Slice> owned_;
  std::vector<RecomputeRange> recompute_;
  std::vector<Release> releases_;
};

/// Fills a program. Lists grow while tasks are added, so tasks get their parts of them at the end.
class StageProgram::Builder {
 public:
  /// @param block tokens of a chunk of samples that members share by position.
  Builder(StageProgram& program, Tokens block)
      : program_(program),
        plan_(*program.plan_),
        block_(block),
        forward_(plan_.forward.packs, plan_.tokens.size()),
        backward_(plan_.backward.packs, plan_.tokens.size()),
        split_(plan_.backward.packs.size(), 0),
        placed_(plan_.tokens.size(), 0) {}

  void build() {
    const auto& order = plan_.pipelines[program_.pipeline()].order;
    require(order.size() == program_.stages_, "pipeline ", program_.pipeline(), " has orders of ",
            order.size(), " stages; expected its ", program_.stages_);
    const std::vector<Task>& own = order[program_.stage()];
    for (const Task task : own) {
      if (task.pass != Pass::weight || task.pack >= split_.size()) continue;
      split_[task.pack] = 1;
      ++program_.weight_tasks_;
    }
    program_.tasks_.reserve(own.size());
    for (const Task task : own) begin_task(task);
    program_.owners_ = stage_owners(plan_, own, block_);
    for (StageTask& task : program_.tasks_) fill_task(task);
    give_parts();
    mark_last();
  }

 private:
  /// Where a task's parts of the lists end.
  struct Ends {
    std::size_t owned, recompute, releases;
  };

  /// Adds a task: its pack, and who runs it. What its members hold follows in `fill_task`.
  void begin_task(Task task) {
    const PassPlan& pass = plan_.of(task.pass);
    require(task.pack < pass.packs.size(), "stage ", program_.stage(), " of pipeline ", program_.pipeline(),
            " runs ", to_string(task), "; expected packs below ", pass.packs.size());
    StageTask& out = program_.tasks_.emplace_back();
    out.pass = task.pass;
    out.pack = task.pack;
    out.slices = pass.packs[task.pack];
    out.members = pass.pipelines[task.pack];
    const auto here = std::find(out.members.begin(), out.members.end(), program_.pipeline());
    require(here != out.members.end(), "stage ", program_.stage(), " of pipeline ", program_.pipeline(),
            " runs ", to_string(task), "; expected packs of this pipeline only");
    out.member = static_cast<std::size_t>(here - out.members.begin());
    out.exchange = pass.exchange_of(task.pack);
    check_layers(out);
    for (const Slice& slice : out.slices) check_members(slice.sample, out.members);
  }

  /// Adds what needs the owners of its samples.
  void fill_task(StageTask& out) {
    if (out.pass != Pass::forward) {
      out.recompute_layers = recompute_layers(out.pack);
      out.offload_layers = plan_.backward.offload_of(out.pack, program_.stage());
    }
    for (const Slice& slice : out.slices) add_slice(slice, out);
    ends_.push_back({program_.owned_.size(), program_.recompute_.size(), program_.releases_.size()});
  }

  void add_slice(const Slice& slice, StageTask& out) {
    out.tokens += slice.size();
    program_.owners_.for_each_owned_range(slice, out.member, [&](const Slice& range) {
      out.owned_tokens += range.size();
      out.rows += program_.tensor_.count(range);
      if (out.merged()) program_.owned_.push_back(range);
    });
    if (out.pass == Pass::forward) {
      add_recompute(slice);
    } else if (const Stores stores = freed_by(out)) {
      program_.releases_.push_back({slice.sample, slice.begin, slice.end, stores, false});
    }
  }

  [[nodiscard]] Stores freed_by(const StageTask& task) const {
    constexpr auto kept =
        static_cast<Stores>(Stores(Store::activations) + static_cast<Stores>(Store::kv_gradients));
    if (task.pass == Pass::weight) return kept;
    return split_[task.pack] != 0 ? static_cast<Stores>(all_stores - kept) : all_stores;
  }

  [[nodiscard]] std::int32_t recompute_layers(PackId pack) const {
    const auto& rows = plan_.backward.recompute_layers;
    require(pack < rows.size() && program_.stage() < rows[pack].size(), "backward[", pack,
            "] has no recompute_layers for stage ", program_.stage(), "; expected a number for each stage");
    return rows[pack][program_.stage()];
  }

  /// By the backward packs that will take the slice's tokens.
  void add_recompute(const Slice& slice) {
    const auto pieces = backward_[slice.sample];
    auto piece = std::upper_bound(pieces.begin(), pieces.end(), slice.begin,
                                  [](Tokens token, const auto& p) { return token < p.end; });
    auto& list = program_.recompute_;
    const std::size_t first = list.size();
    Tokens reached = slice.begin;
    for (; piece != pieces.end() && piece->begin <= reached && reached < slice.end; ++piece) {
      const Tokens end = std::min(piece->end, slice.end);
      const RecomputeRange range{slice.sample, reached, end, recompute_layers(piece->pack),
                                 plan_.backward.offload_of(piece->pack, program_.stage())};
      if (list.size() > first && list.back().layers == range.layers &&
          list.back().offload_layers == range.offload_layers) {
        list.back().end = end;
      } else {
        list.push_back(range);
      }
      reached = end;
    }
    require(reached >= slice.end, "sample ", slice.sample, " has no backward pack for its token ", reached,
            "; expected each of its tokens in one");
  }

  /// Members meet layer by layer.
  void check_layers(const StageTask& task) const {
    for (const PipelineId member : task.members) {
      const PipelinePlan& own = plan_.pipelines[program_.pipeline()];
      require(member < plan_.pipelines.size() && plan_.pipelines[member].layers == own.layers, "pipelines ",
              program_.pipeline(), " and ", member, " run ", to_string(task),
              " together; expected the same layers on each of their stages");
      require(plan_.pipelines[member].tp == own.tp, "pipelines ", program_.pipeline(), " and ", member,
              " run ", to_string(task), " together, with tp ", own.tp, " and ", plan_.pipelines[member].tp,
              "; expected the same");
    }
  }

  /// A sample's keys and values lie with its owners, so all its packs have to be of the same pipelines.
  void check_members(SampleId sample, std::span<const PipelineId> members) {
    if (placed_[sample] != 0) return;
    placed_[sample] = 1;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const auto& piece : (pass == Pass::forward ? forward_ : backward_)[sample]) {
        const auto others = plan_.of(pass).pipelines[piece.pack];
        if (std::equal(members.begin(), members.end(), others.begin(), others.end())) continue;
        throw InvalidInput(concat("sample ", sample, " is in ", to_string(Task{pass, piece.pack}),
                                  ", which other pipelines run than its other packs; expected all on the "
                                  "same pipelines"));
      }
    }
  }

  void give_parts() {
    Ends from{0, 0, 0};
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      StageTask& task = program_.tasks_[i];
      const Ends to = ends_[i];
      task.owned = task.merged()
                       ? std::span<const Slice>(program_.owned_).subspan(from.owned, to.owned - from.owned)
                       : task.slices;
      task.recompute = std::span<const RecomputeRange>(program_.recompute_)
                           .subspan(from.recompute, to.recompute - from.recompute);
      task.releases =
          std::span<const Release>(program_.releases_).subspan(from.releases, to.releases - from.releases);
      from = to;
    }
  }

  /// Releases are in the tasks' order: the last one of a sample is the first from the end.
  void mark_last() {
    std::fill(placed_.begin(), placed_.end(), std::uint8_t{0});
    for (auto release = program_.releases_.rbegin(); release != program_.releases_.rend(); ++release) {
      release->last = placed_[release->sample] == 0;
      placed_[release->sample] = 1;
    }
  }

  StageProgram& program_;
  const Plan& plan_;
  Tokens block_;
  detail::SampleSlices forward_, backward_;
  std::vector<std::uint8_t> split_;   ///< [backward pack] with a weight task
  std::vector<std::uint8_t> placed_;  ///< [sample]
  std::vector<Ends> ends_;
};

inline StageProgram::StageProgram(const Plan& plan, const RankPlace& place,
                                  const StageProgramOptions& options)
    : plan_(&plan), place_(place) {
  const PlanRanks ranks(plan);
  const auto [pipeline, stage, tensor] = place;
  require(pipeline < ranks.pipelines(), "pipeline is ", pipeline, "; expected below the plan's ",
          ranks.pipelines());
  stages_ = ranks.stages(pipeline);
  require(stage < stages_, "stage is ", stage, "; expected below the ", stages_, " of pipeline ", pipeline);
  tensor_ = {ranks.tensor_ranks(pipeline), tensor};
  require(tensor < tensor_.size, "the tensor-parallel rank is ", tensor, "; expected below the ",
          tensor_.size, " of pipeline ", pipeline);
  rank_ = ranks.rank_of(place_);
  if (!first()) rank_before_ = ranks.rank_of({pipeline, stage - 1, tensor});
  if (!last()) rank_after_ = ranks.rank_of({pipeline, stage + 1, tensor});
  const Tokens block = block_of(plan, options.block);
  require(block > 0, "block is ", block, "; expected a positive number of tokens");
  Builder(*this, block).build();
}

}  // namespace slimpack
