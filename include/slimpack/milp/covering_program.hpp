#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/model.hpp"

namespace slimpack::detail {

/// Rows `sum a_j x_j >= rhs` in one buffer, by increasing column.
class CoveringRows {
 public:
  struct Entry {
    std::uint32_t index = 0;  ///< of the column, or of the row in a list of columns
    double coefficient = 0.0;
  };

  void add(std::span<const Entry> entries, double rhs) {
    entries_.insert(entries_.end(), entries.begin(), entries.end());
    offsets_.push_back(entries_.size());
    rhs_.push_back(rhs);
  }
  [[nodiscard]] std::size_t size() const { return rhs_.size(); }
  [[nodiscard]] std::span<const Entry> operator[](std::size_t row) const {
    return {entries_.data() + offsets_[row], entries_.data() + offsets_[row + 1]};
  }
  [[nodiscard]] double rhs(std::size_t row) const { return rhs_[row]; }
  /// What a point has beyond the row's right-hand side.
  [[nodiscard]] double surplus(std::size_t row, std::span<const double> point) const {
    double sum = -rhs_[row];
    for (const Entry& entry : (*this)[row]) sum += entry.coefficient * point[entry.index];
    return sum;
  }

 private:
  std::vector<Entry> entries_;
  std::vector<std::size_t> offsets_{0};
  std::vector<double> rhs_;
};

/// A covering program in normal form: minimise sum of cost_j x_j over integers 0 <= x_j <= upper_j, with
/// positive costs and rows of positive coefficients and right-hand sides, of which the largest coefficient is
/// 1. Right-hand sides are lowered by 1e-9 of their row's size, so that a row that holds up to rounding
/// holds.
struct CoveringProgram {
  std::vector<double> cost, upper;    ///< [column]
  CoveringRows rows;                  ///< each with at least one entry
  std::vector<std::size_t> variable;  ///< [column] of the model
  std::vector<double> base;           ///< [variable] the value that a column of 0 stands for
  double cost_unit = 1.0;             ///< the model's cost of a cost of 1
  double step = 0.0;                  ///< objectives are multiples of this; 0 if not known
  bool infeasible = false;

  [[nodiscard]] std::size_t columns() const { return cost.size(); }

  /// The smallest objective that is possible and at least the bound.
  [[nodiscard]] double rounded_up(double bound) const {
    return step == 0.0 ? bound : std::ceil(bound / step - 1e-9) * step;
  }
  [[nodiscard]] double objective(std::span<const double> point) const {
    return std::inner_product(point.begin(), point.end(), cost.begin(), 0.0);
  }
};

/// The rows of each column, with its coefficients.
[[nodiscard]] inline std::vector<std::vector<CoveringRows::Entry>> entries_by_column(
    const CoveringProgram& program) {
  std::vector<std::vector<CoveringRows::Entry>> lists(program.columns());
  for (std::uint32_t i = 0; i < program.rows.size(); ++i)
    for (const auto& entry : program.rows[i]) lists[entry.index].push_back({i, entry.coefficient});
  return lists;
}

/// @throws InvalidInput naming the first thing that no covering program has.
inline void require_covering(const MilpModel& model) {
  require(model.minimises(),
          "the objective is to be maximised; expected a covering program, which minimises");
  for (std::size_t j = 0; j < model.variables(); ++j) {
    if (!model.is_integer(j))
      require(false, model.variable_text(j), " is continuous; expected an integer of a covering program");
    if (!std::isfinite(model.lower()[j]) || !std::isfinite(model.upper()[j]))
      require(false, model.variable_text(j), " has the bounds ", model.lower()[j], " and ", model.upper()[j],
              "; expected finite ones in a covering program");
    if (model.objective()[j] < 0.0)
      require(false, model.variable_text(j), " has the cost ", model.objective()[j],
              "; expected 0 or more in a covering program");
  }
  for (std::size_t i = 0; i < model.rows(); ++i) {
    if (model.row_upper()[i] != no_bound)
      require(false, model.row_text(i), " has the upper bound ", model.row_upper()[i],
              "; expected a lower bound alone in a covering program");
    for (const Term& term : model.row(i)) {
      if (term.coefficient < 0.0)
        require(false, model.row_text(i), " has the coefficient ", term.coefficient, " of ",
                model.variable_text(term.variable), "; expected 0 or more in a covering program");
    }
  }
}

/// Largest number that divides all costs, which are scaled so that equal ones are 1; 0 if they are not
/// integers.
[[nodiscard]] inline double cost_step(std::span<const double> cost) {
  std::int64_t step = 0;
  for (const double each : cost) {
    if (each != std::floor(each) || each > 1e9) return 0.0;
    step = std::gcd(step, static_cast<std::int64_t>(each));
  }
  return static_cast<double>(step);
}

/// Brings a model into normal form. Columns that no row needs stay at their lower bounds, free ones are
/// at their upper bounds, and no column is larger than what its rows can use.
/// @throws InvalidInput if the model is no covering program. O(terms).
class CoveringReader {
 public:
  explicit CoveringReader(const MilpModel& model) : model_(&model) { require_covering(model); }

  [[nodiscard]] CoveringProgram read() {
    const std::size_t variables = model_->variables();
    program_.base.assign(model_->lower().begin(), model_->lower().end());
    for (std::size_t j = 0; j < variables; ++j)
      if (model_->objective()[j] == 0.0) program_.base[j] = model_->upper()[j];
    useful_.assign(variables, 0.0);
    for (std::size_t i = 0; i < model_->rows(); ++i) note_use(i);
    column_.assign(variables, none);
    for (std::size_t j = 0; j < variables; ++j) add_column(j);
    for (std::size_t i = 0; i < model_->rows(); ++i) add_row(i);
    scale_costs();
    return std::move(program_);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;

  /// What the row needs beyond the base, less the tolerance.
  [[nodiscard]] double need(std::size_t row) const {
    const double bound = model_->row_lower()[row];
    double sum = bound, size = std::abs(bound);
    for (const Term& term : model_->row(row)) {
      const double product = term.coefficient * program_.base[term.variable];
      sum -= product;
      size = std::max(size, std::abs(product));
    }
    return sum - 1e-9 * size;
  }

  void note_use(std::size_t row) {
    const double needed = need(row);
    if (needed <= 0.0) return;
    for (const Term& term : model_->row(row)) {
      double units = std::ceil(needed / term.coefficient);
      if (units * term.coefficient < needed) units += 1.0;
      useful_[term.variable] = std::max(useful_[term.variable], units);
    }
  }

  void add_column(std::size_t variable) {
    const double upper = std::min(useful_[variable], model_->upper()[variable] - program_.base[variable]);
    if (upper <= 0.0) return;
    if (upper > 9007199254740992.0)
      require(false, model_->variable_text(variable), " may need ", upper,
              " units to cover a row; expected at most 2^53 in a covering program");
    column_[variable] = static_cast<std::uint32_t>(program_.columns());
    program_.cost.push_back(model_->objective()[variable]);
    program_.upper.push_back(upper);
    program_.variable.push_back(variable);
  }

  void add_row(std::size_t row) {
    const double needed = need(row);
    if (needed <= 0.0) return;
    double reachable = 0.0, largest = 0.0;
    entries_.clear();
    for (const Term& term : model_->row(row)) {
      if (column_[term.variable] == none) continue;
      const double coefficient = std::min(term.coefficient, needed);
      entries_.push_back({column_[term.variable], coefficient});
      reachable += coefficient * program_.upper[column_[term.variable]];
      largest = std::max(largest, coefficient);
    }
    if (reachable < needed) program_.infeasible = true;
    if (entries_.empty()) return;
    for (CoveringRows::Entry& entry : entries_) entry.coefficient /= largest;
    program_.rows.add(entries_, needed / largest);
  }

  void scale_costs() {
    std::vector<double>& cost = program_.cost;
    if (cost.empty()) return;
    const auto [least, most] = std::minmax_element(cost.begin(), cost.end());
    if (*least == *most) {
      program_.cost_unit = *least;
      std::fill(cost.begin(), cost.end(), 1.0);
    }
    program_.step = cost_step(cost);
  }

  const MilpModel* model_;
  CoveringProgram program_;
  std::vector<double> useful_;         // [variable] most units that any row can use
  std::vector<std::uint32_t> column_;  // [variable]
  std::vector<CoveringRows::Entry> entries_;
};

}  // namespace slimpack::detail
