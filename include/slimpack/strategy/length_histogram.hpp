#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// How many samples of a data set have each length.
class LengthHistogram {
 public:
  struct Entry {
    Tokens length = 0;
    std::int64_t samples = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  /// Of samples in any order. @throws InvalidInput if a length is not positive. O(n log n).
  explicit LengthHistogram(std::span<const Tokens> lengths) {
    std::vector<Tokens> sorted(lengths.begin(), lengths.end());
    std::sort(sorted.begin(), sorted.end());
    for (const Tokens length : sorted) {
      if (entries_.empty() || entries_.back().length != length) entries_.push_back({length, 0});
      ++entries_.back().samples;
    }
    check();
  }
  /// Of counts, ascending by length. @throws InvalidInput if lengths do not ascend, or a number is not positive.
  explicit LengthHistogram(std::vector<Entry> entries) : entries_(std::move(entries)) { check(); }

  /// Ascending by length; at least one.
  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  [[nodiscard]] Tokens longest() const { return entries_.back().length; }

  /// Ends of intervals of equal width, up to the one that has the longest sample. @pre width > 0.
  [[nodiscard]] std::vector<Tokens> interval_ends(Tokens width) const {
    std::vector<Tokens> ends;
    for (Tokens end = width; ends.empty() || ends.back() < longest(); end += width) ends.push_back(end);
    return ends;
  }

  /// The sum of `seconds(length)` over all samples of each interval. @param ends as `interval_ends` gives them.
  template <class Seconds>
  [[nodiscard]] std::vector<double> sum_by_interval(std::span<const Tokens> ends, Seconds&& seconds) const {
    std::vector<double> sums(ends.size(), 0.0);
    std::size_t interval = 0;
    for (const Entry& entry : entries_) {
      while (entry.length > ends[interval]) ++interval;
      sums[interval] += static_cast<double>(entry.samples) * static_cast<double>(seconds(entry.length));
    }
    return sums;
  }

 private:
  void check() const {
    require(!entries_.empty(), "the histogram has no samples; expected at least one");
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Tokens before = i == 0 ? 0 : entries_[i - 1].length;
      require(entries_[i].length > before, "entry ", i, " is of length ", entries_[i].length,
              "; expected more than ", before);
      require(entries_[i].samples > 0, "entry ", i, " has ", entries_[i].samples,
              " samples; expected a positive number");
    }
  }

  std::vector<Entry> entries_;
};

}  // namespace slimpack
