#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/longest_first.hpp"

namespace slimpack::detail {

/// Samples in order of length, cut into parts at powers of two below the longest: classes of lengths consist of
/// neighbouring parts.
class LengthClasses {
 public:
  /// @param lengths at least one; they have to outlive this. @param thresholds most parts.
  LengthClasses(std::span<const Tokens> lengths, std::size_t thresholds)
      : lengths_(lengths), by_length_(longest_first(lengths)) {
    std::reverse(by_length_.begin(), by_length_.end());
    for (std::size_t i = thresholds; i-- > 0;) {
      const Tokens most = i < 63 ? longest() >> i : 0;
      const auto end = std::partition_point(by_length_.begin(), by_length_.end(),
                                            [&](SampleId id) { return lengths_[id] <= most; });
      const auto place = static_cast<std::size_t>(end - by_length_.begin());
      if (place > (ends_.empty() ? 0 : ends_.back())) ends_.push_back(place);
    }
  }

  [[nodiscard]] Tokens longest() const { return length(by_length_.size() - 1); }

  [[nodiscard]] std::size_t parts() const { return ends_.size(); }
  /// Place of a part's first sample in the order by length.
  [[nodiscard]] std::size_t begin(std::size_t part) const { return part == 0 ? 0 : ends_[part - 1]; }
  /// Place after a part's last sample.
  [[nodiscard]] std::size_t end(std::size_t part) const { return ends_[part]; }

  /// Length of the sample at a place of the order by length.
  [[nodiscard]] Tokens length(std::size_t place) const { return lengths_[by_length_[place]]; }
  /// The samples at some places of the order by length, in ascending order of their ids.
  [[nodiscard]] std::vector<SampleId> samples(std::size_t begin, std::size_t end) const {
    std::vector<SampleId> ids(by_length_.begin() + static_cast<std::ptrdiff_t>(begin),
                              by_length_.begin() + static_cast<std::ptrdiff_t>(end));
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  /// Lengths of some samples, in their order.
  [[nodiscard]] std::vector<Tokens> lengths_of(std::span<const SampleId> ids) const {
    std::vector<Tokens> own;
    own.reserve(ids.size());
    for (const SampleId id : ids) own.push_back(lengths_[id]);
    return own;
  }

 private:
  std::span<const Tokens> lengths_;
  std::vector<SampleId> by_length_;  // shortest first
  std::vector<std::size_t> ends_;    // [part] places among these
};

}  // namespace slimpack::detail
