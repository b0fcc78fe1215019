#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// Index of a variable of a model, in the order in which they were added.
using VariableId = std::uint32_t;
/// Index of a row (a linear constraint) of a model, in the order in which they were added.
using RowId = std::uint32_t;

enum class VariableKind : std::uint8_t { continuous, integer, binary };
enum class Direction : std::uint8_t { minimise, maximise };

/// A coefficient times a variable.
struct Term {
  VariableId variable = 0;
  double coefficient = 0.0;

  friend bool operator==(const Term&, const Term&) = default;
};

/// A missing bound: `no_bound` as an upper one, `-no_bound` as a lower one.
inline constexpr double no_bound = std::numeric_limits<double>::infinity();

namespace detail {

/// A list of strings in one buffer.
class NameList {
 public:
  void add(std::string_view name) {
    text_ += name;
    ends_.push_back(text_.size());
  }
  [[nodiscard]] std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string text_;
  std::vector<std::size_t> ends_;
};

}  // namespace detail

/// A mixed-integer linear program, free of any solver:
///
///     minimise or maximise  constant + sum_j objective_j x_j
///     subject to            row_lower_i <= sum_j a_ij x_j <= row_upper_i   for every row i
///                           lower_j <= x_j <= upper_j                      for every variable j
///                           x_j integer                                    unless j is continuous
///
/// Everything is checked when it is added, so every model can be given to every back end. Numbers must have a
/// size that no solver takes for zero or infinity: coefficients are 0 or 1e-9 to 1e15 in magnitude, bounds
/// below 1e20 or infinite. Names may be empty, and need not be unique.
class MilpModel {
 public:
  /// @param lower, upper its bounds, possibly infinite. Those of an integer are rounded inwards; those of a
  /// binary lie within 0 to 1.
  /// @throws InvalidInput if a bound is NaN or too large, or no value lies within both. O(1).
  VariableId add_variable(std::string_view name, double lower, double upper,
                          VariableKind kind = VariableKind::continuous) {
    const auto id = static_cast<VariableId>(lower_.size());
    require(lower_.size() < most, "variable ", id, " is one too many; expected at most ", most);
    const auto shown = [&] { return shown_name("variable", id, name); };
    check_bounds(lower, upper, shown);
    if (kind != VariableKind::continuous) {
      const double least = std::ceil(lower) + 0.0, greatest = std::floor(upper);
      if (least > greatest)
        require(false, shown(), " is an integer from ", lower, " to ", upper, "; expected one in between");
      lower = least;
      upper = greatest;
    }
    if (kind == VariableKind::binary && (lower < 0.0 || upper > 1.0))
      require(false, shown(), " is binary from ", lower, " to ", upper, "; expected bounds within 0 to 1");
    lower_.push_back(lower);
    upper_.push_back(upper);
    kind_.push_back(kind);
    objective_.push_back(0.0);
    names_.add(name);
    return id;
  }

  /// A variable that is 0 or 1.
  VariableId add_binary(std::string_view name = {}) {
    return add_variable(name, 0.0, 1.0, VariableKind::binary);
  }

  /// Adds `lower <= sum of the terms <= upper`; equal bounds make an equation.
  /// @param terms each variable at most once, in any order; zero coefficients are left out.
  /// @throws InvalidInput if there is no bound, they cross, a variable does not exist or is named twice, or a
  /// number is NaN, infinite, too large or too small; the model is unchanged then. O(terms log terms).
  RowId add_row(std::string_view name, double lower, double upper, std::span<const Term> terms) {
    const auto id = static_cast<RowId>(row_lower_.size());
    require(row_lower_.size() < most, "row ", id, " is one too many; expected at most ", most);
    const auto shown = [&] { return shown_name("row", id, name); };
    check_bounds(lower, upper, shown);
    if (lower == -no_bound && upper == no_bound)
      require(false, shown(), " has no bound; expected at least one");
    const std::vector<Term> sorted = checked_terms(terms, shown);
    require(terms_.size() + sorted.size() <= most, "row ", id, " brings the number of terms above ", most);
    terms_.insert(terms_.end(), sorted.begin(), sorted.end());
    offsets_.push_back(terms_.size());
    row_lower_.push_back(lower);
    row_upper_.push_back(upper);
    row_names_.add(name);
    return id;
  }
  RowId add_row(std::string_view name, double lower, double upper, std::initializer_list<Term> terms) {
    return add_row(name, lower, upper, std::span<const Term>(terms.begin(), terms.size()));
  }

  /// Replaces the objective, which at first is to minimise 0.
  /// @throws InvalidInput like add_row; the model is unchanged then.
  void set_objective(Direction direction, std::span<const Term> terms, double constant = 0.0) {
    require(std::isfinite(constant), "the objective's constant is ", constant, "; expected a finite number");
    const std::vector<Term> sorted = checked_terms(terms, [] { return std::string("the objective"); });
    std::fill(objective_.begin(), objective_.end(), 0.0);
    for (const Term& term : sorted) objective_[term.variable] = term.coefficient;
    direction_ = direction;
    constant_ = constant;
  }
  void set_objective(Direction direction, std::initializer_list<Term> terms, double constant = 0.0) {
    set_objective(direction, std::span<const Term>(terms.begin(), terms.size()), constant);
  }

  /// A value for every variable, from which a solver may start. The solve checks whether it keeps the rows.
  /// An empty vector removes it.
  /// @throws InvalidInput if their number is wrong or one is not finite.
  void set_initial_solution(std::vector<double> values) {
    require(values.empty() || values.size() == variables(), "the initial solution has ", values.size(),
            " values; expected one for each of the ", variables(), " variables");
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (!std::isfinite(values[j]))
        require(false, "the initial value of ", variable_text(j), " is ", values[j],
                "; expected a finite number");
    }
    initial_ = std::move(values);
  }

  [[nodiscard]] std::size_t variables() const { return lower_.size(); }
  [[nodiscard]] std::size_t rows() const { return row_lower_.size(); }
  /// Number of non-zero coefficients of all rows.
  [[nodiscard]] std::size_t terms() const { return terms_.size(); }

  [[nodiscard]] std::span<const double> lower() const { return lower_; }
  [[nodiscard]] std::span<const double> upper() const { return upper_; }
  [[nodiscard]] std::span<const VariableKind> kinds() const { return kind_; }
  [[nodiscard]] bool is_integer(std::size_t variable) const {
    return kind_[variable] != VariableKind::continuous;
  }
  [[nodiscard]] bool has_integers() const {
    return std::any_of(kind_.begin(), kind_.end(),
                       [](auto kind) { return kind != VariableKind::continuous; });
  }
  /// The name given to a variable, possibly empty.
  [[nodiscard]] std::string_view variable_name(std::size_t variable) const { return names_[variable]; }
  /// How messages call a variable: its index, and its name if it has one.
  [[nodiscard]] std::string variable_text(std::size_t variable) const {
    return shown_name("variable", variable, names_[variable]);
  }

  [[nodiscard]] std::span<const double> row_lower() const { return row_lower_; }
  [[nodiscard]] std::span<const double> row_upper() const { return row_upper_; }
  /// Terms of a row, by increasing variable, none of them zero.
  [[nodiscard]] std::span<const Term> row(std::size_t row) const {
    return {terms_.data() + offsets_[row], terms_.data() + offsets_[row + 1]};
  }
  [[nodiscard]] std::string_view row_name(std::size_t row) const { return row_names_[row]; }
  [[nodiscard]] std::string row_text(std::size_t row) const {
    return shown_name("row", row, row_names_[row]);
  }

  [[nodiscard]] Direction direction() const { return direction_; }
  [[nodiscard]] bool minimises() const { return direction_ == Direction::minimise; }
  /// Coefficient of every variable.
  [[nodiscard]] std::span<const double> objective() const { return objective_; }
  [[nodiscard]] double objective_constant() const { return constant_; }

  /// Empty if there is none.
  [[nodiscard]] std::span<const double> initial_solution() const { return initial_; }

 private:
  static constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();

  static std::string shown_name(const char* what, std::size_t id, std::string_view name) {
    return name.empty() ? concat(what, " ", id) : concat(what, " ", id, " (", name, ")");
  }

  /// `shown` names the place; called only on failure.
  static void check_bounds(double lower, double upper, auto&& shown) {
    if (std::isnan(lower) || std::isnan(upper) || lower > upper || lower == no_bound || upper == -no_bound)
      require(false, shown(), " has the bounds ", lower, " and ", upper, "; expected two that don't cross");
    for (const double bound : {lower, upper}) {
      if (std::isfinite(bound) && std::abs(bound) >= 1e20)
        require(false, shown(), " has the bound ", bound,
                "; expected one below 1e20, or none: an infinite one");
    }
  }

  /// The terms by increasing variable, without zeros.
  [[nodiscard]] std::vector<Term> checked_terms(std::span<const Term> terms, auto&& shown) const {
    std::vector<Term> sorted;
    sorted.reserve(terms.size());
    for (const Term& term : terms) {
      if (term.variable >= variables())
        require(false, shown(), " names variable ", term.variable, "; expected less than the ", variables(),
                " variables");
      if (term.coefficient == 0.0) continue;
      const double size = std::abs(term.coefficient);
      if (!(size >= 1e-9 && size < 1e15))
        require(false, shown(), " has the coefficient ", term.coefficient, " of ",
                variable_text(term.variable), "; expected 0, or 1e-9 to 1e15 in magnitude");
      sorted.push_back(term);
    }
    const auto before = [](const Term& a, const Term& b) { return a.variable < b.variable; };
    if (!std::is_sorted(sorted.begin(), sorted.end(), before))
      std::sort(sorted.begin(), sorted.end(), before);
    const auto twice = std::adjacent_find(
        sorted.begin(), sorted.end(), [](const Term& a, const Term& b) { return a.variable == b.variable; });
    if (twice != sorted.end())
      require(false, shown(), " names ", variable_text(twice->variable), " twice; expected one term");
    return sorted;
  }

  detail::NameList names_;
  std::vector<double> lower_, upper_, objective_;  // [variable]
  std::vector<VariableKind> kind_;                 // [variable]
  detail::NameList row_names_;
  std::vector<double> row_lower_, row_upper_;  // [row]
  std::vector<std::size_t> offsets_{0};        // [row] of its terms, and their end
  std::vector<Term> terms_;
  Direction direction_ = Direction::minimise;
  double constant_ = 0.0;
  std::vector<double> initial_;
};

}  // namespace slimpack
