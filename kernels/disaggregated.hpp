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
#include "kernels/unit_shards.hpp"
#include "slimpack/exec/reshard_program.hpp"
#include "slimpack/strategy/reshard.hpp"

namespace slimpack::kernels {

/// One rank of a training run whose optimiser stays where it is while every step may have pipelines of its own (Hydraulis,
/// section 5.2): a step pulls parameters into the stage that its plan gives to the rank, runs the tasks, pushes gradients
/// back, and updates the rank's shard. Strategies may differ in their tensor parallelism. On the CPU; all ranks call it with
/// the same arguments.
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
    const std::vector<WeightPiece> pieces = vector_pieces(stage.layout(), model_);
    std::vector<std::vector<Real>> held = vectors_of(pieces);
    move(ways, ReshardDirection::pull, parameters_, held);
    for_each_run(pieces, held, stage.parameters(),
                 [](auto vector, auto numbers) { std::copy(vector.begin(), vector.end(), numbers.begin()); });
    const double loss = executor->evaluate(plan, ids).loss;
    for_each_run(pieces, held, stage.gradients(), [](auto vector, auto numbers) {
      std::copy(numbers.begin(), numbers.end(), vector.begin());
    });
    std::vector<std::vector<Real>> gradients = parameters_;
    move(ways, ReshardDirection::push, gradients, held);
    ++steps_;
    for (std::size_t u = 0; u < shards_.units(); ++u) {
      adamw<Real>(parameters_[u], std::span<const Real>(gradients[u]), first_[u], second_[u], steps_,
                  options_.adamw);
    }
    return loss;
  }

  /// [unit] the rank's parameters: its shards of the unit's vector (`vector_pieces`), ascending, one after another.
  [[nodiscard]] const std::vector<std::vector<Real>>& parameters() const { return parameters_; }

 private:
  using Executor = RankExecutor<CpuStage<Real>, T>;

  /// Makes the stage and the ways to it. A rank that can't says so, and the others don't wait for it.
  [[nodiscard]] ReshardPlan prepare(const Plan& plan, std::optional<Executor>& executor) {
    std::exception_ptr error;
    try {
      const Strategy strategy = rank_strategy(plan);
      ReshardPlan ways = plan_reshard(shards_, stage_shards(strategy, model_), device_);
      executor.emplace(transport_, model_, plan, options_);
      return ways;
    } catch (const InvalidInput&) {
      error = std::current_exception();
    }
    Resharder<T, Real>::refuse(all_, error);
  }

  void move(const ReshardPlan& ways, ReshardDirection direction, std::vector<std::vector<Real>>& own,
            std::vector<std::vector<Real>>& stage) {
    transport_.set_task(direction == ReshardDirection::pull ? "pull of parameters" : "push of gradients");
    Resharder<T, Real>(transport_, all_, ways, direction, UnitSpans<Real>(own.begin(), own.end()),
                       UnitSpans<Real>(stage.begin(), stage.end()))
        .run();
  }

  /// Memory for what a rank's stage has of each unit's vector.
  [[nodiscard]] std::vector<std::vector<Real>> vectors_of(const std::vector<WeightPiece>& pieces) const {
    std::vector<std::vector<Real>> vectors(shards_.units());
    for (const WeightPiece& piece : pieces) {
      std::vector<Real>& vector = vectors[static_cast<std::size_t>(piece.place)];
      vector.resize(vector.size() + piece.size());
    }
    return vectors;
  }

  /// Calls f(numbers in a unit's vector, the same in the stage's flat buffer) for all that a stage has.
  template <class F>
  static void for_each_run(const std::vector<WeightPiece>& pieces, std::vector<std::vector<Real>>& vectors,
                           std::span<Real> stage, F&& f) {
    std::vector<std::size_t> done(vectors.size());
    for (const WeightPiece& piece : pieces) {
      const auto unit = static_cast<std::size_t>(piece.place);
      for (const Part& run : piece.runs) {
        f(std::span(vectors[unit]).subspan(done[unit], run.size()), stage.subspan(run.begin, run.size()));
        done[unit] += run.size();
      }
    }
  }

  void initialise(std::size_t unit) {
    const WeightLayout layout(unit_part(model_, unit));
    const auto shards = shards_.of(unit, static_cast<DeviceId>(transport_.rank()));
    std::vector<Real>& own = parameters_.emplace_back();
    std::int64_t at = 0;  // in the unit's vector
    for (const WeightPiece& piece : vector_pieces(layout, model_)) {
      for (const Part& run : piece.runs) {
        const auto size = static_cast<std::int64_t>(run.size());
        for (const ParameterShard& shard : shards) {
          const auto first = static_cast<std::size_t>(std::max(shard.begin - at, std::int64_t{0})),
                     last = static_cast<std::size_t>(std::clamp(shard.end - at, std::int64_t{0}, size));
          if (first < last) append_initial(layout, {run.begin + first, run.begin + last}, own);
        }
        at += size;
      }
    }
    first_.emplace_back(own.size());
    second_.emplace_back(own.size());
  }

  /// What stands at these places of a unit at the start of training.
  void append_initial(const WeightLayout& layout, const Part& places, std::vector<Real>& out) const {
    for (const WeightTensor& tensor : layout.tensors()) {
      const std::size_t begin = std::max(tensor.offset, places.begin),
                        end = std::min(tensor.offset + tensor.size(), places.end);
      if (begin >= end) continue;
      out.resize(out.size() + end - begin);
      layout.initial(options_.init, tensor, begin - tensor.offset, std::span(out).last(end - begin));
    }
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
