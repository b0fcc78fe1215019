#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"

namespace slimpack {

/// Tokens `[begin, end)` of one sample.
struct Slice {
  SampleId sample = 0;
  Tokens begin = 0;
  Tokens end = 0;

  [[nodiscard]] constexpr Tokens size() const { return end - begin; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// A list of packs, stored flat: the slices of all packs one after another, and the offset at which each
/// pack begins. Appending a pack means appending its slices and then calling `close`.
class Packs {
 public:
  [[nodiscard]] std::size_t size() const { return offsets_.size() - 1; }
  [[nodiscard]] bool empty() const { return size() == 0; }

  /// Slices of pack `i`, i < size().
  [[nodiscard]] std::span<const Slice> operator[](std::size_t i) const {
    assert(i < size());
    return {slices_.data() + offsets_[i], slices_.data() + offsets_[i + 1]};
  }

  /// Slices of all packs, in pack order.
  [[nodiscard]] std::span<const Slice> slices() const { return slices_; }

  /// Adds a slice to the pack that is open.
  void add(const Slice& slice) { slices_.push_back(slice); }

  /// Ends the open pack (possibly empty) and opens the next one.
  void close() { offsets_.push_back(slices_.size()); }

  /// Appends all packs of `other`. No pack is open.
  void append(const Packs& other) {
    assert(offsets_.back() == slices_.size());
    const std::size_t before = slices_.size();
    slices_.insert(slices_.end(), other.slices_.begin(), other.slices_.end());
    for (std::size_t k = 1; k < other.offsets_.size(); ++k) offsets_.push_back(before + other.offsets_[k]);
  }

  void reserve(std::size_t packs, std::size_t slices) {
    offsets_.reserve(packs + 1);
    slices_.reserve(slices);
  }

  /// Forgets the packs from number `size` on, and whatever is open.
  void truncate(std::size_t size) {
    assert(size < offsets_.size());
    slices_.resize(offsets_[size]);
    offsets_.resize(size + 1);
  }

  /// Forgets all packs but keeps the memory.
  void clear() {
    slices_.clear();
    offsets_.assign(1, 0);
  }

  friend bool operator==(const Packs&, const Packs&) = default;

 private:
  std::vector<Slice> slices_;
  std::vector<std::size_t> offsets_{0};
};

/// Tokens of a pack.
[[nodiscard]] inline Tokens count_tokens(std::span<const Slice> pack) {
  Tokens sum = 0;
  for (const Slice& slice : pack) sum += slice.size();
  return sum;
}

}  // namespace slimpack
