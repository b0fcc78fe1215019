#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/task_record.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/plan/plan.hpp"

// One stage of a plan by itself, its tasks timed.
namespace slimpack::bench {

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A step of a stage.
struct StageRun {
  std::vector<kernels::TaskRecord> tasks;
  double seconds = 0.0;  ///< from the step's begin until weights are updated, by the host's clock
  std::size_t graph_tasks = 0;

  /// From the first task's begin to the last one's end, by the GPU's clock.
  [[nodiscard]] double device_seconds() const {
    return tasks.back().start + tasks.back().seconds - tasks.front().start;
  }
};

/// A stage without neighbours: what would come from them is the same random rows for each task.
/// @tparam S a `DeviceStage`
template <class S>
class TimedStage {
 public:
  TimedStage(const kernels::StagePart& part, const kernels::StageOptions& options) : stage_(part, options) {
    stage_.initialise();
    stage_.set_replicas({});
  }

  /// Runs a step in the program's order, and updates the weights. @param plan that of the program
  [[nodiscard]] StageRun step(const StageProgram& program, const Plan& plan) {
    const Ragged<std::int32_t> ids = ids_of(plan);
    take_rows(program);
    StageRun run;
    const auto begin = std::chrono::steady_clock::now();
    stage_.begin_step(program, ids);
    for (const StageTask& task : program.tasks()) {
      const kernels::MatrixView<const kernels::cuda::Bf16> in(
          rows_->data(), static_cast<std::size_t>(task.owned_tokens), stage_.part().hidden());
      static_cast<void>(task.pass == Pass::forward ? stage_.forward(task, in) : stage_.backward(task, in));
      stage_.release(task);
      run.tasks.push_back({.pass = task.pass, .pack = task.pack});
    }
    static_cast<void>(stage_.loss());
    stage_.update(++steps_, {});
    run.seconds = seconds_since(begin);
    stage_.read_times(run.tasks);
    run.graph_tasks = stage_.graph_tasks();
    return run;
  }

  /// A step whose times don't count: code is loaded, memory taken, and products are tried, which the next step would
  /// begin with.
  void warm_up(const StageProgram& program, const Plan& plan) {
    static_cast<void>(step(program, plan));
    stage_.begin_step(program, ids_of(plan));
  }

  [[nodiscard]] S& stage() { return stage_; }

 private:
  static Ragged<std::int32_t> ids_of(const Plan& plan) {
    Ragged<std::int32_t> ids;
    for (const Tokens length : plan.tokens) {
      for (Tokens t = 0; t < length; ++t) ids.add(static_cast<std::int32_t>(t % plan.model.vocab));
      ids.close();
    }
    return ids;
  }

  void take_rows(const StageProgram& program) {
    Tokens most = 0;
    for (const StageTask& task : program.tasks()) most = std::max(most, task.owned_tokens);
    const std::size_t numbers = static_cast<std::size_t>(most) * stage_.part().hidden();
    if (rows_ && rows_->size() >= numbers) return;
    rows_.emplace(stage_.port().buffer(numbers));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    constexpr std::size_t some = std::size_t{1} << 16U;
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      rows_->data()[i] = i < some ? kernels::cuda::to_bf16(normal(random)) : rows_->data()[i - some];
    }
  }

  S stage_;
  std::optional<typename S::Port::Buffer> rows_;
  std::int64_t steps_ = 0;
};

}  // namespace slimpack::bench
