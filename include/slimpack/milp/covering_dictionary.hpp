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

enum class SimplexEnd : std::uint8_t { optimal, infeasible, stopped };

/// The dictionary of a linear program with bounded columns: each basic variable, and the cost, as a function of
/// the nonbasic ones, which lie at a bound. Its dual simplex method minimises the cost.
///
/// Ids below the number of columns are columns, others the surplus of a row, which is at least 0. A copy
/// remembers the basis.
class SimplexDictionary {
 public:
  static constexpr std::size_t no_row = static_cast<std::size_t>(-1);
  static constexpr double feasible = 1e-7;  ///< how far a value may be outside of its bounds

  /// All columns are at their lower bounds, 0. @param cost none negative.
  SimplexDictionary(std::span<const double> cost, std::span<const double> upper)
      : columns_(cost.size()),
        stride_((columns_ + 3) / 4 * 4),
        lower_(columns_, 0.0),
        upper_(upper.begin(), upper.end()),
        point_(columns_, 0.0),
        reduced_(cost.begin(), cost.end()),
        at_upper_(columns_, 0) {
    reduced_.resize(stride_, 0.0);
    for (std::uint32_t j = 0; j < columns_; ++j) {
      nonbasic_.push_back(j);
      place_.push_back(j);
    }
  }

  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::span<const double> lower() const { return lower_; }
  [[nodiscard]] std::span<const double> upper() const { return upper_; }
  /// Of the columns; after the last `minimise`.
  [[nodiscard]] std::span<const double> point() const { return point_; }
  [[nodiscard]] std::span<const std::uint32_t> nonbasic() const { return nonbasic_; }
  /// Cost of one unit of each nonbasic variable.
  [[nodiscard]] std::span<const double> reduced() const { return {reduced_.data(), columns_}; }
  [[nodiscard]] std::int64_t pivots() const { return pivots_; }
  /// The basic variable that no point brings within its bounds, after an end as infeasible; or `no_row`.
  [[nodiscard]] std::size_t conflict() const { return conflict_; }
  [[nodiscard]] std::uint32_t basic_id(std::size_t r) const { return basic_[r]; }
  /// How basic variable `r` follows each nonbasic one.
  [[nodiscard]] std::span<const double> row(std::size_t r) const { return {row_of(r), columns_}; }
  [[nodiscard]] bool is_basic(std::size_t column) const { return place_[column] >= columns_; }
  /// Of a basic column.
  [[nodiscard]] std::size_t basic_place(std::size_t column) const { return place_[column] - columns_; }

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

  /// The dual simplex method. @param last the number of pivots at which it is `stopped`.
  SimplexEnd minimise(std::int64_t last) {
    const SimplexEnd end = run(last);
    read_point();
    return end;
  }

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
  [[nodiscard]] bool contains(std::uint32_t id) const {
    return std::find(basic_.begin(), basic_.end(), id) != basic_.end() ||
           std::find(nonbasic_.begin(), nonbasic_.end(), id) != nonbasic_.end();
  }

  /// Adds a row as a basic variable. @param surplus its value at the point.
  void add_row(std::uint32_t id, std::span<const CoveringRows::Entry> entries, double surplus) {
    const std::size_t r = basic_.size();
    dictionary_.resize((r + 1) * stride_);
    double* const added = row_of(r);
    std::fill_n(added, stride_, 0.0);
    for (const auto& entry : entries) {
      const std::size_t place = place_[entry.index];
      if (place < columns_) {
        added[place] += entry.coefficient;
      } else {
        const double* const other = row_of(place - columns_);
        for (std::size_t k = 0; k < columns_; ++k) added[k] += entry.coefficient * other[k];
      }
    }
    basic_.push_back(id);
    value_.push_back(surplus);
    double square = 0.0;
    for (std::size_t k = 0; k < columns_; ++k) square += added[k] * added[k];
    weight_.push_back(1.0 + square);
  }

  /// Drops the rows that have room.
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

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

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

  SimplexEnd run(std::int64_t last) {
    conflict_ = no_row;
    for (;;) {
      const std::size_t r = leaving();
      if (r == no_row) return SimplexEnd::optimal;
      if (pivots_ >= last) return SimplexEnd::stopped;
      ++pivots_;
      const std::size_t q = entering(r);
      if (q == no_row) {
        conflict_ = r;
        return SimplexEnd::infeasible;
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
      if (effect > 1e-7 && !is_fixed(q))
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

  struct Candidate {
    double ratio, effect;
    std::uint32_t column;
  };

  std::size_t columns_, stride_;
  std::vector<double> lower_, upper_, point_;  // [column]
  std::vector<std::uint32_t> place_;           // [column] its nonbasic place, or `columns_` + its basic one
  std::vector<double> dictionary_;             // [basic][nonbasic]
  std::vector<std::uint32_t> basic_;           // ids
  std::vector<double> value_, weight_;         // [basic]; weights are 1 + the sum of squares of a row
  std::vector<std::uint32_t> nonbasic_;        // ids
  std::vector<double> reduced_;                // [nonbasic]
  std::vector<std::uint8_t> at_upper_;         // [nonbasic]
  std::int64_t pivots_ = 0;
  std::size_t conflict_ = no_row;
  std::vector<Candidate> candidates_;
};

}  // namespace slimpack::detail
