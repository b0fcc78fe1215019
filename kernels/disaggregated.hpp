#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/executor.hpp"
#include "kernels/math/adamw.hpp"
#include "kernels/model/stage.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/reshard.hpp"
#include "kernels/transport/collectives.hpp"
#include "slimpack/exec/reshard_program.hpp"
#include "slimpack/strategy/reshard.hpp"

namespace slimpack::kernels {

/// The part of a model that is one unit: the embedding, a layer, or the final norm with the output head.
[[nodiscard]] inline StagePart unit_part(const Transformer& model, std::size_t unit) {
  const auto place = static_cast<std::int32_t>(unit);
  const bool layer = place > 0 && place <= model.layers;
  return {.model = model,
          .first_layer = layer ? place - 1 : 0,
          .layers = layer ? 1 : 0,
          .first = place == 0,
          .last = place == model.layers + 1};
}

/// One rank of a training run whose optimiser stays where it is while every step may have pipelines of its own (Hydraulis,
/// section 5.2): a step pulls parameters into the stage that its plan gives to the rank, runs the tasks, pushes gradients
/// back, and updates the rank's shard. On the CPU; all ranks call it with the same arguments.
template <class Real, Transport T>
class DisaggregatedTrainer {
 public:
  /// Parameters begin as `ExecutorOptions::init` says, the same as with `RankExecutor`.
  /// @param shards of the optimiser, each number on one rank. @param device its nodes and links, for the ways that are taken.
  /// @throws InvalidInput if the shards are impossible, or of another model.
  DisaggregatedTrainer(T& transport, const Transformer& model, ParameterShards shards, const Device& device,
                       const ExecutorOptions& options = {})
      : transport_(transport),
        all_(transport),
        model_(model),
        shards_(std::move(shards)),
        device_(device),
        options_(options) {
    validate(shards_, "the optimiser's layout");
    require_exclusive(shards_);
    require_same_units(shards_, ParameterShards{unit_sizes(model), {}});
    for (std::size_t u = 0; u < shards_.units(); ++u) initialise(u);
  }

  /// Runs one step. @param plan that `violations` finds nothing wrong with, for any pipelines of all ranks. @param ids token
  /// ids, one row per sample. @returns the batch's loss.
  /// @throws InvalidInput on all ranks if the plan is of another model or other ranks, or differs between ranks; nothing has
  /// moved then. @throws TransportError if another rank has failed.
  double step(const Plan& plan, const Ragged<std::int32_t>& ids) {
    std::optional<Executor> executor;
    const ReshardPlan ways = prepare(plan, executor);
    StageWeights<Real>& stage = executor->stage().weights();
    move(ways, ReshardDirection::pull, parameters_, of_stage(stage, stage.parameters()));
    const double loss = executor->evaluate(plan, ids).loss;
    std::vector<std::vector<Real>> gradients = parameters_;
    move(ways, ReshardDirection::push, gradients, of_stage(stage, stage.gradients()));
    ++steps_;
    for (std::size_t u = 0; u < shards_.units(); ++u) {
      adamw<Real>(parameters_[u], std::span<const Real>(gradients[u]), first_[u], second_[u], steps_,
                  options_.adamw);
    }
    return loss;
  }

  /// [unit] the rank's parameters: its shards, ascending, one after another.
  [[nodiscard]] const std::vector<std::vector<Real>>& parameters() const { return parameters_; }

 private:
  using Executor = RankExecutor<CpuStage<Real>, T>;

  /// Makes the stage and the ways to it. A rank that can't says so, and the others don't wait for it.
  [[nodiscard]] ReshardPlan prepare(const Plan& plan, std::optional<Executor>& executor) {
    std::exception_ptr error;
    try {
      const Strategy strategy = rank_strategy(plan);
      ReshardPlan ways = plan_reshard(shards_, propagation_shards(strategy, model_), device_);
      executor.emplace(transport_, model_, plan, options_);
      return ways;
    } catch (const InvalidInput&) {
      error = std::current_exception();
    }
    Resharder<T, Real>::refuse(all_, error);
  }

  void move(const ReshardPlan& ways, ReshardDirection direction, std::vector<std::vector<Real>>& own,
            UnitSpans<Real> stage) {
    transport_.set_task(direction == ReshardDirection::pull ? "pull of parameters" : "push of gradients");
    Resharder<T, Real>(transport_, all_, ways, direction, UnitSpans<Real>(own.begin(), own.end()),
                       std::move(stage))
        .run();
  }

  /// A stage's numbers of each unit.
  [[nodiscard]] UnitSpans<Real> of_stage(const StageWeights<Real>& stage, std::span<Real> numbers) const {
    UnitSpans<Real> spans(shards_.units());
    for (const WeightUnit& unit : stage.units())
      spans[static_cast<std::size_t>(unit.place)] = numbers.subspan(unit.numbers.begin, unit.numbers.size());
    return spans;
  }

  void initialise(std::size_t unit) {
    const WeightLayout layout(unit_part(model_, unit));
    std::vector<Real>& own = parameters_.emplace_back();
    for (const ParameterShard& shard : shards_.of(unit, static_cast<DeviceId>(transport_.rank()))) {
      for (const WeightTensor& tensor : layout.tensors()) {
        const auto begin = std::max(tensor.offset, static_cast<std::size_t>(shard.begin)),
                   end = std::min(tensor.offset + tensor.size(), static_cast<std::size_t>(shard.end));
        if (begin >= end) continue;
        own.resize(own.size() + end - begin);
        layout.initial(options_.init, tensor, begin - tensor.offset, std::span(own).last(end - begin));
      }
    }
    first_.emplace_back(own.size());
    second_.emplace_back(own.size());
  }

  T& transport_;
  Group<T> all_;
  Transformer model_;
  ParameterShards shards_;
  Device device_;
  ExecutorOptions options_;
  std::vector<std::vector<Real>> parameters_, first_, second_;  ///< [unit] of this rank, moments included
  std::int64_t steps_ = 0;
};

}  // namespace slimpack::kernels
