#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/profile.hpp"

namespace slimpack {

/// What a task took on some stage.
struct MeasuredTask {
  Pass pass = Pass::forward;
  std::int32_t layers = 0;
  std::int32_t recompute_layers = 0;  ///< backward only
  bool first = false;                 ///< the stage holds the embedding
  bool last = false;                  ///< the stage holds the head
  std::vector<Slice> slices = {};
  double seconds = 0.0;
};

/// What a profile predicts for a task.
[[nodiscard]] inline double predicted_seconds(const Profile& profile, const MeasuredTask& task) {
  const PassRates& pass = profile.of(task.pass);
  PackRates rates = pass.stage;
  rates += static_cast<double>(task.layers) * pass.layer;
  if (task.first) rates += pass.first;
  if (task.last) rates += pass.last;
  if (task.pass == Pass::backward) {
    rates += static_cast<double>(task.recompute_layers) * profile.recompute;
  }
  return rates.seconds(task.slices);
}

/// Relative errors of the seconds that `predicted(task)` says. O(tasks).
template <class Predicted>
[[nodiscard]] PredictionError relative_errors(std::span<const MeasuredTask> tasks, Predicted&& predicted) {
  if (tasks.empty()) return {};
  std::vector<double> errors;
  for (const MeasuredTask& task : tasks) {
    errors.push_back(std::abs(predicted(task) / task.seconds - 1.0));
  }
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return {.tasks = static_cast<std::int64_t>(errors.size()),
          .median = *middle,
          .worst = *std::max_element(errors.begin(), errors.end())};
}

/// Relative errors of what a profile predicts for tasks. O(tasks).
[[nodiscard]] inline PredictionError prediction_error(const Profile& profile,
                                                      std::span<const MeasuredTask> tasks) {
  return relative_errors(tasks, [&](const MeasuredTask& task) { return predicted_seconds(profile, task); });
}

}  // namespace slimpack
