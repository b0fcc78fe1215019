#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/milp/covering_dictionary.hpp"

namespace slimpack::detail {

enum class SimplexEnd : std::uint8_t { optimal, infeasible, stopped };

/// The dual simplex method, which minimises the cost of a dictionary: a basic variable outside of its bounds leaves, the
/// one that is farthest out for the weight of its row, and the nonbasic one with the least ratio enters.
class DualSimplex {
 public:
  static constexpr std::size_t no_row = static_cast<std::size_t>(-1);
  static constexpr double feasible = 1e-7;  ///< how far a value may be outside of its bounds

  /// Of all calls together.
  [[nodiscard]] std::int64_t pivots() const { return pivots_; }
  /// The basic variable that no point brings within its bounds, after an end as infeasible; or `no_row`.
  [[nodiscard]] std::size_t conflict() const { return conflict_; }

  /// @param last the number of pivots at which it is `stopped`.
  SimplexEnd minimise(SimplexDictionary& dictionary, std::int64_t last) {
    const SimplexEnd end = run(dictionary, last);
    dictionary.update_point();
    return end;
  }

 private:
  struct Candidate {
    double ratio, effect;
    std::uint32_t column;
  };

  SimplexEnd run(SimplexDictionary& dictionary, std::int64_t last) {
    conflict_ = no_row;
    for (;;) {
      const std::size_t r = leaving(dictionary);
      if (r == no_row) return SimplexEnd::optimal;
      if (pivots_ >= last) return SimplexEnd::stopped;
      ++pivots_;
      const std::size_t q = entering(dictionary, r);
      if (q == no_row) {
        conflict_ = r;
        return SimplexEnd::infeasible;
      }
      dictionary.pivot(r, q);
    }
  }

  [[nodiscard]] static std::size_t leaving(const SimplexDictionary& dictionary) {
    std::size_t worst = no_row;
    double most_outside = 0.0;
    for (std::size_t r = 0; r < dictionary.basic().size(); ++r) {
      const double outside = dictionary.outside(r);
      if (outside <= feasible) continue;
      const double score = outside * outside / dictionary.table().weight(r);
      if (score > most_outside) {
        most_outside = score;
        worst = r;
      }
    }
    return worst;
  }

  /// The nonbasic variable that takes the place of basic row `r`: the least ratio of the dual simplex method,
  /// after flipping those to their other bound that make no difference to who is optimal.
  [[nodiscard]] std::size_t entering(SimplexDictionary& dictionary, std::size_t r) {
    const std::span<const double> row = dictionary.table().row(r),
                                  reduced = dictionary.table().reduced_costs();
    const bool rises = dictionary.value(r) < dictionary.lower(dictionary.basic()[r]);
    double outside = dictionary.outside(r);
    candidates_.clear();
    for (std::size_t q = 0; q < row.size(); ++q) {
      const double effect = dictionary.at_upper(q) == rises ? -row[q] : row[q];
      if (effect > 1e-7 && !dictionary.is_fixed(q))
        candidates_.push_back({std::abs(reduced[q]) / effect, effect, static_cast<std::uint32_t>(q)});
    }
    const auto later = [](const Candidate& a, const Candidate& b) {
      return a.ratio != b.ratio ? a.ratio > b.ratio : a.effect < b.effect;
    };
    std::make_heap(candidates_.begin(), candidates_.end(), later);
    while (!candidates_.empty()) {
      const Candidate next = candidates_.front();
      const std::uint32_t id = dictionary.nonbasic()[next.column];
      outside -= next.effect * (dictionary.upper(id) - dictionary.lower(id));
      if (outside <= 0.0) return next.column;
      std::pop_heap(candidates_.begin(), candidates_.end(), later);
      candidates_.pop_back();
      dictionary.flip(next.column);
    }
    return no_row;
  }

  std::int64_t pivots_ = 0;
  std::size_t conflict_ = no_row;
  std::vector<Candidate> candidates_;
};

/// How much the cost rises at least, by the next step of the dual simplex method, if a fractional basic
/// column is rounded down or up. An estimate.
struct RoundingPenalty {
  double down = 0.0, up = 0.0;
};
[[nodiscard]] inline RoundingPenalty rounding_penalty(const SimplexDictionary& dictionary,
                                                      std::size_t column) {
  const std::size_t r = dictionary.basic_place(column);
  const std::span<const double> row = dictionary.table().row(r), reduced = dictionary.table().reduced_costs();
  const double down = dictionary.value(r) - std::floor(dictionary.value(r));
  double least_down = std::numeric_limits<double>::infinity(), least_up = least_down;
  for (std::size_t q = 0; q < row.size(); ++q) {
    if (std::abs(row[q]) < 1e-9 || dictionary.is_fixed(q)) continue;
    const double ratio = std::abs(reduced[q] / row[q]);
    double& least = (row[q] > 0.0) == dictionary.at_upper(q) ? least_down : least_up;
    least = std::min(least, ratio);
  }
  return {least_down * down, least_up * (1.0 - down)};
}

}  // namespace slimpack::detail
