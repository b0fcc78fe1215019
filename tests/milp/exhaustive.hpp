#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/check.hpp"
#include "slimpack/milp/model.hpp"

namespace test {

/// Calls `visit` for every point of integers within the bounds, until it returns false.
template <class Visit>
void for_each_point(const slimpack::MilpModel& model, Visit&& visit) {
  std::vector<double> point(model.lower().begin(), model.lower().end());
  for (;;) {
    if (!visit(point)) return;
    std::size_t j = 0;
    while (j < point.size() && point[j] + 1.0 > model.upper()[j]) {
      point[j] = model.lower()[j];
      ++j;
    }
    if (j == point.size()) return;
    point[j] += 1.0;
  }
}

/// The best objective over all points, by its definition; nothing if no point keeps the rows.
inline std::optional<double> best_objective(const slimpack::MilpModel& model) {
  std::optional<double> best;
  for_each_point(model, [&](const std::vector<double>& point) {
    for (std::size_t i = 0; i < model.rows(); ++i) {
      double sum = 0.0;
      for (const slimpack::Term& term : model.row(i)) sum += term.coefficient * point[term.variable];
      if (sum < model.row_lower()[i] - 1e-9 || sum > model.row_upper()[i] + 1e-9) return true;
    }
    double objective = model.objective_constant();
    for (std::size_t j = 0; j < point.size(); ++j) objective += model.objective()[j] * point[j];
    if (!best || (model.minimises() ? objective < *best : objective > *best)) best = objective;
    return true;
  });
  return best;
}

/// A user's own solver: looks at every point. For bounded integers alone.
inline slimpack::MilpResult solve_exhaustively(const slimpack::MilpModel& model,
                                               const slimpack::MilpOptions& options) {
  slimpack::MilpSearch search(model, options);
  std::int64_t points = 0;
  bool stopped = search.should_stop();
  if (!stopped) {
    for_each_point(model, [&](const std::vector<double>& point) {
      ++points;
      stopped = !search.offer(point, std::numeric_limits<double>::quiet_NaN());
      return !stopped;
    });
  }
  const auto claim = stopped             ? slimpack::MilpClaim::stopped
                     : search.has_best() ? slimpack::MilpClaim::optimal
                                         : slimpack::MilpClaim::infeasible;
  // Every solution was seen, so that there is nothing between the best one and the bound.
  const double none = std::numeric_limits<double>::quiet_NaN();
  const bool known = claim == slimpack::MilpClaim::optimal;
  return search.finish(claim, known ? objective_value(model, search.best()) : none, points);
}

/// A small model of integers by seed: 1 to 7 variables, up to 3 rows, some of them infeasible.
inline slimpack::MilpModel random_model(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  slimpack::MilpModel model;
  const int variables = pick(1, 7);
  for (int j = 0; j < variables; ++j) {
    if (pick(0, 2) > 0) {
      model.add_binary("x" + std::to_string(j));
    } else {
      const int lower = pick(-3, 2);
      model.add_variable("n", lower, lower + pick(0, 3), slimpack::VariableKind::integer);
    }
  }
  const auto terms = [&] {
    std::vector<slimpack::Term> drawn;
    for (int j = 0; j < variables; ++j) {
      if (pick(0, 3) > 0) drawn.push_back({static_cast<slimpack::VariableId>(j), pick(-6, 9) / 2.0});
    }
    return drawn;
  };
  for (int i = pick(0, 3); i > 0; --i) {
    const double middle = pick(-4, 10);
    const int kind = pick(0, 5);
    const double lower = kind < 3 ? -slimpack::no_bound : kind == 3 ? middle : middle - pick(1, 4);
    const double upper = kind == 4 ? slimpack::no_bound : middle;
    model.add_row("r", lower, upper, terms());
  }
  model.set_objective(pick(0, 1) == 0 ? slimpack::Direction::minimise : slimpack::Direction::maximise,
                      terms(), pick(-3, 3));
  return model;
}

/// A model in a form that can be read in a test's output.
inline std::string print(const slimpack::MilpModel& model) {
  std::string text = slimpack::concat(model.minimises() ? "min " : "max ", model.objective_constant());
  for (std::size_t j = 0; j < model.variables(); ++j)
    text += slimpack::concat(" + ", model.objective()[j], " x", j);
  for (std::size_t i = 0; i < model.rows(); ++i) {
    text += slimpack::concat("\n  ", model.row_lower()[i], " <=");
    for (const slimpack::Term& term : model.row(i))
      text += slimpack::concat(" + ", term.coefficient, " x", term.variable);
    text += slimpack::concat(" <= ", model.row_upper()[i]);
  }
  for (std::size_t j = 0; j < model.variables(); ++j)
    text += slimpack::concat("\n  ", model.lower()[j], " <= x", j, " <= ", model.upper()[j]);
  return text;
}

}  // namespace test
