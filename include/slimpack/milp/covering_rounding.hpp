#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/milp/covering_program.hpp"

namespace slimpack::detail {

/// Turns points of the relaxation into solutions of a covering program: rounds, repairs, strips what no row
/// needs, and then raises one column by 1 wherever two others can be lowered for it, until nothing gains.
class CoveringRounding {
 public:
  /// @param program kept; one that is feasible.
  explicit CoveringRounding(const CoveringProgram& program)
      : program_(&program),
        x_(program.columns()),
        surplus_(program.rows.size()),
        by_column_(entries_by_column(program)),
        in_the_way_(program.columns(), 0),
        conflicts_(program.columns() * program.columns()) {
    order_.resize(x_.size());
    find_spans();
  }

  /// A solution near a point. @param threshold from 0 to 1: a fraction above it is rounded up, others down.
  /// @return the solution, valid until the next call.
  std::span<const double> round(std::span<const double> point, double threshold) {
    for (std::size_t j = 0; j < x_.size(); ++j)
      x_[j] = std::clamp(std::ceil(point[j] - threshold - 1e-6), 0.0, program_->upper[j]);
    for (std::size_t i = 0; i < surplus_.size(); ++i) surplus_[i] = program_->rows.surplus(i, x_);
    repair();
    // What rounding raised most goes first.
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto raised = [&](std::size_t j) { return program_->cost[j] * (x_[j] - point[j]); };
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return raised(a) != raised(b) ? raised(a) > raised(b) : a < b;
    });
    for (const std::size_t j : order_) strip(j);
    while (improve()) {
    }
    return x_;
  }

 private:
  using Entry = CoveringRows::Entry;

  /// Columns from the first to the last that share a row with one.
  struct Span {
    std::size_t first, last;
  };

  void find_spans() {
    for (std::size_t j = 0; j < x_.size(); ++j) spans_.push_back({j, j});
    for (std::size_t i = 0; i < program_->rows.size(); ++i) {
      const auto row = program_->rows[i];
      for (const Entry& entry : row) {
        Span& span = spans_[entry.index];
        span.first = std::min<std::size_t>(span.first, row.front().index);
        span.last = std::max<std::size_t>(span.last, row.back().index);
      }
    }
  }

  void change(std::size_t j, double units) {
    x_[j] += units;
    for (const Entry& entry : by_column_[j]) surplus_[entry.index] += units * entry.coefficient;
  }

  /// The row that was in the way last time mostly still is, and is looked at first.
  [[nodiscard]] bool can_lower(std::size_t j) {
    if (x_[j] < 1.0) return false;
    const std::span<const Entry> rows = by_column_[j];
    const auto in_the_way = [&](const Entry& entry) { return surplus_[entry.index] < entry.coefficient; };
    if (rows.empty()) return true;
    if (in_the_way(rows[in_the_way_[j]])) return false;
    const auto found = std::find_if(rows.begin(), rows.end(), in_the_way);
    if (found == rows.end()) return true;
    in_the_way_[j] = static_cast<std::size_t>(found - rows.begin());
    return false;
  }

  /// Raises the column that covers most of what is missing for its cost, until no row is short.
  void repair() {
    for (;;) {
      double best = 0.0;
      std::size_t raised = x_.size();
      for (std::size_t j = 0; j < x_.size(); ++j) {
        if (x_[j] >= program_->upper[j]) continue;
        double covered = 0.0;
        for (const Entry& entry : by_column_[j])
          if (surplus_[entry.index] < 0.0) covered += std::min(entry.coefficient, -surplus_[entry.index]);
        if (covered > best * program_->cost[j]) {
          best = covered / program_->cost[j];
          raised = j;
        }
      }
      if (raised == x_.size()) return;
      change(raised, std::min(useful_units(raised), program_->upper[raised] - x_[raised]));
    }
  }

  /// Units of a column that no row has too many of, at least 1.
  [[nodiscard]] double useful_units(std::size_t j) const {
    double units = program_->upper[j];
    for (const Entry& entry : by_column_[j])
      if (surplus_[entry.index] < 0.0) units = std::min(units, -surplus_[entry.index] / entry.coefficient);
    return std::max(1.0, std::floor(units));
  }

  void strip(std::size_t j) {
    double units = x_[j];
    for (const Entry& entry : by_column_[j])
      units = std::min(units, std::floor(surplus_[entry.index] / entry.coefficient));
    if (units > 0.0) change(j, -units);
  }

  /// One sweep of raising a column; whether it gained.
  bool improve() {
    bool gained = false;
    for (std::size_t j = 0; j < x_.size(); ++j) {
      if (x_[j] >= program_->upper[j]) continue;
      change(j, 1.0);
      if (lower_others(j)) {
        gained = true;
      } else {
        change(j, -1.0);
      }
    }
    return gained;
  }

  /// Lowers one or two other columns if that saves more than a unit of column `j` costs. None could be lowered before
  /// that was raised, so that they share rows with it.
  bool lower_others(std::size_t j) {
    const double spent = program_->cost[j] * (1.0 + 1e-9);
    lowerable_.clear();
    for (std::size_t k = spans_[j].first; k <= spans_[j].last; ++k)
      if (k != j && can_lower(k)) lowerable_.push_back(k);
    for (std::size_t a = 0; a < lowerable_.size(); ++a) {
      const std::size_t first = lowerable_[a];
      if (program_->cost[first] > spent) {
        change(first, -1.0);
        return true;
      }
      for (std::size_t b = a; b < lowerable_.size(); ++b) {
        const std::size_t second = lowerable_[b];
        if (program_->cost[first] + program_->cost[second] <= spent || !can_lower_both(first, second))
          continue;
        change(first, -1.0);
        change(second, -1.0);
        return true;
      }
    }
    return false;
  }

  /// @pre each of them can be lowered.
  [[nodiscard]] bool can_lower_both(std::size_t first, std::size_t second) {
    if (first == second && x_[first] < 2.0) return false;
    Conflict& last = conflicts_[first * x_.size() + second];
    if (surplus_[last.row] < last.coefficients) return false;
    const std::span<const Entry> rows = by_column_[first], others = by_column_[second];
    for (std::size_t i = 0, k = 0; i < rows.size() && k < others.size();) {
      if (rows[i].index != others[k].index) {
        ++(rows[i].index < others[k].index ? i : k);
        continue;
      }
      const double both = rows[i].coefficient + others[k].coefficient;
      if (surplus_[rows[i].index] < both) {
        last = {rows[i].index, both};
        return false;
      }
      ++i;
      ++k;
    }
    return true;
  }

  /// A row with too little room for two columns to be lowered, and what they have in it.
  struct Conflict {
    std::uint32_t row = 0;
    double coefficients = -std::numeric_limits<double>::infinity();
  };

  const CoveringProgram* program_;
  std::vector<double> x_;        // [column]
  std::vector<double> surplus_;  // [row]
  std::vector<std::vector<Entry>> by_column_;
  std::vector<Span> spans_;  // [column]
  std::vector<std::size_t> order_, lowerable_;
  std::vector<std::size_t> in_the_way_;  // [column] place of a row among the column's
  std::vector<Conflict> conflicts_;      // [column * columns + column] the last one
};

}  // namespace slimpack::detail
