#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/slicing/cut_seconds.hpp"
#include "slimpack/slicing/fillers.hpp"
#include "slimpack/slicing/sample_parts.hpp"
#include "slimpack/slicing/sample_stream.hpp"

namespace slimpack {

struct MicroPackOptions {
  /// Slice boundaries are multiples of this many tokens, except the end of a sample; 1 = any boundary.
  Tokens tile = 128;
  /// Where slices cost more than their samples: how far the size that packs aim at may drift from the first pack to the
  /// last, as a share of it.
  double accuracy = 0.01;
  /// Complete short samples fill what an aligned boundary leaves open. Without them, packs take the samples strictly in the
  /// stream's sequence.
  bool fill = true;
  /// A pack may hold the end of a sample that an earlier pack began, and begin one that a later pack ends. Otherwise
  /// samples that are cut never share a pack: complete samples fill what the end of one leaves open.
  bool chained = true;
};

/// Cuts a pipeline's samples into MicroPacks of equal cost (SlimPack, section 4.1.1, Phase 2, and 4.1.2).
/// Keeps its memory between calls.
///
/// The samples are taken in the stream's sequence. Each pack reaches for its share of what is left: long
/// samples are sliced (slim), short ones travel together (pack). Where an aligned boundary leaves a pack
/// short, complete short samples from later in the sequence fill it (mix). The backward pass takes each sample from
/// its end, because a slice's gradients need those of the slices after it, and fills with samples whose
/// forward pass is done by then.
class MicroPackCutter {
 public:
  /// Appends the packs to `out`; returns the sum of their slices' seconds, which exceeds the samples' where a
  /// model makes parts dearer than the whole.
  /// @param packs how many to cut; fewer come out when there are not enough tiles.
  /// @throws InvalidInput if the tile or the number of packs is not positive.
  /// Complexity: O(samples + packs) model evaluations, times O(log length) for a model without closed form;
  /// O(log samples) per filler; up to five times that for a model whose parts don't add up to the whole.
  double cut(const SampleStream& stream, std::size_t packs, const SlicePrices& prices,
             const MicroPackOptions& options, Packs& out) {
    require(options.tile > 0, "tile is ", options.tile, "; expected at least 1 token");
    require(packs > 0 || stream.samples.empty(), "0 packs for ", stream.samples.size(),
            " samples; expected at least 1");
    SampleParts parts(prices, options.tile);
    chained_ = options.chained;
    const std::size_t first = out.size();
    double whole = 0.0;
    Tokens tiles = 0;
    for (const StreamSample& sample : stream.samples) {
      whole += sample.seconds;
      tiles += (sample.length - 1) / options.tile + 1;
    }
    const std::size_t most = std::min(packs, static_cast<std::size_t>(tiles));
    if (out.empty()) out.reserve(most, stream.size() + most);  // each pack divides one sample at most
    guess_waste(stream, packs, prices);
    for (int round = 0; round < most_rounds; ++round) {
      out.truncate(first);
      begin(stream, whole + (waste_.empty() ? 0.0 : waste_.back()), options.fill);
      const double drift = cut_packs(packs, parts, out);
      if (drift <= options.accuracy) break;
    }
    return whole + wasted_;
  }

 private:
  static constexpr int most_rounds = 5;

  /// Guesses what cuts will have made samples dearer after each pack. O(samples + packs).
  void guess_waste(const SampleStream& stream, std::size_t packs, const SlicePrices& prices) {
    waste_.clear();
    if (prices.additive()) return;
    lengths_.clear();
    for (const StreamSample& sample : stream.samples) lengths_.push_back(sample.length);
    const double each = mean_cut_seconds(lengths_, prices);
    for (std::size_t k = 1; k <= packs; ++k) waste_.push_back(each * static_cast<double>(k));
  }

  /// Cuts all packs, and corrects on the way the total that equal packs share: slices can cost more than their sample,
  /// so the total is known only after cutting. What is still to be wasted is what was guessed, or what the round before
  /// wasted after the same pack. @returns how far the total drifted, as a share of it.
  double cut_packs(std::size_t packs, SampleParts& parts, Packs& out) {
    const double guess = left_;
    double drift = 0.0, least = guess, most = guess;
    std::size_t k = 0;
    for (; k < packs && !done(); ++k) {
      cut_pack(k, packs - k, parts, out);
      if (waste_.empty()) continue;
      const double change = wasted_ - waste_[k] - drift;
      left_ += change;
      drift += change;
      waste_[k] = wasted_;
      least = std::min(least, guess + drift);
      most = std::max(most, guess + drift);
    }
    for (; k < waste_.size(); ++k) waste_[k] = wasted_;
    return most > least ? most / least - 1.0 : 0.0;
  }

  void begin(const SampleStream& stream, double expected, bool fill) {
    stream_ = stream;
    left_ = expected;
    wasted_ = 0.0;
    fillers_.begin(stream, fill);
    enter_head(0);
    first_bound_ = fillers_.bound();
  }

  [[nodiscard]] bool done() const { return head_.position == stream_.size(); }

  /// The sample at a position, no part of it taken.
  [[nodiscard]] BegunSample untouched(std::size_t position) const {
    if (position == stream_.size()) return {.position = position};
    const StreamSample& sample = stream_.samples[stream_.at(position)];
    return {position, sample.id, sample.length, 0, sample.seconds};
  }

  void cut_pack(std::size_t k, std::size_t share, SampleParts& parts, Packs& out) {
    const bool last = share == 1;
    const double target = last ? std::numeric_limits<double>::infinity() : left_ / static_cast<double>(share);
    double filled = 0.0;
    bool cuts = true;  // whether the pack may begin a sample without ending it
    while (!done() && (last || filled + head_.seconds <= target)) {
      filled += head_.seconds;
      cuts = cuts && (chained_ || head_.taken == 0);
      out.add(parts.slice(head_, head_.rest()));
      finish_head();
    }
    if (!done()) {
      filled += cuts ? complete(k, target, filled, parts, out) : fill_up(k, target - filled, out);
    }
    left_ -= filled;
    out.close();
  }

  /// Brings a pack from `filled` to about `target`, which is less than the head's rest. What the pack then lacks, or
  /// has too much, counts as much as what a cut wastes. Returns the cost added.
  double complete(std::size_t k, double target, double filled, SampleParts& parts, Packs& out) {
    const double budget = target - filled;
    fillers_.release(first_bound_ + static_cast<std::uint32_t>(k));
    auto [low, high] = parts.around(head_, budget);
    double unfilled = fillers_.choose(budget - low.seconds), left = parts.seconds_left(head_, low);
    double loss = std::abs(unfilled) + parts.waste(head_, low, left);
    if (filled > 0.0 && loss > unfilled) {
      fillers_.swap_kept();
      const double uncut = fillers_.choose(budget);
      if (uncut < loss) {
        low = {};
        left = head_.seconds;
        loss = unfilled = uncut;
      } else {
        fillers_.swap_kept();
      }
    }
    const bool empty = low.tokens == 0 && fillers_.none_chosen() && filled == 0.0;
    const double excess = high.seconds - budget;
    // What a cut wastes comes on top: it makes no sample cheaper.
    if (empty || excess < loss) {
      const double left_high = parts.seconds_left(head_, high);
      if (empty || excess + parts.waste(head_, high, left_high) < loss)
        return take(high, left_high, parts, out);
    }
    take(low, left, parts, out);
    fillers_.add_chosen(out);
    return budget - unfilled;
  }

  /// Fills a pack with complete samples alone. Returns the cost added.
  double fill_up(std::size_t k, double budget, Packs& out) {
    fillers_.release(first_bound_ + static_cast<std::uint32_t>(k));
    const double unfilled = fillers_.choose(budget);
    fillers_.add_chosen(out);
    return budget - unfilled;
  }

  /// Puts a part of the head into the pack; what stays costs `left`. Returns the part's cost.
  double take(const SamplePart& part, double left, const SampleParts& parts, Packs& out) {
    if (part.tokens == 0) return 0.0;
    out.add(parts.slice(head_, part.tokens));
    wasted_ += part.seconds + left - head_.seconds;
    head_.seconds = left;
    head_.taken += part.tokens;
    if (head_.rest() == 0) finish_head();
    return part.seconds;
  }

  void finish_head() {
    fillers_.use(stream_.at(head_.position));
    enter_head(head_.position + 1);
  }

  /// Moves on to the next sample that no pack holds as a whole.
  void enter_head(std::size_t position) {
    while (position < stream_.size() && fillers_.used(stream_.at(position))) ++position;
    head_ = untouched(position);
    fillers_.enter(position);
  }

  bool chained_ = true;  // as in the options
  SampleStream stream_;
  BegunSample head_;     // the first sample that is not in packs as a whole
  double left_ = 0.0;    // cost expected of everything that is not in a pack yet
  double wasted_ = 0.0;  // what cuts have made samples dearer
  std::vector<Tokens> lengths_;
  std::vector<double>
      waste_;  // [pack] `wasted_` after it, as guessed or in the round before; empty if prices add up
  std::uint32_t first_bound_ = 0;  // forward pack whose samples may fill the first pack
  detail::Fillers fillers_;
};

}  // namespace slimpack
