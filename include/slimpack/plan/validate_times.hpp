#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>

#include "slimpack/core/digits.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack::detail {

/// Whether two numbers differ by no more than a share of the larger one.
inline bool close(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

/// The sum of a plan's durations, and the largest of them.
class DurationSum {
 public:
  explicit DurationSum(const Plan& plan) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        const auto members = static_cast<double>(packs.pipelines[k].size());
        add(pass, k, "seconds", packs.seconds[k], members);
        add(pass, k, "transfer_seconds", packs.transfer_seconds[k], members);
        if (!packs.weight_seconds.empty()) add(pass, k, "weight_seconds", packs.weight_seconds[k], members);
      }
    }
    double stages = 0.0;
    for (const PipelinePlan& pipeline : plan.pipelines) stages += static_cast<double>(pipeline.stages());
    finite_ = std::isfinite(sum_ * (2.0 * stages + 2.0));
  }

  /// Whether everything that is computed from the durations is a number.
  [[nodiscard]] bool finite() const { return finite_; }
  /// The largest one, for messages.
  [[nodiscard]] std::string largest() const {
    return concat(pass_name(pass_), "[", pack_, "].", list_, " holds ", all_digits(largest_));
  }

 private:
  void add(Pass pass, std::size_t k, const char* list, std::span<const double> row, double members) {
    for (const double seconds : row) {
      sum_ += members * seconds;
      if (seconds <= largest_) continue;
      largest_ = seconds;
      pass_ = pass;
      pack_ = k;
      list_ = list;
    }
  }

  bool finite_ = false;
  double sum_ = 0.0, largest_ = -1.0;
  Pass pass_ = Pass::forward;
  std::size_t pack_ = 0;
  const char* list_ = "";
};

/// Rules 4 and 5: the graph of dependencies and orders has no cycle, the step's times are its longest path, and stages wait
/// as much as it says.
inline void check_times(const Plan& plan, Violations& found) {
  const StepPlan& step = plan.step;
  const DurationSum durations(plan);
  found.expect(durations.finite(), "rule 5: ", durations.largest(),
               "; expected durations whose sum over all stages is a number");
  if (!durations.finite()) return;
  try {
    const Timeline times = time_plan(plan);
    const auto is_longest = [&](const char* what, double seconds) {
      found.expect(close(seconds, times.seconds, 1e-6), "rule 5: ", what, " is ", all_digits(seconds),
                   "; expected the longest path of ", all_digits(times.seconds));
    };
    is_longest("step.pipeline_seconds", step.pipeline_seconds);
    is_longest("step.seconds - step.sync_seconds", step.seconds - step.sync_seconds);
    const double idle = times.bubble_sum.ratio();
    found.expect(std::abs(step.bubble_ratio - idle) <= 1e-9, "rule 5: step.bubble_ratio is ",
                 all_digits(step.bubble_ratio), "; expected ", all_digits(idle),
                 ", the share of the stages' time in which they wait");
  } catch (const InvalidInput& error) {
    found.expect(false, "rule 4: ", error.what());
  }
}

}  // namespace slimpack::detail
