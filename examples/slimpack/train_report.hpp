#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::command {

/// A step as rank 0 saw it. Seconds of the pipelines are until the last rank has done its tasks.
struct TrainedStep {
  Tokens tokens = 0;  ///< that were trained on
  double loss = 0.0;
  double seconds = 0.0, predicted_seconds = 0.0;
  double pipeline_seconds = 0.0, predicted_pipeline_seconds = 0.0;
};

/// A task on one rank. The time of its weight task counts to a backward task.
struct TrainedTask {
  Pass pass = Pass::forward;
  double seconds = 0.0, predicted_seconds = 0.0;
};

/// Most memory of a stage over all steps.
struct TrainedMemory {
  RankPlace place;
  double peak_bytes = 0.0, predicted_bytes = 0.0;
};

/// Loss of a batch that is not trained on, after some steps.
struct Evaluation {
  std::size_t steps = 0;
  double loss = 0.0;
};

/// What a training run was like.
struct TrainReport {
  double entropy = 0.0;  ///< that no model's loss can fall below
  std::vector<TrainedStep> steps;
  std::vector<Evaluation> evaluations;
  std::vector<TrainedTask>
      tasks;  ///< of the steps after the first, which warms up; of that if there is no other
  std::vector<TrainedMemory> memory;  ///< by rank
};

/// How well tasks were predicted.
struct TaskErrors {
  std::size_t tasks = 0;
  double seconds = 0.0, predicted_seconds = 0.0;  ///< sums
  double median_error = 0.0;                      ///< of |predicted - measured| / measured
};

/// @param pass forward or backward. O(tasks).
TaskErrors task_errors(const TrainReport& report, Pass pass);

/// Headings of the steps' table.
std::string step_heading();

/// One line of it. @param number of the step, from 1.
std::string step_text(std::size_t number, const TrainedStep& step);

/// Another one.
std::string evaluation_text(const Evaluation& evaluation);

/// What follows the steps: tasks and memory, measured against predicted.
std::string summary_text(const TrainReport& report);

/// All of it as one JSON document.
std::string to_json_text(const TrainReport& report);

}  // namespace slimpack::command
