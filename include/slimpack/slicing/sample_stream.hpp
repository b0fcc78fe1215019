#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"

namespace slimpack {

/// A sample on its way into packs.
struct StreamSample {
  SampleId id = 0;
  Tokens length = 0;
  double seconds = 0.0;  ///< cost of the whole sample over all stages, in the pass that is cut
};

/// The samples of one pipeline and the sequence in which a pass takes them.
struct SampleStream {
  /// Longest first; so their `seconds` also fall.
  std::span<const StreamSample> samples;
  /// Sequence as indices into `samples`; empty = as they stand.
  std::span<const std::uint32_t> order = {};
  /// Backward pass: the forward pack that ends each sample, in the order of `samples`. Empty = no sample has
  /// to wait.
  std::span<const std::uint32_t> ready = {};

  [[nodiscard]] std::size_t size() const { return samples.size(); }
  /// Index into `samples` of the one at a position of the sequence.
  [[nodiscard]] std::size_t at(std::size_t position) const {
    return order.empty() ? position : order[position];
  }
};

namespace detail {

/// A set of positions in which the next member at or after a position is found word by word.
class PositionSet {
 public:
  void reset(std::size_t size, bool member) {
    size_ = size;
    words_.assign(size / 64 + 1, member ? ~std::uint64_t{0} : 0);
    words_.back() &= bit(size) - 1;
    used_ = words_.size();
  }
  void insert(std::size_t i) {
    words_[i / 64] |= bit(i);
    used_ = std::max(used_, i / 64 + 1);
  }
  void erase(std::size_t i) { words_[i / 64] &= ~bit(i); }

  /// First member >= i; the set's size if there is none.
  [[nodiscard]] std::size_t next(std::size_t i) const {
    if (i >= size_) return size_;
    std::size_t w = i / 64;
    std::uint64_t word = words_[w] & (~std::uint64_t{0} << (i % 64));
    while (word == 0 && ++w < words_.size()) word = words_[w];
    return word == 0 ? size_ : 64 * w + static_cast<std::size_t>(std::countr_zero(word));
  }

  /// The last member; the set's size if there is none.
  [[nodiscard]] std::size_t last() {
    while (used_ > 0 && words_[used_ - 1] == 0) --used_;
    return used_ == 0 ? size_
                      : 64 * used_ - 1 - static_cast<std::size_t>(std::countl_zero(words_[used_ - 1]));
  }

 private:
  static constexpr std::uint64_t bit(std::size_t i) { return std::uint64_t{1} << (i % 64); }
  std::size_t size_ = 0;
  std::vector<std::uint64_t> words_;
  std::size_t used_ = 0;  // no word from here on has a member
};

}  // namespace detail

}  // namespace slimpack
