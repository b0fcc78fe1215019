#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace slimpack {

/// Cuts a row of items into neighbouring parts.
class RowCuts {
 public:
  /// @param weights of the items in order, none negative. O(items).
  explicit RowCuts(std::span<const double> weights) : sums_{0.0} {
    for (const double weight : weights) {
      sums_.push_back(sums_.back() + weight);
      heaviest_.push_back(std::max(weight, heaviest_.empty() ? 0.0 : heaviest_.back()));
    }
  }

  [[nodiscard]] std::size_t items() const { return heaviest_.size(); }

  /// The weight of the heaviest of at most `parts` parts of the first `count` items, as light as can be, to within rounding.
  /// O(parts * log items * log(items * parts)), mostly.
  [[nodiscard]] double lightest(std::size_t count, std::size_t parts) const {
    if (count == 0) return 0.0;
    double low = heaviest_[count - 1], high = sums_[count];
    if (fill(count, parts, low).all) return low;
    for (int halving = 0; halving < 50 && high - low > 1e-12 * high; ++halving) {
      const double middle = 0.5 * (low + high);
      const Fill found = fill(count, parts, middle);
      (found.all ? high : low) = found.all ? std::min(middle, found.most) : std::max(middle, found.next);
    }
    return high * (1.0 + 1e-12);
  }

  /// Where a part that begins at an item ends if it holds all it can, at least that item. O(log items).
  [[nodiscard]] std::size_t end_of(std::size_t begin, double most) const {
    const auto over = std::upper_bound(sums_.begin() + static_cast<std::ptrdiff_t>(begin) + 1, sums_.end(),
                                       sums_[begin] + most);
    return std::max(begin + 1, static_cast<std::size_t>(over - sums_.begin()) - 1);
  }
  /// Where a part that ends before an item begins if it holds all it can, at least one item. O(log items).
  [[nodiscard]] std::size_t begin_of(std::size_t end, double most) const {
    const auto first =
        std::lower_bound(sums_.begin(), sums_.begin() + static_cast<std::ptrdiff_t>(end), sums_[end] - most);
    return std::min(end - 1, static_cast<std::size_t>(first - sums_.begin()));
  }

 private:
  /// What parts hold that are filled one after another.
  struct Fill {
    bool all = false;   ///< whether they hold all items
    double most = 0.0;  ///< of the heaviest
    double next =
        std::numeric_limits<double>::infinity();  ///< least limit with which one of them would hold more
  };
  [[nodiscard]] Fill fill(std::size_t count, std::size_t parts, double most) const {
    Fill out;
    std::size_t begin = 0;
    for (std::size_t part = 0; part < parts && begin < count; ++part) {
      const std::size_t end = std::min(count, end_of(begin, most));
      out.most = std::max(out.most, sums_[end] - sums_[begin]);
      if (end < count) out.next = std::min(out.next, sums_[end + 1] - sums_[begin]);
      begin = end;
    }
    out.all = begin >= count;
    return out;
  }

  std::vector<double> sums_;      // [item + 1] of those before
  std::vector<double> heaviest_;  // [item] of those up to it
};

/// Ends of at most `parts` parts of a row of items, each part neighbouring items, such that the heaviest part is as
/// light as can be, to within rounding (FlexSP's micro-batches of samples sorted by length). Parts are as full as that
/// allows, the first one first.
/// @param parts positive. @returns ends of parts with items. O(parts * log items * 50).
[[nodiscard]] inline std::vector<std::size_t> lightest_parts(const RowCuts& cuts, std::size_t parts) {
  const double most = cuts.lightest(cuts.items(), parts);
  std::vector<std::size_t> ends;
  for (std::size_t end = 0; end < cuts.items();) ends.push_back(end = cuts.end_of(end, most));
  return ends;
}

/// The same, but the last part is as full as can be, and the parts before it are the lightest of what it leaves, as the
/// authors of FlexSP cut them: there, the longest samples are in parts with fewer tokens. O(parts^2 * log items * 50).
[[nodiscard]] inline std::vector<std::size_t> lightest_parts_last_full(const RowCuts& cuts,
                                                                       std::size_t parts) {
  std::vector<std::size_t> ends;
  for (std::size_t end = cuts.items(); end > 0; --parts) {
    ends.push_back(end);
    end = cuts.begin_of(end, cuts.lightest(end, parts));
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace slimpack
