#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/cost/prices.hpp"

namespace slimpack {

/// What samples take in both passes, alone and on each member of groups of pipelines (DP-Merge).
///
/// The stage with the most work sets the pace of a pipeline, so samples are priced there: their shares of its time
/// differ (an output head costs per token, attention per pair of tokens). Slices cost more than their sample: each reads
/// the keys before it, and of a merged sample repeats some of the communication.
class SamplePrices {
 public:
  /// Finds the busiest stage and prices all samples there. @param by_length the samples, longest first: those are
  /// merged. @throws InvalidInput if the model gives no durations.
  SamplePrices(std::span<const Tokens> lengths, std::span<const SampleId> by_length, GroupPrices& prices)
      : lengths_(lengths), prices_(prices), rank_(lengths.size()) {
    find_busiest_stage();
    whole_.reserve(lengths.size());
    for (const Tokens length : lengths) whole_.push_back(both_passes(prices.alone(), 0, length));
    alone_ = whole_;
    for (std::size_t r = 0; r < by_length.size(); ++r) rank_[by_length[r]] = static_cast<std::uint32_t>(r);
  }

  /// The busiest stage.
  [[nodiscard]] std::size_t stage() const { return stage_; }
  /// Of a sample on one pipeline, uncut.
  [[nodiscard]] double whole(SampleId id) const { return whole_[id]; }
  /// The same on each of `size` members. @pre the model can merge so many pipelines.
  [[nodiscard]] double whole_on(SampleId id, std::size_t size) {
    return both_passes(prices_.shared_by(size), 0, lengths_[id]);
  }
  /// Of a sample on one pipeline in slices, once it is known how long these are.
  [[nodiscard]] double alone(SampleId id) const { return alone_[id]; }

  /// Of a sample on each of `size` members. Merged samples are priced in slices, because every slice repeats some of
  /// the communication.
  /// @pre the model can merge so many pipelines.
  double on(SampleId id, std::size_t size) {
    if (size == 1) return alone_[id];
    if (merged_.size() <= size) merged_.resize(size + 1);
    std::vector<double>& known = merged_[size];
    const std::size_t rank = rank_[id];
    if (known.size() <= rank) known.resize(rank + 1, unknown);
    double& seconds = known[rank];
    if (seconds == unknown) {
      seconds = sliced_seconds(prices_.shared_by(size), lengths_[id], whole_[id] / static_cast<double>(size));
      require(seconds >= 0.0, "the cost model takes ", seconds, " seconds for sample ", id, " of ",
              lengths_[id], " tokens on each of ", size,
              " merged pipelines; expected zero or a positive number");
    }
    return seconds;
  }

  /// Says how long slices take from now on, about. O(samples).
  void set_slice_seconds(double seconds) {
    slice_seconds_ = seconds;
    for (std::vector<double>& known : merged_) known.clear();
    if (SlicePrices(prices_.alone(), Pass::forward).additive() &&
        SlicePrices(prices_.alone(), Pass::backward).additive())
      return;
    for (std::size_t i = 0; i < lengths_.size(); ++i)
      alone_[i] = sliced_seconds(prices_.alone(), lengths_[i], whole_[i]);
  }

 private:
  /// Most slices of a sample that are priced for all of them.
  static constexpr Tokens most_priced = 8;

  static constexpr double unknown = -1.0;

  void find_busiest_stage() {
    std::vector<double> seconds(prices_.alone().stages(), 0.0);
    add_sample_seconds(prices_.alone(), lengths_, seconds);
    const auto most = std::max_element(seconds.begin(), seconds.end());
    require(*most > 0.0, "the cost model takes 0 seconds for all ", lengths_.size(),
            " samples; expected some work");
    stage_ = static_cast<std::size_t>(most - seconds.begin());
  }

  [[nodiscard]] double both_passes(const Prices& prices, Tokens begin, Tokens end) const {
    return prices.slice_seconds(stage_, begin, end, Pass::forward) +
           prices.slice_seconds(stage_, begin, end, Pass::backward);
  }

  /// Work of a sample in slices of about `slice_seconds_`, by one in the middle of each of some parts: how much
  /// communication a slice repeats depends on its length and on what comes before it. @param share the work uncut,
  /// about.
  [[nodiscard]] double sliced_seconds(const Prices& prices, Tokens length, double share) const {
    const bool few = share < static_cast<double>(most_priced) * slice_seconds_;
    const Tokens parts = few ? std::max(Tokens{1}, static_cast<Tokens>(share / slice_seconds_)) : most_priced;
    double seconds = 0.0;
    for (Tokens i = 0; i < parts; ++i) {
      const Tokens begin = length * i / parts, end = length * (i + 1) / parts;
      double part = both_passes(prices, begin, end);
      if (part > slice_seconds_) {
        const auto tokens = static_cast<double>(end - begin);
        const auto size = std::max(Tokens{1}, static_cast<Tokens>(tokens * slice_seconds_ / part));
        const Tokens first = begin + (end - begin - size) / 2;
        part = both_passes(prices, first, first + size) * tokens / static_cast<double>(size);
      }
      seconds += part;
    }
    return seconds;
  }

  std::span<const Tokens> lengths_;
  GroupPrices& prices_;
  std::size_t stage_ = 0;              // the busiest
  std::vector<double> whole_, alone_;  // [sample] on one pipeline, uncut and in slices
  double slice_seconds_ = std::numeric_limits<double>::infinity();
  std::vector<std::uint32_t> rank_;          // [sample] place among all, longest first
  std::vector<std::vector<double>> merged_;  // [size][rank], as far as they were asked for
};

}  // namespace slimpack
