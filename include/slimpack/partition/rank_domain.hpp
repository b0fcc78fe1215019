#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// Sizes of groups of ranks for which a framework keeps communicators: the powers of two up to `ranks`, and all ranks.
/// @param allows whether so many ranks can run a sample together.
template <class Allows>
[[nodiscard]] std::vector<std::size_t> rank_group_sizes(std::size_t ranks, const Allows& allows) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size <= ranks; ++size) {
    if ((std::has_single_bit(size) || size == ranks) && allows(size)) sizes.push_back(size);
  }
  return sizes;
}

/// Work of a sample on each rank of a group, as Megatron Core's schedulers of dynamic context parallelism estimate it: its
/// attention alone, shared equally.
[[nodiscard]] inline double squared_tokens(Tokens length, std::size_t size) {
  const auto tokens = static_cast<double>(length);
  return tokens * tokens / static_cast<double>(size);
}

/// Samples, and the ranks that run them in groups of some sizes.
class RankDomain {
 public:
  /// @param lengths of all samples; they have to outlive this. @param sizes of groups, ascending, none above `ranks`.
  /// @param work seconds, or any other unit, of a sample on each rank of a group: `work(length, size)`, positive.
  template <class Work>
  RankDomain(std::span<const Tokens> lengths, std::size_t ranks, std::vector<std::size_t> sizes,
             const Work& work)
      : lengths_(lengths), ranks_(ranks), sizes_(std::move(sizes)) {
    require(!sizes_.empty() && sizes_.back() <= ranks, "groups of ",
            sizes_.empty() ? std::size_t{0} : sizes_.back(), " ranks; expected 1 to ", ranks);
    loads_.reserve(lengths.size() * sizes_.size());
    for (const Tokens length : lengths) {
      for (const std::size_t size : sizes_)
        loads_.push_back({work(length, size), static_cast<double>(length) / static_cast<double>(size)});
    }
  }

  [[nodiscard]] std::size_t samples() const { return lengths_.size(); }
  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] std::size_t sizes() const { return sizes_.size(); }
  [[nodiscard]] std::size_t size(std::size_t place) const { return sizes_[place]; }
  [[nodiscard]] std::span<const Tokens> lengths() const { return lengths_; }
  [[nodiscard]] Tokens length(SampleId id) const { return lengths_[id]; }

  /// Of a sample on each rank of a group whose size stands at `place`.
  [[nodiscard]] double work(SampleId id, std::size_t place) const { return load(id, place).work; }
  /// Tokens of a sample on each rank of such a group.
  [[nodiscard]] double tokens_per_rank(SampleId id, std::size_t place) const {
    return load(id, place).tokens;
  }

  /// Place of the smallest size whose ranks hold at most `limit` tokens each of a sample; `sizes()` if there is none.
  [[nodiscard]] std::size_t least_place(SampleId id, Tokens limit) const {
    std::size_t place = 0;
    while (place < sizes_.size() && tokens_per_rank(id, place) > static_cast<double>(limit)) ++place;
    return place;
  }
  /// Work of all ranks of the smallest group whose ranks hold at most `limit` tokens each of a sample. @pre those of the largest
  /// group do. O(sizes).
  [[nodiscard]] double group_work(SampleId id, Tokens limit) const {
    const std::size_t place = least_place(id, limit);
    return work(id, place) * static_cast<double>(sizes_[place]);
  }
  /// The least limit with which the largest group holds the longest sample. @pre there are samples. O(samples).
  [[nodiscard]] Tokens least_limit() const {
    const auto largest = static_cast<Tokens>(sizes_.back());
    return (*std::max_element(lengths_.begin(), lengths_.end()) + largest - 1) / largest;
  }

 private:
  /// Of a sample on each rank of a group.
  struct Load {
    double work, tokens;
  };
  [[nodiscard]] const Load& load(SampleId id, std::size_t place) const {
    return loads_[id * sizes_.size() + place];
  }

  std::span<const Tokens> lengths_;
  std::size_t ranks_;
  std::vector<std::size_t> sizes_;
  std::vector<Load> loads_;  // [sample * sizes + place]
};

}  // namespace slimpack
