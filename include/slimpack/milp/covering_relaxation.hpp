#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/milp/covering_program.hpp"

namespace slimpack::detail {

/// The linear relaxation of a covering program: minimise cost x over bounds and rows, by the dual simplex
/// method on a dense dictionary. It holds only rows that some point has violated, and drops them again when
/// they have room, so that the dictionary has about as many rows as there are fractional columns.
///
/// Bounds and rows may change between solves; each goes on from the dictionary of the last one. A copy
/// remembers a dictionary.
class CoveringRelaxation {
 public:
  enum class Status : std::uint8_t { optimal, infeasible, stopped };

  /// @param rows of the program and valid inequalities of any sign; they may be added to later on.
  CoveringRelaxation(std::span<const double> cost, std::span<const double> upper, const CoveringRows& rows)
      : cost_(cost),
        rows_(&rows),
        columns_(cost.size()),
        stride_((columns_ + 3) / 4 * 4),
        lower_(columns_, 0.0) {
    upper_.assign(upper.begin(), upper.end());
    reduced_.assign(cost.begin(), cost.end());
    reduced_.resize(stride_, 0.0);
    point_.assign(columns_, 0.0);
    at_upper_.assign(columns_, 0);
    place_.resize(columns_);
    for (std::uint32_t j = 0; j < columns_; ++j) {
      nonbasic_.push_back(j);
      place_[j] = j;
    }
  }

  [[nodiscard]] double lower(std::size_t column) const { return lower_[column]; }
  [[nodiscard]] double upper(std::size_t column) const { return upper_[column]; }
  /// Of the last solve; not exact.
  [[nodiscard]] std::span<const double> point() const { return point_; }
  [[nodiscard]] std::int64_t pivots() const { return pivots_; }

  void set_bounds(std::size_t column, double lower, double upper) {
    lower_[column] = lower;
    upper_[column] = upper;
    if (is_basic(column)) return;
    const std::size_t q = place_[column];
    at_upper_[q] = reduced_[q] < 0.0 ? 1 : 0;  // it may be otherwise while both bounds are equal
    const double value = at_upper_[q] != 0 ? upper : lower;
    shift(q, value - point_[column]);
    point_[column] = value;
  }

  /// Solves the program with the present bounds and rows. @param most_pivots before it is `stopped`.
  Status solve(std::int64_t most_pivots) {
    const std::int64_t last = pivots_ + most_pivots;
    for (;;) {
      const Status status = run_simplex(last);
      read_point();
      if (status != Status::optimal) return status;
      if (!add_violated_rows()) break;
    }
    drop_slack_rows();
    return Status::optimal;
  }

  /// A lower bound on the cost of every point within the bounds, by the multipliers of the rows in the
  /// dictionary; proven whatever rounding did to them, because any multipliers of 0 or more give one.
  [[nodiscard]] double safe_bound() {
    return lagrangian(
        1.0, [&](std::size_t q) { return std::max(0.0, reduced_[q]); }, no_row);
  }

  /// Whether the last solve's claim that there is no point holds up to rounding.
  [[nodiscard]] bool is_proven_infeasible() {
    if (conflict_ == no_row) return false;
    const double* const row = row_of(conflict_);
    return lagrangian(
               0.0, [&](std::size_t q) { return std::abs(row[q]); }, conflict_) > 0.0;
  }

  /// Cost of one unit of a column more (at its lower bound) or less (at its upper one), by the reduced costs
  /// of the last `safe_bound`: to use it in a proof is safe.
  [[nodiscard]] std::span<const double> safe_reduced_costs() const { return safe_reduced_; }

  /// How much the cost rises at least, by the next step of the dual simplex method, if a fractional basic
  /// column is rounded down or up. An estimate.
  struct Penalty {
    double down = 0.0, up = 0.0;
  };
  [[nodiscard]] Penalty penalty(std::size_t column) const {
    const std::size_t r = place_[column] - columns_;
    const double* const row = row_of(r);
    const double down = value_[r] - std::floor(value_[r]);
    double least_down = infinity, least_up = infinity;
    for (std::size_t q = 0; q < columns_; ++q) {
      if (std::abs(row[q]) < 1e-9 || is_fixed(q)) continue;
      const double ratio = std::abs(reduced_[q] / row[q]);
      double& least = (row[q] > 0.0) == (at_upper_[q] == 0) ? least_up : least_down;
      least = std::min(least, ratio);
    }
    return {least_down * down, least_up * (1.0 - down)};
  }
  [[nodiscard]] bool is_basic(std::size_t column) const { return place_[column] >= columns_; }

  /// Calls `visit(row, multiplier)` for the rows that the optimum keeps with equality: with their multipliers
  /// in the proof of the optimum; or, for a basic column, in the equation that gives it from nonbasic ones.
  template <class Visit>
  void for_each_tight_row(Visit&& visit) const {
    for (std::size_t q = 0; q < columns_; ++q)
      if (nonbasic_[q] >= columns_) visit(nonbasic_[q] - columns_, reduced_[q]);
  }
  template <class Visit>
  void for_each_tight_row(std::size_t column, Visit&& visit) const {
    const double* const row = row_of(place_[column] - columns_);
    for (std::size_t q = 0; q < columns_; ++q)
      if (nonbasic_[q] >= columns_ && std::abs(row[q]) > 1e-9) visit(nonbasic_[q] - columns_, row[q]);
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr std::size_t no_row = static_cast<std::size_t>(-1);
  static constexpr double feasible = 1e-7;

  // Ids below `columns_` are columns, others are the surplus of a row.
  [[nodiscard]] double least(std::uint32_t id) const { return id < columns_ ? lower_[id] : 0.0; }
  [[nodiscard]] double most(std::uint32_t id) const { return id < columns_ ? upper_[id] : infinity; }
  [[nodiscard]] bool is_fixed(std::size_t q) const {
    return nonbasic_[q] < columns_ && lower_[nonbasic_[q]] == upper_[nonbasic_[q]];
  }

  // Rows of the dictionary are padded to a multiple of 4, which compilers turn into vector instructions.
  [[nodiscard]] double* row_of(std::size_t r) { return dictionary_.data() + r * stride_; }
  [[nodiscard]] const double* row_of(std::size_t r) const { return dictionary_.data() + r * stride_; }

  /// Changes the value of a nonbasic variable.
  void shift(std::size_t q, double change) {
    if (change == 0.0) return;
    for (std::size_t r = 0; r < basic_.size(); ++r) value_[r] += dictionary_[r * stride_ + q] * change;
  }

  void read_point() {
    for (std::size_t r = 0; r < basic_.size(); ++r)
      if (basic_[r] < columns_) point_[basic_[r]] = value_[r];
    for (std::size_t q = 0; q < columns_; ++q)
      if (nonbasic_[q] < columns_) {
        const std::uint32_t j = nonbasic_[q];
        point_[j] = at_upper_[q] != 0 ? upper_[j] : lower_[j];
      }
  }

  [[nodiscard]] std::size_t leaving() const {
    std::size_t worst = no_row;
    double most_outside = 0.0;
    for (std::size_t r = 0; r < basic_.size(); ++r) {
      const double outside = std::max(least(basic_[r]) - value_[r], value_[r] - most(basic_[r]));
      if (outside <= feasible) continue;
      const double score = outside * outside / weight_[r];
      if (score > most_outside) {
        most_outside = score;
        worst = r;
      }
    }
    return worst;
  }

  Status run_simplex(std::int64_t last) {
    conflict_ = no_row;
    for (;;) {
      const std::size_t r = leaving();
      if (r == no_row) return Status::optimal;
      if (pivots_ >= last) return Status::stopped;
      ++pivots_;
      const std::size_t q = entering(r);
      if (q == no_row) {
        conflict_ = r;
        return Status::infeasible;
      }
      pivot(r, q);
    }
  }

  /// The nonbasic variable that takes the place of basic row `r`: the least ratio of the dual simplex method,
  /// after flipping those to their other bound that make no difference to who is optimal.
  [[nodiscard]] std::size_t entering(std::size_t r) {
    const double* const row = row_of(r);
    const bool rises = value_[r] < least(basic_[r]);
    double outside = rises ? least(basic_[r]) - value_[r] : value_[r] - most(basic_[r]);
    candidates_.clear();
    for (std::size_t q = 0; q < columns_; ++q) {
      const double effect = (at_upper_[q] != 0) == rises ? -row[q] : row[q];
      if (effect > 1e-9 && !is_fixed(q))
        candidates_.push_back({std::abs(reduced_[q]) / effect, effect, static_cast<std::uint32_t>(q)});
    }
    const auto later = [](const Candidate& a, const Candidate& b) {
      return a.ratio != b.ratio ? a.ratio > b.ratio : a.effect < b.effect;
    };
    std::make_heap(candidates_.begin(), candidates_.end(), later);
    while (!candidates_.empty()) {
      const Candidate next = candidates_.front();
      const std::uint32_t id = nonbasic_[next.column];
      outside -= next.effect * (most(id) - least(id));
      if (outside <= 0.0) return next.column;
      std::pop_heap(candidates_.begin(), candidates_.end(), later);
      candidates_.pop_back();
      flip(next.column);
    }
    return no_row;
  }

  void flip(std::size_t q) {
    const std::uint32_t j = nonbasic_[q];
    const double range = upper_[j] - lower_[j];
    shift(q, at_upper_[q] != 0 ? -range : range);
    at_upper_[q] ^= 1;
  }

  void pivot(std::size_t r, std::size_t q) {
    const std::uint32_t out = basic_[r], in = nonbasic_[q];
    double* const row = row_of(r);
    const bool to_upper = value_[r] > most(out);
    const double target = to_upper ? most(out) : least(out);
    const double change = (target - value_[r]) / row[q];
    const double entered = (at_upper_[q] != 0 ? most(in) : least(in)) + change;
    shift(q, change);
    // basic = ... + e nonbasic becomes nonbasic = ... + basic / e.
    const double inverse = 1.0 / row[q];
    row[q] = -1.0;
    double square = 0.0;
    for (std::size_t k = 0; k < columns_; ++k) {
      row[k] *= -inverse;
      square += row[k] * row[k];
    }
    weight_[r] = 1.0 + square;
    for (std::size_t i = 0; i < basic_.size(); ++i) {
      double* const other = row_of(i);
      if (i != r && other[q] != 0.0) weight_[i] = 1.0 + add_multiple(other, row, q);
    }
    add_multiple(reduced_.data(), row, q);
    reduced_[q] = to_upper ? std::min(0.0, reduced_[q]) : std::max(0.0, reduced_[q]);
    basic_[r] = in;
    value_[r] = entered;
    nonbasic_[q] = out;
    at_upper_[q] = to_upper ? 1 : 0;
    if (in < columns_) place_[in] = static_cast<std::uint32_t>(columns_ + r);
    if (out < columns_) place_[out] = static_cast<std::uint32_t>(q);
  }

  /// Substitutes the nonbasic variable `q` of a row by the pivot row; returns the sum of squares.
  double add_multiple(double* __restrict other, const double* __restrict row, std::size_t q) const {
    const double factor = other[q];
    other[q] = 0.0;
    double square0 = 0.0, square1 = 0.0, square2 = 0.0, square3 = 0.0;
    for (std::size_t k = 0; k < stride_; k += 4) {
      const double a = other[k] + factor * row[k], b = other[k + 1] + factor * row[k + 1];
      const double c = other[k + 2] + factor * row[k + 2], d = other[k + 3] + factor * row[k + 3];
      other[k] = a;
      other[k + 1] = b;
      other[k + 2] = c;
      other[k + 3] = d;
      square0 += a * a;
      square1 += b * b;
      square2 += c * c;
      square3 += d * d;
    }
    return square0 + square1 + square2 + square3;
  }

  /// Adds rows that the point violates, the most violated first, but no two that overlap much: the second
  /// one is often kept once the first is. False if none is violated.
  bool add_violated_rows() {
    violated_.clear();
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      const double surplus = rows_->surplus(i, point_);
      if (surplus < -feasible) violated_.push_back({surplus, static_cast<std::uint32_t>(i)});
    }
    std::sort(violated_.begin(), violated_.end(), [](const Violated& a, const Violated& b) {
      return a.surplus != b.surplus ? a.surplus < b.surplus : a.row < b.row;
    });
    touched_.assign(columns_, 0);
    bool added = false;
    for (const Violated& next : violated_) {
      const auto entries = (*rows_)[next.row];
      std::size_t shared = 0;
      for (const auto& entry : entries) shared += touched_[entry.index];
      if (2 * shared > entries.size() || in_dictionary(next.row)) continue;
      for (const auto& entry : entries) touched_[entry.index] = 1;
      add_row(next.row, next.surplus);
      added = true;
    }
    return added;
  }

  [[nodiscard]] bool in_dictionary(std::uint32_t row) const {
    const auto id = static_cast<std::uint32_t>(columns_ + row);
    return std::find(basic_.begin(), basic_.end(), id) != basic_.end() ||
           std::find(nonbasic_.begin(), nonbasic_.end(), id) != nonbasic_.end();
  }

  void add_row(std::uint32_t row, double surplus) {
    const std::size_t r = basic_.size();
    dictionary_.resize((r + 1) * stride_);
    double* const added = row_of(r);
    std::fill_n(added, stride_, 0.0);
    for (const auto& entry : (*rows_)[row]) {
      const std::size_t place = place_[entry.index];
      if (place < columns_) {
        added[place] += entry.coefficient;
      } else {
        const double* const other = row_of(place - columns_);
        for (std::size_t k = 0; k < columns_; ++k) added[k] += entry.coefficient * other[k];
      }
    }
    basic_.push_back(static_cast<std::uint32_t>(columns_ + row));
    value_.push_back(surplus);
    double square = 0.0;
    for (std::size_t k = 0; k < columns_; ++k) square += added[k] * added[k];
    weight_.push_back(1.0 + square);
  }

  void drop_slack_rows() {
    for (std::size_t r = basic_.size(); r-- > 0;) {
      if (basic_[r] < columns_) continue;
      const std::size_t last = basic_.size() - 1;
      if (r != last) {
        std::copy_n(row_of(last), stride_, row_of(r));
        basic_[r] = basic_[last];
        value_[r] = value_[last];
        weight_[r] = weight_[last];
        if (basic_[r] < columns_) place_[basic_[r]] = static_cast<std::uint32_t>(columns_ + r);
      }
      basic_.pop_back();
      value_.pop_back();
      weight_.pop_back();
      dictionary_.resize(last * stride_);
    }
  }

  /// Least of `scale * cost x - sum of multipliers (row x - rhs)` within the bounds, less what rounding may
  /// have added.
  template <class Multiplier>
  double lagrangian(double scale, Multiplier&& multiplier, std::size_t extra) {
    safe_reduced_.resize(columns_);
    double sum = 0.0, size = 0.0, count = static_cast<double>(columns_);
    for (std::size_t j = 0; j < columns_; ++j) safe_reduced_[j] = scale * cost_[j];
    magnitude_.assign(safe_reduced_.begin(), safe_reduced_.end());
    const auto use = [&](std::uint32_t id, double factor) {
      if (id < columns_ || factor == 0.0) return;
      const std::size_t row = id - columns_;
      sum += factor * rows_->rhs(row);
      size += std::abs(factor * rows_->rhs(row));
      count += 1.0;
      for (const auto& entry : (*rows_)[row]) {
        safe_reduced_[entry.index] -= factor * entry.coefficient;
        magnitude_[entry.index] += std::abs(factor * entry.coefficient);
      }
    };
    for (std::size_t q = 0; q < columns_; ++q) use(nonbasic_[q], multiplier(q));
    if (extra != no_row) use(basic_[extra], 1.0);
    const double rounding = 4.0 * count * std::numeric_limits<double>::epsilon();
    for (std::size_t j = 0; j < columns_; ++j) {
      const double least_reduced = safe_reduced_[j] - rounding * magnitude_[j];
      const double term = least_reduced * (least_reduced > 0.0 ? lower_[j] : upper_[j]);
      sum += term;
      size += std::abs(term);
    }
    return sum - rounding * size;
  }

  struct Candidate {
    double ratio, effect;
    std::uint32_t column;
  };
  struct Violated {
    double surplus;
    std::uint32_t row;
  };

  std::span<const double> cost_;
  const CoveringRows* rows_;
  std::size_t columns_, stride_;
  std::vector<double> lower_, upper_, point_;  // [column]
  std::vector<std::uint32_t> place_;           // [column] its nonbasic place, or `columns_` + its basic one
  std::vector<double> dictionary_;       // [basic][nonbasic]: how a basic variable follows a nonbasic one
  std::vector<std::uint32_t> basic_;     // ids
  std::vector<double> value_, weight_;   // [basic]; weights are 1 + the sum of squares of a row
  std::vector<std::uint32_t> nonbasic_;  // ids
  std::vector<double> reduced_;          // [nonbasic] reduced cost
  std::vector<std::uint8_t> at_upper_;   // [nonbasic]
  std::int64_t pivots_ = 0;
  std::size_t conflict_ = no_row;
  std::vector<Candidate> candidates_;
  std::vector<Violated> violated_;
  std::vector<std::uint8_t> touched_;
  std::vector<double> safe_reduced_, magnitude_;  // [column]
};

}  // namespace slimpack::detail
