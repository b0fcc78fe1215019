#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/milp/covering_dictionary.hpp"
#include "slimpack/milp/covering_program.hpp"
#include "slimpack/milp/covering_simplex.hpp"

namespace slimpack::detail {

/// The linear relaxation of a covering program: minimise cost x over bounds and rows. Its dictionary holds only
/// rows that some point has violated, and drops them again when they have room, so that it has about as many
/// rows as there are fractional columns.
///
/// Bounds and rows may change between solves; each goes on from the basis of the last one. A copy remembers a
/// basis.
class CoveringRelaxation {
 public:
  /// @param rows of the program and valid inequalities of any sign; they may be added to later on.
  CoveringRelaxation(std::span<const double> cost, std::span<const double> upper, const CoveringRows& rows)
      : cost_(cost), rows_(&rows), dictionary_(cost, upper) {}

  [[nodiscard]] double lower(std::size_t column) const { return dictionary_.lower(column); }
  [[nodiscard]] double upper(std::size_t column) const { return dictionary_.upper(column); }
  /// Of the last solve; not exact.
  [[nodiscard]] std::span<const double> point() const { return dictionary_.point(); }
  [[nodiscard]] std::int64_t pivots() const { return simplex_.pivots(); }
  [[nodiscard]] bool is_basic(std::size_t column) const { return dictionary_.is_basic(column); }
  /// @pre the column is basic.
  [[nodiscard]] RoundingPenalty penalty(std::size_t column) const {
    return rounding_penalty(dictionary_, column);
  }
  void set_bounds(std::size_t column, double lower, double upper) {
    dictionary_.set_bounds(column, lower, upper);
  }

  /// Solves the program with the present bounds and rows. @param most_pivots before it is `stopped`.
  SimplexEnd solve(std::int64_t most_pivots) {
    const std::int64_t last = pivots() + most_pivots;
    do {
      const SimplexEnd end = simplex_.minimise(dictionary_, last);
      if (end != SimplexEnd::optimal) return end;
    } while (add_violated_rows());
    dictionary_.drop_slack_rows();
    return SimplexEnd::optimal;
  }

  /// A lower bound on the cost of every point within the bounds, by the multipliers of the rows in the
  /// dictionary; proven whatever rounding did to them, because any multipliers of 0 or more give one.
  [[nodiscard]] double safe_bound() {
    const std::span<const double> reduced = dictionary_.table().reduced_costs();
    return lagrangian(
        1.0, [&](std::size_t q) { return std::max(0.0, reduced[q]); }, DualSimplex::no_row);
  }

  /// Whether the last solve's claim that there is no point holds up to rounding.
  [[nodiscard]] bool is_proven_infeasible() {
    const std::size_t conflict = simplex_.conflict();
    if (conflict == DualSimplex::no_row) return false;
    const std::span<const double> row = dictionary_.table().row(conflict);
    return lagrangian(
               0.0, [&](std::size_t q) { return std::abs(row[q]); }, conflict) > 0.0;
  }

  /// Cost of one unit of each column beyond what the rows' multipliers pay for, of the last `safe_bound`; a proof
  /// may use it.
  [[nodiscard]] std::span<const double> safe_reduced_costs() const { return safe_reduced_; }

  /// Calls `visit(row, multiplier)` for the rows that the optimum keeps with equality: with their multipliers
  /// in the proof of the optimum; or, for a basic column, in the equation that gives it from nonbasic ones.
  template <class Visit>
  void for_each_tight_row(Visit&& visit) const {
    visit_rows(dictionary_.table().reduced_costs(), visit);
  }
  template <class Visit>
  void for_each_tight_row(std::size_t column, Visit&& visit) const {
    visit_rows(dictionary_.table().row(dictionary_.basic_place(column)), visit);
  }

 private:
  template <class Visit>
  void visit_rows(std::span<const double> multipliers, Visit&& visit) const {
    for (std::size_t q = 0; q < multipliers.size(); ++q) {
      const std::uint32_t id = dictionary_.nonbasic()[q];
      if (id >= dictionary_.columns() && std::abs(multipliers[q]) > 1e-9)
        visit(id - dictionary_.columns(), multipliers[q]);
    }
  }

  /// Adds rows that the point violates, the most violated first, but no two that overlap much: the second
  /// one is often kept once the first is. False if none is violated.
  bool add_violated_rows() {
    violated_.clear();
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      const double surplus = rows_->surplus(i, point());
      if (surplus < -DualSimplex::feasible) violated_.push_back({surplus, static_cast<std::uint32_t>(i)});
    }
    std::sort(violated_.begin(), violated_.end(), [](const Violated& a, const Violated& b) {
      return a.surplus != b.surplus ? a.surplus < b.surplus : a.row < b.row;
    });
    touched_.assign(dictionary_.columns(), 0);
    bool added = false;
    for (const Violated& next : violated_) {
      const auto entries = (*rows_)[next.row];
      const auto id = static_cast<std::uint32_t>(dictionary_.columns() + next.row);
      std::size_t shared = 0;
      for (const auto& entry : entries) shared += touched_[entry.index];
      if (2 * shared > entries.size() || dictionary_.contains(id)) continue;
      for (const auto& entry : entries) touched_[entry.index] = 1;
      dictionary_.add_row(id, entries, next.surplus);
      added = true;
    }
    return added;
  }

  /// Least of `scale * cost x - sum of multipliers (row x - rhs)` within the bounds, less what rounding may
  /// have added.
  template <class Multiplier>
  double lagrangian(double scale, Multiplier&& multiplier, std::size_t extra) {
    const std::size_t columns = dictionary_.columns();
    safe_reduced_.resize(columns);
    double sum = 0.0, size = 0.0, count = static_cast<double>(columns);
    for (std::size_t j = 0; j < columns; ++j) safe_reduced_[j] = scale * cost_[j];
    magnitude_.assign(safe_reduced_.begin(), safe_reduced_.end());
    const auto use = [&](std::uint32_t id, double factor) {
      if (id < columns || factor == 0.0) return;
      const std::size_t row = id - columns;
      sum += factor * rows_->rhs(row);
      size += std::abs(factor * rows_->rhs(row));
      count += 1.0;
      for (const auto& entry : (*rows_)[row]) {
        safe_reduced_[entry.index] -= factor * entry.coefficient;
        magnitude_[entry.index] += std::abs(factor * entry.coefficient);
      }
    };
    for (std::size_t q = 0; q < columns; ++q) use(dictionary_.nonbasic()[q], multiplier(q));
    if (extra != DualSimplex::no_row) use(dictionary_.basic()[extra], 1.0);
    const double rounding = 4.0 * count * std::numeric_limits<double>::epsilon();
    for (std::size_t j = 0; j < columns; ++j) {
      const double least_reduced = safe_reduced_[j] - rounding * magnitude_[j];
      const double term = least_reduced * (least_reduced > 0.0 ? lower(j) : upper(j));
      sum += term;
      size += std::abs(term);
    }
    return sum - rounding * size;
  }

  struct Violated {
    double surplus;
    std::uint32_t row;
  };

  std::span<const double> cost_;
  const CoveringRows* rows_;
  SimplexDictionary dictionary_;
  DualSimplex simplex_;
  std::vector<Violated> violated_;
  std::vector<std::uint8_t> touched_;             // [column]
  std::vector<double> safe_reduced_, magnitude_;  // [column]
};

/// Narrows the bounds of columns whose reduced cost is too high for more where the cost is less than `cutoff`.
inline void tighten_bounds(CoveringRelaxation& relaxation, double cutoff) {
  const double room = cutoff - relaxation.safe_bound();
  for (std::size_t j = 0; j < relaxation.point().size(); ++j) {
    const double reduced = relaxation.safe_reduced_costs()[j];
    const double lower = relaxation.lower(j), upper = relaxation.upper(j);
    if (std::abs(reduced) * (upper - lower) <= room) continue;
    const double units = std::floor(room / std::abs(reduced) + 1e-6);
    if (units >= upper - lower) continue;
    if (reduced > 0.0) relaxation.set_bounds(j, lower, lower + units);
    if (reduced < 0.0) relaxation.set_bounds(j, upper - units, upper);
  }
}

}  // namespace slimpack::detail
