#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/slicing/sample_stream.hpp"

namespace slimpack::detail {

/// The complete samples of a stream that may fill what other samples leave of packs, and the choice of those that fill one.
/// Keeps its memory between calls.
class Fillers {
 public:
  /// Takes a stream whose samples are in no pack. @param on whether any are chosen. O(samples).
  void begin(const SampleStream& stream, bool on) {
    stream_ = stream;
    on_ = on;
    bound_ = 0;
    released_ = 0;
    used_.assign(stream.size(), 0);
    free_.reset(stream.size(), stream.ready.empty());
  }

  /// Whether a sample is in packs as a whole. @param i index into the stream's samples, here and below.
  [[nodiscard]] bool used(std::size_t i) const { return used_[i] != 0; }
  void use(std::size_t i) { used_[i] = 1; }

  /// The sample at a position of the stream's sequence is cut from now on: it fills nothing, nor do samples before it.
  void enter(std::size_t position) {
    head_ = position;
    if (position == stream_.size()) return;
    if (!stream_.ready.empty()) release(stream_.ready[stream_.at(position)]);
    free_.erase(stream_.at(position));
  }

  /// Samples whose forward pass ends in this pack, or before it, may fill.
  [[nodiscard]] std::uint32_t bound() const { return bound_; }

  /// Lets samples whose forward pass ends in a pack up to `bound` fill packs.
  void release(std::uint32_t bound) {
    bound_ = std::max(bound_, bound);
    if (stream_.ready.empty()) return;
    for (; released_ < stream_.size() && stream_.ready[stream_.at(released_)] <= bound_; ++released_) {
      const std::size_t i = stream_.at(released_);
      if (used_[i] == 0 && released_ != head_) free_.insert(i);
    }
  }

  /// Chooses samples greedily, largest first, that together cost at most `budget`. @returns what stays unfilled.
  /// O(log samples) for each.
  double choose(double budget) {
    chosen_.clear();
    if (!on_) return budget;
    const auto& samples = stream_.samples;
    const std::size_t least = free_.last();
    if (least == samples.size() || samples[least].seconds > budget) return budget;
    std::size_t i = 0;
    while (budget > 0.0) {
      const auto fits = std::partition_point(samples.begin() + static_cast<std::ptrdiff_t>(i), samples.end(),
                                             [&](const StreamSample& s) { return s.seconds > budget; });
      i = free_.next(static_cast<std::size_t>(fits - samples.begin()));
      if (i == samples.size()) break;
      chosen_.push_back(i);
      budget -= samples[i].seconds;
      ++i;
    }
    return budget;
  }

  /// Whether the latest choice is empty.
  [[nodiscard]] bool none_chosen() const { return chosen_.empty(); }
  /// Changes places: the latest choice and the one that was kept, which the next call of `choose` leaves alone.
  void swap_kept() { kept_.swap(chosen_); }

  /// Puts the samples that were chosen into a pack.
  void add_chosen(Packs& out) {
    for (const std::size_t i : chosen_) {
      out.add({stream_.samples[i].id, 0, stream_.samples[i].length});
      used_[i] = 1;
      free_.erase(i);
    }
  }

 private:
  SampleStream stream_;
  bool on_ = true;
  std::size_t head_ = 0;  // position of the sample that is cut
  std::uint32_t bound_ = 0;
  std::size_t released_ = 0;        // positions before it were released, or are used
  std::vector<std::uint8_t> used_;  // [sample]
  PositionSet free_;                // samples that may fill
  std::vector<std::size_t> chosen_, kept_;
};

}  // namespace slimpack::detail
