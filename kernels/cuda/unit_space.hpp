#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// Units one behind another.
struct UnitRun {
  std::size_t begin = 0, count = 0;

  friend bool operator==(const UnitRun&, const UnitRun&) = default;
};

/// Which of some equal units are taken. What has to lie in one piece is taken from the lowest gap that it fits in, what may lie
/// anywhere from the highest one on: so large pieces find room below, and pages fill what gaps there are. Bookkeeping alone;
/// the units' memory may be a GPU's.
class UnitSpace {
 public:
  explicit UnitSpace(std::size_t units) {
    if (units > 0) gaps_.emplace(0, units);
  }

  /// Units in one piece that begins at a multiple; nothing if no gap has room. O(gaps).
  [[nodiscard]] std::optional<std::size_t> take_run(std::size_t count, std::size_t multiple = 1) {
    if (count == 0) return 0;
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      const std::size_t begin = (gap->first + multiple - 1) / multiple * multiple, end = gap->second;
      if (begin > end || end - begin < count) continue;
      if (begin == gap->first) {
        gaps_.erase(gap);
      } else {
        gap->second = begin;
      }
      if (begin + count < end) gaps_.emplace(begin + count, end);
      add(count);
      run_end_ = std::max(run_end_, begin + count);
      return begin;
    }
    return std::nullopt;
  }

  /// Units anywhere, appended in few runs; false, with some of them taken, if there are too few. O(runs log gaps).
  [[nodiscard]] bool take_pages(std::size_t count, std::vector<UnitRun>& out) {
    while (count > 0) {
      if (gaps_.empty()) return false;
      const auto gap = std::prev(gaps_.end());
      const std::size_t size = std::min(count, gap->second - gap->first);
      gap->second -= size;
      out.push_back({gap->second, size});
      if (gap->first == gap->second) gaps_.erase(gap);
      add(size);
      count -= size;
    }
    return true;
  }

  /// Units that were taken, in any parts. @throws InvalidInput if one was not. O(log gaps).
  void give_back(std::size_t begin, std::size_t count) {
    if (count == 0) return;
    std::size_t end = begin + count;
    auto next = gaps_.lower_bound(begin);
    const auto before = next == gaps_.begin() ? gaps_.end() : std::prev(next);
    require((next == gaps_.end() || end <= next->first) && (before == gaps_.end() || before->second <= begin),
            "units ", begin, " to ", end, " are given back; expected units that are taken");
    used_ -= count;
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

  [[nodiscard]] std::size_t used() const { return used_; }
  /// Most units that were ever taken at a time.
  [[nodiscard]] std::size_t most() const { return most_; }
  /// End of the highest run that was ever taken.
  [[nodiscard]] std::size_t run_end() const { return run_end_; }

 private:
  void add(std::size_t count) {
    used_ += count;
    most_ = std::max(most_, used_);
  }

  std::map<std::size_t, std::size_t> gaps_;  ///< begin to end; none touches another
  std::size_t used_ = 0, most_ = 0, run_end_ = 0;
};

}  // namespace slimpack::kernels::cuda
