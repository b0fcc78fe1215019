#pragma once

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/measured_task.hpp"
#include "slimpack/cost/profile.hpp"

namespace slimpack {

namespace detail {

/// Least squares |A x - b| over x >= 0 (Lawson and Hanson, Solving Least Squares Problems, algorithm NNLS). Columns of
/// zeros get zero.
inline Eigen::VectorXd nonnegative_least_squares(Eigen::MatrixXd a, const Eigen::VectorXd& b) {
  const Eigen::Index n = a.cols();
  Eigen::VectorXd scale(n);
  for (Eigen::Index j = 0; j < n; ++j) {
    scale(j) = a.col(j).norm();
    if (scale(j) > 0.0) a.col(j) /= scale(j);
  }
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  std::vector<Eigen::Index> used;
  const double tolerance = 1e-10 * b.norm();
  for (Eigen::Index round = 0; round < 3 * n; ++round) {
    const Eigen::VectorXd slope = a.transpose() * (b - a * x);
    Eigen::Index best = -1;
    for (Eigen::Index j = 0; j < n; ++j) {
      const bool free = std::find(used.begin(), used.end(), j) == used.end();
      if (free && slope(j) > tolerance && (best < 0 || slope(j) > slope(best))) best = j;
    }
    if (best < 0) break;
    used.push_back(best);
    while (!used.empty()) {
      const Eigen::VectorXd solution = a(Eigen::all, used).colPivHouseholderQr().solve(b);
      double step = 1.0;
      for (std::size_t i = 0; i < used.size(); ++i) {
        const double to = solution(static_cast<Eigen::Index>(i)), from = x(used[i]);
        if (to <= 0.0) step = std::min(step, from / (from - to));
      }
      for (std::size_t i = 0; i < used.size(); ++i) {
        x(used[i]) += step * (solution(static_cast<Eigen::Index>(i)) - x(used[i]));
      }
      if (step >= 1.0) break;
      const double zero = 1e-14 * x.maxCoeff();
      for (const Eigen::Index j : used) {
        if (x(j) <= zero) x(j) = 0.0;
      }
      std::erase_if(used, [&](Eigen::Index j) { return x(j) == 0.0; });
    }
  }
  for (Eigen::Index j = 0; j < n; ++j) {
    if (scale(j) > 0.0) x(j) /= scale(j);
  }
  return x;
}

/// Calls visit(rate, factor) for each rate that may be part of a task, with how often it is.
template <class Visit>
void visit_task(const MeasuredTask& task, PassRates& pass, PackRates& recompute, Visit&& visit) {
  double tokens = 0.0, keys = 0.0, pairs = 0.0, slices = 0.0;
  for (const Slice& s : task.slices) {
    tokens += static_cast<double>(s.size());
    keys += static_cast<double>(s.end);
    pairs += twice_causal_pairs(s.begin, s.end);
    slices += 1.0;
  }
  const auto ends = [&](PackRates& rates, double times) {
    visit(rates.per_pack, times);
    visit(rates.per_token, times * tokens);
  };
  const auto layers = [&](PackRates& rates, double times) {
    ends(rates, times);
    visit(rates.per_slice, times * slices);
    visit(rates.per_key, times * keys);
    visit(rates.per_twice_pair, times * pairs);
  };
  layers(pass.layer, task.layers);
  ends(pass.stage, 1.0);
  ends(pass.first, task.first ? 1.0 : 0.0);
  ends(pass.last, task.last ? 1.0 : 0.0);
  if (task.pass == Pass::backward) layers(recompute, task.recompute_layers);
}

/// One pass's rates, by least squares of relative errors.
inline void fit_pass(std::span<const MeasuredTask> tasks, Pass pass, Profile& profile) {
  PassRates& rates = pass == Pass::forward ? profile.forward : profile.backward;
  rates = {};
  Eigen::Index rows = 0, columns = 0;
  for (const MeasuredTask& task : tasks) rows += task.pass == pass;
  const MeasuredTask any{.pass = pass};
  visit_task(any, rates, profile.recompute, [&](double&, double) { ++columns; });
  Eigen::MatrixXd matrix(rows, columns);
  Eigen::Index row = 0;
  for (const MeasuredTask& task : tasks) {
    if (task.pass != pass) continue;
    Eigen::Index column = 0;
    visit_task(task, rates, profile.recompute,
               [&](double&, double factor) { matrix(row, column++) = factor / task.seconds; });
    ++row;
  }
  const Eigen::VectorXd x = nonnegative_least_squares(std::move(matrix), Eigen::VectorXd::Ones(rows));
  Eigen::Index column = 0;
  visit_task(any, rates, profile.recompute, [&](double& rate, double) { rate = x(column++); });
}

}  // namespace detail

/// Finds the rates of forward and backward tasks and of recomputation: least squares of relative errors, no rate
/// negative. Rates of what no task has (a first stage, say) are zero.
/// @param tasks measured; of both passes, on stages with different numbers of layers.
/// @param[in,out] profile gets `forward`, `backward`, `recompute` and `fit`.
/// @throws InvalidInput naming the task whose duration is not positive or whose slice is empty, or if a pass has no
/// task with a layer. Complexity: O(tasks).
inline void fit_tasks(std::span<const MeasuredTask> tasks, Profile& profile) {
  bool seen[2] = {false, false};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const MeasuredTask& task = tasks[i];
    require(task.seconds > 0.0 && std::isfinite(task.seconds), "measured task ", i, " has ", task.seconds,
            " seconds; expected a positive number");
    require(task.pass != Pass::weight, "measured task ", i,
            " is of a weight pass; expected forward or backward");
    for (const Slice& s : task.slices) {
      require(0 <= s.begin && s.begin < s.end, "measured task ", i, " has a slice [", s.begin, ", ", s.end,
              "); expected tokens");
    }
    if (task.layers > 0 && !task.slices.empty()) seen[task.pass == Pass::forward ? 0 : 1] = true;
  }
  require(seen[0] && seen[1], "there are no measured ", seen[0] ? "backward" : "forward",
          " tasks with a layer; expected some of each pass");
  profile.recompute = {};
  detail::fit_pass(tasks, Pass::forward, profile);
  detail::fit_pass(tasks, Pass::backward, profile);
  profile.fit = prediction_error(profile, tasks);
}

}  // namespace slimpack
