#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// What makes parts good: `most_weight` times the dearest part plus `sum_weight` times all parts together.
struct OrderedPartsOptions {
  double most_weight = 1.0;
  double sum_weight = 1.0;
  /// The search ends when the answer is at most this share of it above the least.
  double gap = 1e-6;
};

/// Neighbouring items in parts.
struct OrderedParts {
  std::vector<std::size_t> ends;  ///< of the parts, ascending; empty: an item by itself costs too much
  double most = std::numeric_limits<double>::infinity();  ///< cost of the dearest part
  double sum = std::numeric_limits<double>::infinity();   ///< of all parts
  double objective = std::numeric_limits<double>::infinity();
  double bound = std::numeric_limits<double>::infinity();  ///< no parts have a lower objective
};

/// Splits one row of items for any weights (`ordered_parts`). Limits of a part's cost that several calls try are tried once.
template <class Cost>
class OrderedPartsSolver {
 public:
  /// @param cost as `ordered_parts` takes it; has to outlive this.
  OrderedPartsSolver(std::size_t items, const Cost& cost)
      : items_(items), cost_(cost), least_(items + 1), last_(items + 1) {
    for (std::size_t i = 0; i < items_; ++i) dearest_item_ = std::max(dearest_item_, cost_(i, i + 1));
  }

  /// As `ordered_parts`.
  [[nodiscard]] OrderedParts solve(const OrderedPartsOptions& options) {
    require(options.most_weight >= 0.0 && options.sum_weight >= 0.0,
            "weights of the dearest part and of all are ", options.most_weight, " and ", options.sum_weight,
            "; expected 0 or more");
    require(options.gap >= 0.0, "gap is ", options.gap, "; expected 0 or more");
    if (items_ == 0) return {.ends = {}, .most = 0.0, .sum = 0.0, .objective = 0.0, .bound = 0.0};
    if (!(dearest_item_ < infinite)) return {};
    const Split& all = split(infinite);
    best_ = &all;
    best_objective_ = bound_ = objective(all, options);
    open_.assign(1, {dearest_item_, all.most, all.sum});
    while (!open_.empty()) {
      const Range range = open_.back();
      open_.pop_back();
      halve(range, options);
    }
    return {.ends = best_->ends,
            .most = best_->most,
            .sum = best_->sum,
            .objective = best_objective_,
            .bound = std::min(bound_, best_objective_)};
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  struct Split {
    std::vector<std::size_t> ends = {};
    double most = 0.0, sum = 0.0;
  };

  /// Parts of which the dearest costs from `least` to below `most` cost no less than `sum` together.
  struct Range {
    double least, most, sum;
  };

  [[nodiscard]] static double objective(const Split& parts, const OrderedPartsOptions& options) {
    return options.most_weight * parts.most + options.sum_weight * parts.sum;
  }

  /// Looks at the middle of a range, unless nothing in it can be better by more than the gap.
  void halve(const Range& range, const OrderedPartsOptions& options) {
    if (range.least >= range.most) return;
    const double bound = options.most_weight * range.least + options.sum_weight * range.sum;
    const double middle = range.least + 0.5 * (range.most - range.least);
    if (bound >= best_objective_ * (1.0 - options.gap) || middle >= range.most) {
      bound_ = std::min(bound_, bound);
      return;
    }
    const Split& parts = split(middle);
    const double own = objective(parts, options);
    if (own < best_objective_) {
      best_ = &parts;
      best_objective_ = own;
    }
    if (parts.sum > range.sum && middle > range.least) open_.push_back({middle, range.most, range.sum});
    open_.push_back({range.least, parts.most, parts.sum});
  }

  [[nodiscard]] static bool possible(double cost, double cap) { return cost <= cap && cost < infinite; }

  /// The cheapest parts of which none costs more than `cap`. @pre no item does. O(items * items of a part), once.
  [[nodiscard]] const Split& split(double cap) {
    const auto [place, added] = known_.try_emplace(cap);
    Split& parts = place->second;
    if (!added) return parts;
    least_[0] = 0.0;
    std::size_t first = 0;
    for (std::size_t end = 1; end <= items_; ++end) {
      const double own = cost_(end - 1, end);
      while (first + 1 < end && !possible(cost_(first, end), cap)) ++first;
      double best = infinite;
      // A part costs no less than its last item, and the items before it no less than fewer of them.
      for (std::size_t begin = first; begin < end && least_[begin] + own < best; ++begin) {
        const double sum = least_[begin] + cost_(begin, end);
        if (sum >= best) continue;
        best = sum;
        last_[end] = begin;
      }
      least_[end] = best;
    }
    parts.sum = least_[items_];
    for (std::size_t end = items_; end > 0; end = last_[end]) {
      parts.ends.push_back(end);
      parts.most = std::max(parts.most, cost_(last_[end], end));
    }
    std::reverse(parts.ends.begin(), parts.ends.end());
    return parts;
  }

  std::size_t items_;
  const Cost& cost_;
  double dearest_item_ = 0.0;
  std::map<double, Split> known_;  // by cap
  std::vector<double> least_;      // [end] cost of the items before it, in parts
  std::vector<std::size_t> last_;  // [end] where the last of these parts begins
  std::vector<Range> open_;
  const Split* best_ = nullptr;
  double best_objective_ = infinite, bound_ = infinite;
};

/// Splits a row of items into parts of neighbours so that `most_weight * dearest part + sum_weight * all parts` is
/// least: with most_weight = stages - 1 and sum_weight = 1 / replicas, DynaPipe's micro-batches of samples sorted by
/// length (Jiang et al., EuroSys 2024, section 4: for each limit of a micro-batch's time, a dynamic program gives the
/// cheapest split). Theirs tries the time of each possible micro-batch as a limit; here, ranges of limits are halved as
/// long as their lower bound leaves something to gain.
/// @param cost seconds, or any other unit, of a part: `cost(begin, end)` for begin < end, positive, no less with more
/// items, infinite where a part is not possible.
/// @returns no ends if an item by itself is not possible; without items, no ends and zeros.
/// @throws InvalidInput if a weight or the gap is negative.
/// Complexity: O(items * items of a part) for each limit, of which some dozens are tried. Memory: O(items).
template <class Cost>
[[nodiscard]] OrderedParts ordered_parts(std::size_t items, const Cost& cost,
                                         const OrderedPartsOptions& options = {}) {
  return OrderedPartsSolver<Cost>(items, cost).solve(options);
}

}  // namespace slimpack
