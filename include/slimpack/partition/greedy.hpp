#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"

namespace slimpack {

/// Longest processing time first: items by decreasing weight, each to the bin with the least load. Ties go to
/// the lower bin. Keeps its memory between calls.
class LptSolver {
 public:
  /// @param weights of the items, not negative. @param initial_loads the loads of the bins before the first
  /// item; their number is the number of bins.
  /// @throws InvalidInput if there is no bin, or a weight is negative or not finite.
  /// Complexity: O(n log n + n log bins). At most 4/3 - 1/(3 bins) times the least makespan (Graham 1969)
  /// from empty bins.
  [[nodiscard]] Assignment solve(std::span<const double> weights, std::span<const double> initial_loads) {
    require(!initial_loads.empty(), "0 bins; expected at least 1");
    for (std::size_t i = 0; i < weights.size(); ++i) {
      require(weights[i] >= 0.0 && std::isfinite(weights[i]), "weight of item ", i, " is ", weights[i],
              "; expected a finite number, not negative");
    }
    sort_items(weights);
    fill_heap(initial_loads);
    Assignment result;
    result.bin.resize(weights.size());
    for (const std::uint32_t item : order_) {
      result.bin[item] = heap_.front().bin;
      heap_.front().load += weights[item];
      sift_down(0);
    }
    result.load.resize(heap_.size());
    for (const Bin& bin : heap_) result.load[bin.bin] = bin.load;
    return result;
  }

 private:
  struct Bin {
    double load;
    std::uint32_t bin;
    [[nodiscard]] bool before(const Bin& other) const {
      return load < other.load || (load == other.load && bin < other.bin);
    }
  };

  void sort_items(std::span<const double> weights) {
    order_.resize(weights.size());
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    if (std::is_sorted(weights.begin(), weights.end(), std::greater<>{})) return;
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return weights[a] > weights[b]; });
  }

  void fill_heap(std::span<const double> loads) {
    heap_.clear();
    for (std::size_t b = 0; b < loads.size(); ++b) heap_.push_back({loads[b], static_cast<std::uint32_t>(b)});
    for (std::size_t i = heap_.size() / 2; i-- > 0;) sift_down(i);
  }

  void sift_down(std::size_t i) {
    const Bin moved = heap_[i];
    for (std::size_t child = 2 * i + 1; child < heap_.size(); child = 2 * i + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(moved)) break;
      heap_[i] = heap_[child];
      i = child;
    }
    heap_[i] = moved;
  }

  std::vector<std::uint32_t> order_;
  std::vector<Bin> heap_;
};

/// One call of LptSolver into `bins` empty bins.
[[nodiscard]] inline Assignment lpt(std::span<const double> weights, std::size_t bins) {
  return LptSolver().solve(weights, std::vector<double>(bins, 0.0));
}

}  // namespace slimpack
