#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/digits.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/names.hpp"

namespace slimpack {

namespace detail {

/// What both formats share: a model and its names in a file.
class ModelWriter {
 protected:
  explicit ModelWriter(const MilpModel& model)
      : model_(model), constant_(model.objective_constant() != 0.0 || model.variables() == 0) {
    std::vector<std::string> variables, rows;
    for (std::size_t j = 0; j < model.variables(); ++j) variables.emplace_back(model.variable_name(j));
    for (std::size_t i = 0; i < model.rows(); ++i) rows.emplace_back(model.row_name(i));
    // A format without ranges has two rows for a range; the second ones come after all others.
    for (std::size_t i = 0; i < model.rows(); ++i) {
      second_.push_back(rows.size());
      if (is_range(i)) rows.push_back(rows[i].empty() ? concat("r", i, "_low") : rows[i] + "_low");
    }
    variables_ = unique_names(variables, 'x', "one");
    rows_ = unique_names(rows, 'r', "objective");
  }

  [[nodiscard]] bool is_range(std::size_t i) const {
    const double lower = model_.row_lower()[i], upper = model_.row_upper()[i];
    return std::isfinite(lower) && std::isfinite(upper) && lower != upper;
  }
  void add(std::string_view text) { out_ += text; }
  void add(double value) { append_digits(out_, value); }

  const MilpModel& model_;
  std::vector<std::string> variables_, rows_;
  std::vector<std::size_t> second_;  // [row] name of a range's lower side
  // Readers disagree about the sign of a constant; a variable `one` means the same to all of them.
  bool constant_;
  std::string out_;
};

class LpWriter : ModelWriter {
 public:
  explicit LpWriter(const MilpModel& model) : ModelWriter(model) {}

  std::string write() {
    add(model_.minimises() ? "Minimize\n objective:" : "Maximize\n objective:");
    terms_ = 0;
    for (std::size_t j = 0; j < model_.variables(); ++j) {
      if (model_.objective()[j] != 0.0) add_term(model_.objective()[j], variables_[j]);
    }
    if (constant_) add_term(model_.objective_constant(), "one");
    if (terms_ == 0) add_term(0.0, anything());
    add("\nSubject To\n");
    for (std::size_t i = 0; i < model_.rows(); ++i) add_row(i);
    if (model_.rows() == 0) add(concat(" none: 0 ", anything(), " >= -1\n"));
    add("Bounds\n");
    for (std::size_t j = 0; j < model_.variables(); ++j) add_bounds(j);
    if (constant_) add(" one = 1\n");
    add_list("Generals\n", [&](std::size_t j) { return model_.is_integer(j) && !is_plain_binary(j); });
    add_list("Binaries\n", [&](std::size_t j) { return is_plain_binary(j); });
    add("End\n");
    return std::move(out_);
  }

 private:
  /// Any variable, for a place that needs one.
  [[nodiscard]] std::string anything() const { return model_.variables() > 0 ? variables_[0] : "one"; }
  /// Being in the list of binaries implies bounds, so fixed ones are written as integers.
  [[nodiscard]] bool is_plain_binary(std::size_t j) const {
    return model_.kinds()[j] == VariableKind::binary && model_.lower()[j] == 0.0 && model_.upper()[j] == 1.0;
  }

  /// Some readers accept no more than 255 characters per line.
  void add_term(double coefficient, const std::string& name) {
    if (terms_ > 0 && terms_ % 2 == 0) add("\n ");
    ++terms_;
    add(coefficient < 0.0 ? " - " : " + ");
    add(std::abs(coefficient));
    add(" ");
    add(name);
  }

  void add_row(std::size_t i) {
    const double lower = model_.row_lower()[i], upper = model_.row_upper()[i];
    if (lower == upper) {
      add_side(i, rows_[i], " = ", lower);
    } else {
      if (std::isfinite(upper)) add_side(i, rows_[i], " <= ", upper);
      if (std::isfinite(lower)) add_side(i, rows_[is_range(i) ? second_[i] : i], " >= ", lower);
    }
  }
  void add_side(std::size_t i, const std::string& name, const char* relation, double side) {
    add(concat(" ", name, ":"));
    terms_ = 0;
    for (const Term& term : model_.row(i)) add_term(term.coefficient, variables_[term.variable]);
    if (terms_ == 0) add_term(0.0, anything());
    add(relation);
    add(side);
    add("\n");
  }

  void add_bounds(std::size_t j) {
    const double lower = model_.lower()[j], upper = model_.upper()[j];
    if (is_plain_binary(j)) return;
    if (lower == -no_bound && upper == no_bound) return add(concat(" ", variables_[j], " free\n"));
    add(" ");
    if (lower == -no_bound) {
      add("-inf");
    } else {
      add(lower);
    }
    add(concat(" <= ", variables_[j]));
    if (upper != no_bound) {
      add(" <= ");
      add(upper);
    }
    add("\n");
  }

  template <class Member>
  void add_list(const char* title, Member&& member) {
    bool any = false;
    for (std::size_t j = 0; j < model_.variables(); ++j) {
      if (!member(j)) continue;
      if (!any) add(title);
      any = true;
      add(concat(" ", variables_[j], "\n"));
    }
  }

  std::size_t terms_ = 0;
};

class MpsWriter : ModelWriter {
 public:
  explicit MpsWriter(const MilpModel& model) : ModelWriter(model), columns_(model.variables()) {
    for (std::size_t i = 0; i < model.rows(); ++i) {
      for (const Term& term : model.row(i)) columns_[term.variable].push_back({i, term.coefficient});
    }
  }

  std::string write() {
    add("NAME slimpack FREE\nROWS\n N objective\n");
    for (std::size_t i = 0; i < model_.rows(); ++i) {
      const double lower = model_.row_lower()[i], upper = model_.row_upper()[i];
      const char* const type = lower == upper ? " E " : std::isfinite(upper) ? " L " : " G ";
      add(concat(type, rows_[i], "\n"));
    }
    add("COLUMNS\n");
    for (std::size_t j = 0; j < model_.variables(); ++j) add_column(j);
    if (constant_) add_entry("one", "objective", sign() * model_.objective_constant());
    add("RHS\n");
    for (std::size_t i = 0; i < model_.rows(); ++i) {
      const double upper = model_.row_upper()[i];
      const double side = std::isfinite(upper) ? upper : model_.row_lower()[i];
      if (side != 0.0) add_entry("rhs", rows_[i], side);
    }
    add("RANGES\n");
    for (std::size_t i = 0; i < model_.rows(); ++i) {
      if (is_range(i)) add_entry("range", rows_[i], model_.row_upper()[i] - model_.row_lower()[i]);
    }
    add("BOUNDS\n");
    for (std::size_t j = 0; j < model_.variables(); ++j) add_bounds(j);
    if (constant_) add(" FX bound one 1\n");
    add("ENDATA\n");
    return std::move(out_);
  }

 private:
  struct Entry {
    std::size_t row;
    double coefficient;
  };

  [[nodiscard]] double sign() const { return model_.minimises() ? 1.0 : -1.0; }

  void add_entry(const std::string& column, const std::string& row, double value) {
    add(concat(" ", column, " ", row, " "));
    add(value);
    add("\n");
  }

  void add_column(std::size_t j) {
    const bool integer = model_.is_integer(j);
    if (integer) add(" MARKER 'MARKER' 'INTORG'\n");
    // Even a zero coefficient declares a column.
    if (model_.objective()[j] != 0.0 || columns_[j].empty())
      add_entry(variables_[j], "objective", sign() * model_.objective()[j]);
    for (const Entry& entry : columns_[j]) add_entry(variables_[j], rows_[entry.row], entry.coefficient);
    if (integer) add(" MARKER 'MARKER' 'INTEND'\n");
  }

  /// All bounds are stated, because readers' defaults differ, above all for integers.
  void add_bounds(std::size_t j) {
    const double lower = model_.lower()[j], upper = model_.upper()[j];
    const auto add_bound = [&](const char* type, double bound) {
      add(concat(" ", type, " bound ", variables_[j]));
      if (std::isfinite(bound)) {
        add(" ");
        add(bound);
      }
      add("\n");
    };
    if (lower == upper) return add_bound("FX", lower);
    if (lower == -no_bound && upper == no_bound) return add_bound("FR", no_bound);
    add_bound(lower == -no_bound ? "MI" : "LO", lower);
    add_bound(upper == no_bound ? "PL" : "UP", upper);
  }

  std::vector<std::vector<Entry>> columns_;  // [variable]
};

}  // namespace detail

/// The model as a file in the LP format (CPLEX's), which GLPK, CBC, HiGHS and most other solvers read. Names
/// that the format does not accept are changed, and so are duplicates; variables and rows without a name get
/// `x` or `r` and the index. A row with two bounds is written as two rows, and the objective's constant as a
/// variable `one` fixed to 1. Numbers read back exactly. The initial solution is not part of it. O(variables
/// + terms).
[[nodiscard]] inline std::string to_lp(const MilpModel& model) { return detail::LpWriter(model).write(); }

/// The model as a file in the free MPS format. Names as in `to_lp`. The format has no maximum: a model that
/// maximises is written as the minimum of its negated objective. O(variables + terms).
[[nodiscard]] inline std::string to_mps(const MilpModel& model) { return detail::MpsWriter(model).write(); }

}  // namespace slimpack
