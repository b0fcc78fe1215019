#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/inverse.hpp"

namespace slimpack {

/// A sample on its way into packs.
struct StreamSample {
  SampleId id = 0;
  Tokens length = 0;
  double seconds = 0.0;  ///< cost of the whole sample over all stages, in the pass that is cut
};

/// The samples of one pipeline and the sequence in which a pass takes them.
struct SampleStream {
  /// Longest first; so their `seconds` fall, too.
  std::span<const StreamSample> samples;
  /// Sequence as indices into `samples`; empty = as they stand.
  std::span<const std::uint32_t> order = {};
  /// Backward pass: the forward pack that ends each sample, in the order of `samples`; rises along `order`. Empty = no
  /// sample has to wait.
  std::span<const std::uint32_t> ready = {};
};

struct MicroPackOptions {
  /// Slice boundaries are multiples of this many tokens, except the end of a sample; 1 = any boundary.
  Tokens tile = 128;
};

/// How a pack came about (SlimPack, section 4 and Figure 4).
enum class Formation : std::uint8_t {
  slim,   ///< one slice of one longer sample
  mix,    ///< slices of longer samples beside other slices
  whole,  ///< complete samples only: the paper's "pack"
};

/// Formation of a pack; `lengths[sample]` is the length of each sample of the batch.
[[nodiscard]] inline Formation formation(std::span<const Slice> pack, std::span<const Tokens> lengths) {
  const bool all_whole = std::all_of(
      pack.begin(), pack.end(), [&](const Slice& slice) { return slice.size() == lengths[slice.sample]; });
  if (all_whole) return Formation::whole;
  return pack.size() == 1 ? Formation::slim : Formation::mix;
}

namespace detail {

/// A set of positions in which the next member at or behind a position is found word by word.
class PositionSet {
 public:
  void reset(std::size_t size, bool member) {
    size_ = size;
    words_.assign(size / 64 + 1, member ? ~std::uint64_t{0} : 0);
  }
  void insert(std::size_t i) { words_[i / 64] |= bit(i); }
  void erase(std::size_t i) { words_[i / 64] &= ~bit(i); }

  /// First member >= i; the set's size if there is none.
  [[nodiscard]] std::size_t next(std::size_t i) const {
    if (i >= size_) return size_;
    std::size_t w = i / 64;
    std::uint64_t word = words_[w] & (~std::uint64_t{0} << (i % 64));
    while (word == 0 && ++w < words_.size()) word = words_[w];
    return word == 0 ? size_ : std::min(size_, 64 * w + static_cast<std::size_t>(std::countr_zero(word)));
  }

 private:
  static constexpr std::uint64_t bit(std::size_t i) { return std::uint64_t{1} << (i % 64); }
  std::size_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace detail

/// Cuts a pipeline's samples into MicroPacks of equal cost (SlimPack, section 4.1.1, Phase 2, and 4.1.2). Keeps its
/// memory between calls.
///
/// The samples are taken in the stream's sequence. Each pack reaches for its share of what is left: long samples
/// are sliced (slim), short ones travel together (pack). Where an aligned boundary leaves a pack short, complete
/// short samples from further behind fill it (mix). The backward pass takes each sample from its end, because a
/// slice's gradients need those of the slices behind it, and fills with samples whose forward pass is done by then.
class MicroPackCutter {
 public:
  /// Appends the packs to `out`; returns the sum of their slices' seconds, which exceeds the samples' where a model
  /// makes parts dearer than the whole.
  /// @param packs how many to cut; fewer come out when there are not enough tiles.
  /// @throws InvalidInput if the tile or the number of packs is not positive.
  /// Complexity: O(samples + packs) model evaluations, times O(log length) for a model without closed form;
  /// O(log samples) per filler.
  template <CostModel M>
  double cut(const SampleStream& stream, std::size_t packs, const M& cost, Pass pass,
             const MicroPackOptions& options, Packs& out) {
    require(options.tile > 0, "tile is ", options.tile, "; expected at least 1 token");
    require(packs > 0 || stream.samples.empty(), "0 packs for ", stream.samples.size(),
            " samples; expected at least 1");
    const std::size_t first = out.size();
    double expected = 0.0;
    for (const StreamSample& sample : stream.samples) expected += sample.seconds;
    for (int round = 0; round < most_rounds; ++round) {
      out.truncate(first);
      begin(stream, pass, options.tile, expected);
      for (std::size_t k = 0; k < packs && !done(); ++k) cut_pack(k, packs - k, cost, out);
      if (std::abs(left_) <= 1e-3 * expected) break;
      expected -= left_;
    }
    return expected;
  }

 private:
  /// Slices can cost more than their sample (communication that each slice repeats); the total that packs share is
  /// then known only afterwards.
  static constexpr int most_rounds = 6;

  void begin(const SampleStream& stream, Pass pass, Tokens tile, double expected) {
    stream_ = stream;
    forward_ = pass == Pass::forward;
    pass_ = pass;
    tile_ = tile;
    taken_ = 0;
    head_ = 0;
    released_ = 0;
    bound_ = 0;
    left_ = expected;
    used_.assign(stream.samples.size(), 0);
    fillers_.reset(stream.samples.size(), stream.ready.empty());
    enter_head();
    first_bound_ = bound_;
  }

  [[nodiscard]] std::size_t at(std::size_t position) const {
    return stream_.order.empty() ? position : stream_.order[position];
  }
  [[nodiscard]] bool done() const { return head_ == stream_.samples.size(); }
  [[nodiscard]] const StreamSample& current() const { return stream_.samples[at(head_)]; }

  template <CostModel M>
  void cut_pack(std::size_t k, std::size_t share, const M& cost, Packs& out) {
    const bool last = share == 1;
    const double target = last ? std::numeric_limits<double>::infinity() : left_ / static_cast<double>(share);
    double filled = 0.0;
    while (!done() && (last || filled + rest_ <= target)) {
      filled += rest_;
      take(current().length - taken_, 0.0, out);
    }
    if (!done()) filled += take_part(k, target - filled, filled > 0.0, cost, out);
    left_ -= filled;
    out.close();
  }

  /// Completes a pack that lacks `budget` with an aligned part of the current sample: the part just below the
  /// budget with fillers on top, or the part just above, whichever ends up nearer. Returns the cost added.
  template <CostModel M>
  double take_part(std::size_t k, double budget, bool may_take_nothing, const M& cost, Packs& out) {
    const auto [low, high] = aligned_around(budget, cost);
    release(first_bound_ + static_cast<std::uint32_t>(k));
    fillers_.erase(at(head_));
    const double gap = select_fillers(budget - low.seconds);
    const bool overshoot = high.seconds - budget < gap;
    const bool round_up = overshoot || (low.tokens == 0 && chosen_.empty() && !may_take_nothing);
    if (round_up) {
      for (const std::size_t i : chosen_) fillers_.insert(i);
      take(high.tokens, high.remaining, out);
      return high.seconds;
    }
    if (low.tokens > 0) take(low.tokens, low.remaining, out);
    for (const std::size_t i : chosen_) {
      const StreamSample& sample = stream_.samples[i];
      out.add({sample.id, 0, sample.length});
      used_[i] = 1;
    }
    return budget - gap;
  }

  /// Takes fillers greedily, largest first, that together cost at most `budget`; returns what stays unfilled.
  double select_fillers(double budget) {
    chosen_.clear();
    const auto& samples = stream_.samples;
    std::size_t i = 0;
    while (budget > 0.0) {
      const auto fits = std::partition_point(samples.begin() + static_cast<std::ptrdiff_t>(i), samples.end(),
                                             [&](const StreamSample& s) { return s.seconds > budget; });
      i = fillers_.next(static_cast<std::size_t>(fits - samples.begin()));
      if (i == samples.size()) break;
      fillers_.erase(i);
      chosen_.push_back(i);
      budget -= samples[i].seconds;
    }
    return budget;
  }

  struct AlignedPart {
    Tokens tokens;
    double seconds;
    double remaining;  // cost of the sample's tokens behind it
  };
  struct Around {
    AlignedPart low, high;
  };

  /// Parts of the current sample on both sides of `budget` at which it may be cut.
  template <CostModel M>
  [[nodiscard]] Around aligned_around(double budget, const M& cost) const {
    const Tokens length = current().length;
    bool quadratic = false;
    if constexpr (QuadraticCostModel<M>) quadratic = cost.is_quadratic();
    const auto cost_of = [&](Tokens from, Tokens to) {
      return forward_ ? pipeline_seconds(cost, from, to, pass_)
                      : pipeline_seconds(cost, length - to, length - from, pass_);
    };
    const auto part = [&](Tokens tokens) {
      if (tokens == 0) return AlignedPart{0, 0.0, rest_};
      const double seconds = cost_of(taken_, taken_ + tokens);
      // Only polynomial costs are sure to add up.
      return AlignedPart{tokens, seconds, quadratic ? rest_ - seconds : cost_of(taken_ + tokens, length)};
    };
    const Tokens fitting = fitting_tokens(budget, cost);
    if (forward_) {
      const Tokens end = taken_ + fitting;
      const Tokens low = std::max(taken_, end / tile_ * tile_);
      return {part(low - taken_), part(std::min(length, (end / tile_ + 1) * tile_) - taken_)};
    }
    const Tokens top = length - taken_, begin = top - fitting;
    const Tokens low = std::min(top, (begin + tile_ - 1) / tile_ * tile_);
    const Tokens high = begin == 0 ? 0 : (begin - 1) / tile_ * tile_;
    return {part(top - low), part(top - high)};
  }

  /// Next tokens of the current sample that cost about `budget`, which is less than they all cost. A closed form may
  /// be a token off; boundaries are compared by their cost afterwards.
  template <CostModel M>
  [[nodiscard]] Tokens fitting_tokens(double budget, const M& cost) const {
    const Tokens length = current().length, left = length - taken_;
    if constexpr (QuadraticCostModel<M>) {
      if (cost.is_quadratic()) {
        const SliceCoefficients& c = cost.pipeline_coefficients(pass_);
        const double x = forward_ ? tokens_after(c, taken_, budget) : tokens_before(c, left, budget);
        return std::clamp(static_cast<Tokens>(x), Tokens{0}, left - 1);
      }
    }
    return forward_ ? longest_slice(cost, taken_, length, budget, pass_) - taken_
                    : left - longest_slice_before(cost, left, Tokens{0}, budget, pass_);
  }

  /// Takes `n` tokens of the current sample, after which `remaining` is the cost of the others.
  void take(Tokens n, double remaining, Packs& out) {
    const StreamSample& sample = current();
    out.add(forward_ ? Slice{sample.id, taken_, taken_ + n}
                     : Slice{sample.id, sample.length - taken_ - n, sample.length - taken_});
    taken_ += n;
    rest_ = remaining;
    if (taken_ == sample.length) {
      used_[at(head_)] = 1;
      fillers_.erase(at(head_));
      ++head_;
      enter_head();
    }
  }

  /// Moves on to the next sample that no pack holds yet.
  void enter_head() {
    while (!done() && used_[at(head_)] != 0) ++head_;
    taken_ = 0;
    rest_ = done() ? 0.0 : current().seconds;
    if (!done() && !stream_.ready.empty()) release(stream_.ready[at(head_)]);
  }

  /// Lets samples whose forward pass ends in a pack up to `bound` serve as fillers.
  void release(std::uint32_t bound) {
    bound_ = std::max(bound_, bound);
    if (stream_.ready.empty()) return;
    for (; released_ < stream_.samples.size() && stream_.ready[at(released_)] <= bound_; ++released_) {
      if (used_[at(released_)] == 0) fillers_.insert(at(released_));
    }
  }

  SampleStream stream_;
  bool forward_ = true;
  Pass pass_ = Pass::forward;
  Tokens tile_ = 1;
  std::size_t head_ = 0;  // position in the sequence
  Tokens taken_ = 0;      // tokens of the current sample that are in packs already
  double rest_ = 0.0;     // cost of its other tokens
  double left_ = 0.0;     // cost expected of everything that is not in a pack yet
  std::uint32_t bound_ = 0;
  std::uint32_t first_bound_ = 0;
  std::size_t released_ = 0;
  std::vector<std::uint8_t> used_;
  detail::PositionSet fillers_;
  std::vector<std::size_t> chosen_;
};

/// One call of MicroPackCutter for samples without a sequence of their own.
template <CostModel M>
void cut_micropacks(std::span<const StreamSample> samples, std::size_t packs, const M& cost, Pass pass,
                    const MicroPackOptions& options, Packs& out) {
  MicroPackCutter().cut({.samples = samples}, packs, cost, pass, options, out);
}

}  // namespace slimpack
