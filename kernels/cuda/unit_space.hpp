#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// Consecutive units.
struct UnitRun {
  std::size_t begin = 0, count = 0;

  friend bool operator==(const UnitRun&, const UnitRun&) = default;
};

/// Which units are taken by what lies in one piece: each run is taken from the lowest gap that it fits in.
/// Bookkeeping alone; the units' memory may be a GPU's.
class UnitSpace {
 public:
  /// Where units begin that lie in one piece. O(gaps).
  [[nodiscard]] std::size_t take_run(std::size_t count) {
    if (count == 0) return 0;
    auto gap = gaps_.begin();
    while (gap->second - gap->first < count) ++gap;  // the last one is large enough
    const auto [begin, end] = *gap;
    gaps_.erase(gap);
    if (begin + count < end) gaps_.emplace(begin + count, end);
    run_end_ = std::max(run_end_, begin + count);
    return begin;
  }

  /// Units that were taken, in any parts. @throws InvalidInput if one was not. O(log gaps).
  void give_back(std::size_t begin, std::size_t count) {
    if (count == 0) return;
    std::size_t end = begin + count;
    auto next = gaps_.lower_bound(begin);
    const auto before = next == gaps_.begin() ? gaps_.end() : std::prev(next);
    require((next == gaps_.end() || end <= next->first) && (before == gaps_.end() || before->second <= begin),
            "units ", begin, " to ", end, " are given back; expected units that are taken");
    if (next != gaps_.end() && next->first == end) {
      end = next->second;
      gaps_.erase(next);
    }
    if (before != gaps_.end() && before->second == begin) {
      before->second = end;
    } else {
      gaps_.emplace(begin, end);
    }
  }

  /// End of the highest run that was ever taken.
  [[nodiscard]] std::size_t run_end() const { return run_end_; }

 private:
  std::map<std::size_t, std::size_t> gaps_{
      {0, std::numeric_limits<std::size_t>::max()}};  ///< begin to end; none touches another
  std::size_t run_end_ = 0;
};

}  // namespace slimpack::kernels::cuda
