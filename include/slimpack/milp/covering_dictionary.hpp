#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/milp/covering_program.hpp"
#include "slimpack/milp/covering_table.hpp"

namespace slimpack::detail {

/// The dictionary of a linear program with bounded columns: each basic variable, and the cost, as a function of
/// the nonbasic ones, which lie at a bound.
///
/// Ids below the number of columns are columns, others the surplus of a row, which is at least 0. A copy
/// remembers the basis.
class SimplexDictionary {
 public:
  /// All columns are at their lower bounds, 0. @param cost none negative.
  SimplexDictionary(std::span<const double> cost, std::span<const double> upper)
      : table_(cost),
        lower_(columns(), 0.0),
        upper_(upper.begin(), upper.end()),
        point_(columns(), 0.0),
        at_upper_(columns(), 0) {
    for (std::uint32_t j = 0; j < columns(); ++j) {
      nonbasic_.push_back(j);
      place_.push_back(j);
    }
  }

  [[nodiscard]] std::size_t columns() const { return table_.columns(); }
  [[nodiscard]] double lower(std::size_t id) const { return id < columns() ? lower_[id] : 0.0; }
  [[nodiscard]] double upper(std::size_t id) const {
    return id < columns() ? upper_[id] : std::numeric_limits<double>::infinity();
  }
  /// Of the columns; after the last `update_point`.
  [[nodiscard]] std::span<const double> point() const { return point_; }
  [[nodiscard]] const SimplexTable& table() const { return table_; }

  /// The ids of the basic variables.
  [[nodiscard]] std::span<const std::uint32_t> basic() const { return basic_; }
  [[nodiscard]] double value(std::size_t r) const { return value_[r]; }
  /// How far basic variable `r` is outside of its bounds; negative inside.
  [[nodiscard]] double outside(std::size_t r) const {
    return std::max(lower(basic_[r]) - value_[r], value_[r] - upper(basic_[r]));
  }
  [[nodiscard]] bool is_basic(std::size_t column) const { return place_[column] >= columns(); }
  /// Of a basic column.
  [[nodiscard]] std::size_t basic_place(std::size_t column) const { return place_[column] - columns(); }

  /// The ids of the nonbasic variables.
  [[nodiscard]] std::span<const std::uint32_t> nonbasic() const { return nonbasic_; }
  [[nodiscard]] bool at_upper(std::size_t q) const { return at_upper_[q] != 0; }
  [[nodiscard]] bool is_fixed(std::size_t q) const {
    return nonbasic_[q] < columns() && lower_[nonbasic_[q]] == upper_[nonbasic_[q]];
  }
  [[nodiscard]] bool contains(std::uint32_t id) const {
    return std::find(basic_.begin(), basic_.end(), id) != basic_.end() ||
           std::find(nonbasic_.begin(), nonbasic_.end(), id) != nonbasic_.end();
  }

  void set_bounds(std::size_t column, double lower, double upper) {
    lower_[column] = lower;
    upper_[column] = upper;
    if (is_basic(column)) return;
    const std::size_t q = place_[column];
    at_upper_[q] =
        table_.reduced_costs()[q] < 0.0 ? 1 : 0;  // it may be otherwise while both bounds are equal
    const double value = at_upper(q) ? upper : lower;
    shift(q, value - point_[column]);
    point_[column] = value;
  }

  void update_point() {
    for (std::size_t r = 0; r < basic_.size(); ++r)
      if (basic_[r] < columns()) point_[basic_[r]] = value_[r];
    for (std::size_t q = 0; q < columns(); ++q)
      if (nonbasic_[q] < columns()) point_[nonbasic_[q]] = bound_of(q);
  }

  /// Adds a row as a basic variable. @param surplus its value at the point.
  void add_row(std::uint32_t id, std::span<const CoveringRows::Entry> entries, double surplus) {
    table_.add_row([&](std::span<double> added) {
      for (const auto& entry : entries) {
        if (!is_basic(entry.index)) {
          added[place_[entry.index]] += entry.coefficient;
        } else {
          const std::span<const double> other = table_.row(basic_place(entry.index));
          for (std::size_t k = 0; k < added.size(); ++k) added[k] += entry.coefficient * other[k];
        }
      }
    });
    basic_.push_back(id);
    value_.push_back(surplus);
  }

  /// Drops the rows that have room.
  void drop_slack_rows() {
    for (std::size_t r = basic_.size(); r-- > 0;) {
      if (basic_[r] < columns()) continue;
      table_.drop_row(r);
      basic_[r] = basic_.back();
      value_[r] = value_.back();
      basic_.pop_back();
      value_.pop_back();
      if (r < basic_.size()) place_basic(r);
    }
  }

  /// Moves a nonbasic column to its other bound.
  void flip(std::size_t q) {
    const double range = upper_[nonbasic_[q]] - lower_[nonbasic_[q]];
    shift(q, at_upper(q) ? -range : range);
    at_upper_[q] ^= 1;
  }

  /// Basic variable `r` leaves to the bound that it is beyond, and nonbasic variable `q` takes its place.
  void pivot(std::size_t r, std::size_t q) {
    const std::uint32_t out = basic_[r];
    const bool to_upper = value_[r] > upper(out);
    const double target = to_upper ? upper(out) : lower(out);
    const double change = (target - value_[r]) / table_.at(r, q);
    const double entered = bound_of(q) + change;
    shift(q, change);
    table_.pivot(r, q);
    double& reduced = table_.reduced_costs()[q];
    reduced = to_upper ? std::min(0.0, reduced)
                       : std::max(0.0, reduced);  // rounding may have given it the other sign
    basic_[r] = nonbasic_[q];
    value_[r] = entered;
    nonbasic_[q] = out;
    at_upper_[q] = to_upper ? 1 : 0;
    place_basic(r);
    if (out < columns()) place_[out] = static_cast<std::uint32_t>(q);
  }

 private:
  /// Where a nonbasic variable lies.
  [[nodiscard]] double bound_of(std::size_t q) const {
    return at_upper(q) ? upper(nonbasic_[q]) : lower(nonbasic_[q]);
  }
  /// Changes the value of a nonbasic variable.
  void shift(std::size_t q, double change) {
    if (change == 0.0) return;
    for (std::size_t r = 0; r < basic_.size(); ++r) value_[r] += table_.at(r, q) * change;
  }
  void place_basic(std::size_t r) {
    if (basic_[r] < columns()) place_[basic_[r]] = static_cast<std::uint32_t>(columns() + r);
  }

  SimplexTable table_;
  std::vector<double> lower_, upper_, point_;  // [column]
  std::vector<std::uint32_t> place_;           // [column] its nonbasic place, or the columns + its basic one
  std::vector<std::uint32_t> basic_;           // ids
  std::vector<double> value_;                  // [basic]
  std::vector<std::uint32_t> nonbasic_;        // ids
  std::vector<std::uint8_t> at_upper_;         // [nonbasic]
};

}  // namespace slimpack::detail
