#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/model.hpp"

namespace slimpack {

/// What a point breaks.
struct MilpViolation {
  enum class Kind : std::uint8_t { bound, integrality, row };

  Kind kind = Kind::row;
  std::size_t index = 0;  ///< of the variable or the row
  double value = 0.0;     ///< of the variable, or of the sum of the row's terms

  friend bool operator==(const MilpViolation&, const MilpViolation&) = default;
};

namespace detail {

inline void check_point_size(const MilpModel& model, std::span<const double> values) {
  require(values.size() == model.variables(), "the point has ", values.size(),
          " values; expected one for each of the ", model.variables(), " variables");
}

/// Whether a value lies outside of the bounds by more than the tolerance, or is NaN.
[[nodiscard]] inline bool outside(double value, double lower, double upper, double tolerance) {
  return !(value >= lower - tolerance && value <= upper + tolerance);
}

}  // namespace detail

/// The objective at a point, its constant included. O(variables).
/// @throws InvalidInput if the point does not have a value for every variable.
[[nodiscard]] inline double objective_value(const MilpModel& model, std::span<const double> values) {
  detail::check_point_size(model, values);
  double sum = model.objective_constant();
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (model.objective()[j] != 0.0) sum += model.objective()[j] * values[j];
  }
  return sum;
}

/// The first bound, integrality or row that a point breaks, or nothing if it is feasible.
/// @param tolerance how far a value may be off. For bounds and rows, relative to the largest of 1, the bound,
/// and the row's largest product of coefficient and value.
/// @throws InvalidInput if the point does not have a value for every variable. O(variables + terms).
[[nodiscard]] inline std::optional<MilpViolation> find_violation(const MilpModel& model,
                                                                 std::span<const double> values,
                                                                 double tolerance = 1e-6) {
  using Kind = MilpViolation::Kind;
  detail::check_point_size(model, values);
  const auto finite = [](double bound) { return std::isfinite(bound) ? std::abs(bound) : 0.0; };
  for (std::size_t j = 0; j < values.size(); ++j) {
    const double lower = model.lower()[j], upper = model.upper()[j], value = values[j];
    const double allowed = tolerance * std::max({1.0, finite(lower), finite(upper)});
    if (detail::outside(value, lower, upper, allowed) || !std::isfinite(value))
      return MilpViolation{Kind::bound, j, value};
    if (model.is_integer(j) && std::abs(value - std::round(value)) > tolerance)
      return MilpViolation{Kind::integrality, j, value};
  }
  for (std::size_t i = 0; i < model.rows(); ++i) {
    const double lower = model.row_lower()[i], upper = model.row_upper()[i];
    double sum = 0.0, scale = std::max({1.0, finite(lower), finite(upper)});
    for (const Term& term : model.row(i)) {
      const double product = term.coefficient * values[term.variable];
      sum += product;
      scale = std::max(scale, std::abs(product));
    }
    if (detail::outside(sum, lower, upper, tolerance * scale)) return MilpViolation{Kind::row, i, sum};
  }
  return std::nullopt;
}

/// A violation in words: its place, the value, and what would be accepted.
[[nodiscard]] inline std::string describe(const MilpModel& model, const MilpViolation& violation) {
  using Kind = MilpViolation::Kind;
  const std::size_t i = violation.index;
  if (violation.kind == Kind::integrality)
    return concat(model.variable_text(i), " is ", violation.value, "; expected an integer");
  const bool row = violation.kind == Kind::row;
  const double lower = row ? model.row_lower()[i] : model.lower()[i];
  const double upper = row ? model.row_upper()[i] : model.upper()[i];
  return concat(row ? model.row_text(i) : model.variable_text(i), " is ", violation.value, "; expected ",
                lower, " to ", upper);
}

}  // namespace slimpack
