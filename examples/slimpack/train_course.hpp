#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/model/stage.hpp"
#include "slimpack/plan/plan.hpp"
#include "train_options.hpp"

namespace slimpack::command {

/// A valid plan, and the numbers of its samples' texts.
struct PlannedBatch {
  Plan plan;
  std::vector<std::uint64_t> texts;
};

/// What is trained on: a batch for each step, or one plan for all, with what each is predicted to cost on this back end.
struct Course {
  Transformer model;
  std::vector<PlannedBatch> batches;
  std::size_t steps = 0;
  std::optional<PlannedBatch> unseen;  ///< none of the trained ones, to evaluate the model on
  kernels::StageOptions stage;         ///< with the memory that a stage may use

  [[nodiscard]] const Plan& plan(std::size_t step) const { return batches[step % batches.size()].plan; }
  /// Numbers of a step's texts. Where a plan repeats, its texts are others each time.
  [[nodiscard]] std::vector<std::uint64_t> texts(std::size_t step) const {
    std::vector<std::uint64_t> numbers = batches[step % batches.size()].texts;
    for (std::uint64_t& number : numbers) number += step / batches.size() * numbers.size();
    return numbers;
  }
};

/// Reads the plan, or plans successive batches.
/// @throws InvalidInput if a plan is not valid or for another model, or a batch can't be planned.
Course make_course(const TrainOptions& options);

}  // namespace slimpack::command
