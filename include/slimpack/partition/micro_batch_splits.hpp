#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/partition/longest_first.hpp"
#include "slimpack/partition/ordered_parts.hpp"

namespace slimpack {

/// Samples in micro-batches, and what each of these takes.
struct MicroBatchSplit {
  Packs packs = {};                  ///< whole samples, the longest first
  std::vector<double> seconds = {};  ///< [pack] on each stage, both passes
};

namespace detail {

/// Splits samples in order of length into micro-batches of neighbours.
class MicroBatchSplitter {
 public:
  MicroBatchSplitter(std::span<const Tokens> lengths, const Prices& prices)
      : lengths_(lengths),
        by_length_(longest_first(lengths)),
        constant_(prices.pack_seconds(0, Pass::forward) + prices.pack_seconds(0, Pass::backward)),
        seconds_(1, 0.0),
        tokens_(1, 0) {
    const auto stages = static_cast<double>(prices.stages());
    for (const SampleId id : by_length_) {
      seconds_.push_back(seconds_.back() + document_seconds(prices, lengths[id]) / stages);
      tokens_.push_back(tokens_.back() + lengths[id]);
    }
  }

  /// Most tokens that micro-batches of several samples may have from now on.
  void limit(Tokens tokens) { limit_ = tokens; }

  [[nodiscard]] std::size_t samples() const { return by_length_.size(); }

  /// What a micro-batch takes, for `ordered_parts`.
  double operator()(std::size_t begin, std::size_t end) const {
    const bool fits = end - begin == 1 || tokens_[end] - tokens_[begin] <= limit_;
    return fits ? constant_ + seconds_[end] - seconds_[begin] : std::numeric_limits<double>::infinity();
  }

  /// The micro-batches that end at these places of the order.
  [[nodiscard]] MicroBatchSplit micro_batches(std::span<const std::size_t> ends) const {
    MicroBatchSplit out;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      out.seconds.push_back((*this)(begin, end));
      for (; begin < end; ++begin) out.packs.add({by_length_[begin], 0, lengths_[by_length_[begin]]});
      out.packs.close();
    }
    return out;
  }

 private:
  std::span<const Tokens> lengths_;
  std::vector<SampleId> by_length_;  // longest first
  double constant_;
  std::vector<double> seconds_;  // of all samples before
  std::vector<Tokens> tokens_;   // of all samples before
  Tokens limit_ = 0;
};

}  // namespace detail

/// Ways to split samples, sorted by length, into micro-batches (DynaPipe; Jiang et al., EuroSys 2024, section 4): for each limit
/// of tokens, `ordered_parts` with its objective, (stages - 1) * longest + sum / replicas, where the replica with the most work
/// may have more than an equal share of the sum; and the same with the longest micro-batch counting a quarter, half, twice and
/// four times as much. No two are equal.
/// @param prices of the pipelines that run a micro-batch together. @param limits of a micro-batch of several samples.
/// @param replicas that micro-batches will be dealt to. @returns a limit's splits after those of the limits before it.
/// Complexity: that of `ordered_parts`, five times for each limit.
[[nodiscard]] inline std::vector<MicroBatchSplit> micro_batch_splits(std::span<const Tokens> lengths,
                                                                     const Prices& prices,
                                                                     std::span<const Tokens> limits,
                                                                     std::size_t replicas) {
  const auto n = static_cast<double>(replicas);
  // Karmarkar-Karp and LPT alike give a replica at most so much more than an equal share, in longest micro-batches.
  const double imbalance = (n - 1.0) / n;
  const double weight = static_cast<double>(prices.stages() - 1) + imbalance;
  detail::MicroBatchSplitter split(lengths, prices);
  std::set<std::vector<std::size_t>> known;
  std::vector<MicroBatchSplit> splits;
  for (const Tokens limit : limits) {
    split.limit(limit);
    OrderedPartsSolver solver(split.samples(), split);
    for (const double factor : {1.0, 0.5, 2.0, 0.25, 4.0}) {
      const OrderedParts parts =
          solver.solve({.most_weight = factor * weight, .sum_weight = 1.0 / n, .gap = 3e-3});
      if (known.insert(parts.ends).second) splits.push_back(split.micro_batches(parts.ends));
    }
  }
  return splits;
}

}  // namespace slimpack
