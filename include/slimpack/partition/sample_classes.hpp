#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/longest_first.hpp"

namespace slimpack {

/// Classes of samples of about the same length: the 64 longest samples are classes of their own, the others form 64 of about equal
/// numbers. With up to 128 samples, each is a class.
class SampleClasses {
 public:
  /// O(samples log(samples)).
  explicit SampleClasses(std::span<const Tokens> lengths) : by_length_(detail::longest_first(lengths)) {
    const std::size_t own = lengths.size() <= alone + together ? lengths.size() : alone;
    for (std::size_t i = 0; i <= own; ++i) begin_.push_back(i);
    const std::size_t rest = lengths.size() - own;
    for (std::size_t c = 1; rest > 0 && c <= together; ++c) begin_.push_back(own + rest * c / together);
    for (std::size_t c = 0; c < size(); ++c) {
      longest_.push_back(lengths[of(c).front()]);
      count_.push_back(static_cast<double>(of(c).size()));
    }
  }

  [[nodiscard]] std::size_t size() const { return begin_.size() - 1; }
  /// The samples of a class, longest first.
  [[nodiscard]] std::span<const SampleId> of(std::size_t c) const {
    return std::span(by_length_).subspan(begin_[c], begin_[c + 1] - begin_[c]);
  }
  [[nodiscard]] const std::vector<Tokens>& longest() const { return longest_; }  ///< [class]
  [[nodiscard]] const std::vector<double>& count() const { return count_; }      ///< [class] samples

 private:
  static constexpr std::size_t alone = 64, together = 64;

  std::vector<SampleId> by_length_;
  std::vector<std::size_t> begin_;  // [class] in by_length_, and their end
  std::vector<Tokens> longest_;     // [class]
  std::vector<double> count_;       // [class]
};

}  // namespace slimpack
