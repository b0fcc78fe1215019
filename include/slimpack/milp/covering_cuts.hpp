#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/milp/covering_program.hpp"
#include "slimpack/milp/covering_relaxation.hpp"

namespace slimpack::detail {

/// Mixed-integer rounding cuts for integers 0 <= x <= upper.
///
/// A sum of rows `a x >= b` is divided by a number d, after some columns were replaced by their distance to
/// the upper bound. With the function G(t) = f floor(t) + min(t - floor(t), f), f the fraction of b / d, all
/// integer points keep sum G(a_j / d) x_j >= f ceil(b / d) (Nemhauser and Wolsey). Rows with negative
/// multipliers count as equations: their surplus then stands in the cut, and is written in columns again.
class CoveringCuts {
 public:
  explicit CoveringCuts(std::span<const double> upper)
      : upper_(upper), sum_(upper.size(), 0.0), size_(upper.size(), 0.0), complemented_(upper.size(), 0) {}

  /// Adds cuts that the relaxation's point violates to the rows: of single tight rows, and once these yield few,
  /// of the equations of fractional basic columns. False if it finds none.
  bool separate(const CoveringRelaxation& relaxation, CoveringRows& rows) {
    rows_ = &rows;
    point_ = relaxation.point();
    found_.clear();
    relaxation.for_each_tight_row([&](std::size_t row, double multiplier) {
      if (multiplier < 1e-9) return;
      begin();
      use(row, 1.0);
      search();
    });
    if (found_.size() < few) {
      for (std::size_t j = 0; j < upper_.size(); ++j) {
        if (!relaxation.is_basic(j) || std::abs(point_[j] - std::round(point_[j])) < 0.02) continue;
        for (const double sign : {1.0, -1.0}) {
          begin();
          relaxation.for_each_tight_row(j, [&](std::size_t row, double factor) { use(row, sign * factor); });
          consider_as_it_is();
        }
      }
    }
    return keep();
  }

 private:
  static constexpr std::size_t few = 3, most_cuts = 30;

  struct Surplus {
    std::size_t row;
    double multiplier;  // of its place in the cut
  };
  struct Cut {
    std::vector<CoveringRows::Entry> entries;
    double rhs = 0.0, efficacy = 0.0;
  };

  void begin() {
    for (const std::uint32_t j : touched_) sum_[j] = size_[j] = 0.0;
    touched_.clear();
    surplus_.clear();
    rhs_ = rhs_size_ = 0.0;
  }

  void use(std::size_t row, double multiplier) {
    for (const auto& entry : (*rows_)[row]) {
      if (size_[entry.index] == 0.0) touched_.push_back(entry.index);
      sum_[entry.index] += multiplier * entry.coefficient;
      size_[entry.index] += std::abs(multiplier * entry.coefficient);
    }
    rhs_ += multiplier * rows_->rhs(row);
    rhs_size_ += std::abs(multiplier * rows_->rhs(row));
    if (multiplier < 0.0) surplus_.push_back({row, -multiplier});
  }

  /// std::floor, which is a call where the processor's rounding may not be assumed.
  static double floor_of(double value) {
    if (!(std::abs(value) < 4e15)) return std::floor(value);
    const auto cut = static_cast<double>(static_cast<std::int64_t>(value));
    return cut > value ? cut - 1.0 : cut;
  }
  static double fraction(double value) { return value - floor_of(value); }
  /// The function G of the class's comment.
  static double rounded(double value, double f) {
    const double floor = floor_of(value);
    return f * floor + std::min(value - floor, f);
  }

  /// How far the point is from the cut of divisor `d`, in units of its length; 0 if it keeps the cut.
  [[nodiscard]] double efficacy(double d) const {
    double rhs = rhs_;
    for (const std::uint32_t j : touched_)
      if (complemented_[j] != 0) rhs -= sum_[j] * upper_[j];
    rhs /= d;
    const double f = fraction(rhs);
    if (f < 0.02 || f > 0.999) return 0.0;
    double missing = f * std::ceil(rhs), square = 0.0;
    for (const std::uint32_t j : touched_) {
      const bool far = complemented_[j] != 0;
      const double g = rounded((far ? -sum_[j] : sum_[j]) / d, f);
      missing -= g * (far ? upper_[j] - point_[j] : point_[j]);
      square += g * g;
    }
    return missing > 1e-6 && square > 0.0 ? missing / std::sqrt(square) : 0.0;
  }

  void complement_far() {
    for (const std::uint32_t j : touched_) complemented_[j] = point_[j] > 0.5 * upper_[j] ? 1 : 0;
  }

  /// The equation of a basic column as it is: Gomory's mixed-integer cut.
  void consider_as_it_is() {
    complement_far();
    if (efficacy(1.0) > 1e-3) write(1.0);
  }

  /// Tries divisors and complements by the heuristic of Marchand and Wolsey.
  void search() {
    complement_far();
    double best = 0.0, divisor = 0.0;
    const auto consider = [&](double d) {
      const double found = efficacy(d);
      if (found <= best) return false;
      best = found;
      divisor = d;
      return true;
    };
    for (const std::uint32_t j : touched_)
      if (point_[j] > 1e-6 && point_[j] < upper_[j] - 1e-6 && std::abs(sum_[j]) > 1e-6)
        consider(std::abs(sum_[j]));
    if (divisor == 0.0) return;
    for (const double part : {2.0, 4.0, 8.0}) consider(divisor / part);
    for (const std::uint32_t j : touched_) {
      if (point_[j] < 1e-6 || point_[j] > upper_[j] - 1e-6) continue;
      complemented_[j] ^= 1;
      if (!consider(divisor)) complemented_[j] ^= 1;
    }
    if (best > 1e-3) write(divisor);
  }

  /// The cut of divisor `d` in columns; its right-hand side gives way by what rounding may have done.
  void write(double d) {
    double base = rhs_, error = rhs_size_;
    for (const std::uint32_t j : touched_) {
      if (complemented_[j] != 0) base -= sum_[j] * upper_[j];
      error += 2.0 * size_[j] * upper_[j];
    }
    base /= d;
    const double f = fraction(base);
    double rhs = f * std::ceil(base);
    dense_.assign(upper_.size(), 0.0);
    for (const std::uint32_t j : touched_) {
      const bool far = complemented_[j] != 0;
      const double g = rounded((far ? -sum_[j] : sum_[j]) / d, f);
      if (far) rhs -= g * upper_[j];
      dense_[j] = far ? -g : g;
      error += 2.0 * d * std::abs(g) * upper_[j];
    }
    for (const Surplus& each : surplus_) {
      const double factor = each.multiplier / d;
      rhs += factor * rows_->rhs(each.row);
      for (const auto& entry : (*rows_)[each.row]) dense_[entry.index] += factor * entry.coefficient;
    }
    take(rhs - 64.0 * std::numeric_limits<double>::epsilon() * error / d);
  }

  /// Notes the dense row as a cut, scaled, without tiny coefficients.
  void take(double rhs) {
    double largest = 0.0;
    for (const double coefficient : dense_) largest = std::max(largest, std::abs(coefficient));
    if (!(largest > 1e-9)) return;
    Cut cut;
    for (std::uint32_t j = 0; j < dense_.size(); ++j) {
      if (std::abs(dense_[j]) >= 1e-7 * largest) {
        cut.entries.push_back({j, dense_[j] / largest});
      } else {
        rhs -= std::max(0.0, dense_[j]) * upper_[j];
      }
    }
    double missing = rhs / largest, square = 0.0, size = std::abs(missing);
    for (const auto& entry : cut.entries) {
      missing -= entry.coefficient * point_[entry.index];
      square += entry.coefficient * entry.coefficient;
      size += std::abs(entry.coefficient) * upper_[entry.index];
    }
    cut.rhs = rhs / largest - std::numeric_limits<double>::epsilon() * size;
    cut.efficacy = missing / std::sqrt(square);
    if (cut.efficacy > 1e-3) found_.push_back(std::move(cut));
  }

  /// Adds the deepest cuts that are not nearly parallel to a deeper one.
  bool keep() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Cut& a, const Cut& b) { return a.efficacy > b.efficacy; });
    std::vector<const Cut*> kept;
    for (const Cut& cut : found_) {
      if (kept.size() >= most_cuts) break;
      if (std::any_of(kept.begin(), kept.end(), [&](const Cut* other) { return parallel(*other, cut); }))
        continue;
      kept.push_back(&cut);
      rows_->add(cut.entries, cut.rhs);
    }
    return !kept.empty();
  }

  [[nodiscard]] bool parallel(const Cut& a, const Cut& b) {
    dense_.assign(upper_.size(), 0.0);
    double square_a = 0.0, square_b = 0.0, product = 0.0;
    for (const auto& entry : a.entries) {
      dense_[entry.index] = entry.coefficient;
      square_a += entry.coefficient * entry.coefficient;
    }
    for (const auto& entry : b.entries) {
      product += entry.coefficient * dense_[entry.index];
      square_b += entry.coefficient * entry.coefficient;
    }
    return product > 0.9 * std::sqrt(square_a * square_b);
  }

  std::span<const double> upper_, point_;
  CoveringRows* rows_ = nullptr;
  std::vector<double> sum_, size_;  // [column] of the sum of rows; of the absolute values
  std::vector<std::uint8_t> complemented_;
  std::vector<std::uint32_t> touched_;
  std::vector<Surplus> surplus_;
  double rhs_ = 0.0, rhs_size_ = 0.0;
  std::vector<Cut> found_;
  std::vector<double> dense_;
};

}  // namespace slimpack::detail
