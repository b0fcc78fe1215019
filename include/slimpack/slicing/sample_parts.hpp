#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/slicing/sample_stream.hpp"

namespace slimpack {

/// A sample of which packs hold a part: its first tokens in a forward pass, its last ones in a backward pass.
struct BegunSample {
  std::size_t position = 0;  ///< in the stream's sequence
  SampleId id = 0;
  Tokens length = 0;
  Tokens taken = 0;      ///< tokens that are in packs already
  double seconds = 0.0;  ///< cost of the others

  [[nodiscard]] Tokens rest() const { return length - taken; }
};

/// The next tokens of a sample, up to where it may be cut.
struct SamplePart {
  Tokens tokens = 0;
  double seconds = 0.0;
};

/// Prices parts of samples that end at multiples of a tile (counted from the sample's first token) or at the
/// sample's end. Polynomial prices are inverted in closed form; for others, parts are tried where the latest one found
/// suggests.
class SampleParts {
 public:
  /// @param prices have to outlive this.
  SampleParts(const SlicePrices& prices, Tokens tile)
      : prices_(&prices),
        tile_(tile),
        tiles_per_token_(1.0 / static_cast<double>(tile)),
        additive_(prices.additive()) {}

  [[nodiscard]] bool forward() const { return prices_->pass() == Pass::forward; }

  /// Parts of a sample on both sides of a budget.
  struct Around {
    SamplePart low;   ///< the largest that costs at most the budget; empty if not even one tile does
    SamplePart high;  ///< the next larger one
  };

  /// Parts around `budget`, which is less than the whole rest costs. A closed form may be a token off. O(1) if the
  /// latest part is a good guide, O(log tiles) else.
  [[nodiscard]] Around around(const BegunSample& sample, double budget) {
    const std::int64_t all = tiles(sample);
    if (budget <= 0.0) return {.low = {}, .high = part(sample, 1, all)};
    if (!prices_->polynomial()) return search(sample, budget, all);
    const std::int64_t n = tiles_within(sample, budget, all);
    return {part(sample, n, all), part(sample, n + 1, all)};
  }

  /// Cost of what a part leaves of its sample.
  [[nodiscard]] double seconds_left(const BegunSample& sample, const SamplePart& part) const {
    if (additive_ || part.tokens == 0) return sample.seconds - part.seconds;
    return seconds_of(sample, part.tokens, sample.rest());
  }

  /// What the sample costs more once a part is cut off. @param left cost of what the part leaves.
  [[nodiscard]] double waste(const BegunSample& sample, const SamplePart& part, double left) const {
    return additive_ ? 0.0 : part.seconds + left - sample.seconds;
  }

  /// The slice of a sample's next `size` tokens.
  [[nodiscard]] Slice slice(const BegunSample& sample, Tokens size) const {
    return slice_of(sample, 0, size);
  }

 private:
  /// Number of boundaries in front of a sample that is not taken as a whole.
  [[nodiscard]] std::int64_t tiles(const BegunSample& sample) const {
    return (sample.rest() + tile_ - 1) / tile_;
  }

  /// The part up to the boundary `n` tiles away, 0 <= n <= `all`, the sample's number of them; without what it
  /// leaves.
  [[nodiscard]] SamplePart part(const BegunSample& sample, std::int64_t n, std::int64_t all) const {
    if (n == 0) return {};
    const Tokens size = forward() ? std::min(sample.rest(), n * tile_) : sample.rest() - (all - n) * tile_;
    return {.tokens = size, .seconds = seconds_of(sample, 0, size)};
  }

  /// `around` by trying parts: where the latest one suggests, then along the slope between the two tried last, and by
  /// halves if that takes long.
  [[nodiscard]] Around search(const BegunSample& sample, double budget, std::int64_t all) {
    Around found{.low = {}, .high = {.tokens = sample.rest(), .seconds = sample.seconds}};
    const double begin = position(forward() ? sample.taken : sample.rest());
    const double first = latest_.tile + 2.0 * latest_.growth * (begin - latest_.end),
                 growth = forward() ? latest_.growth : -latest_.growth;
    double next = guess_tiles(budget, first, growth), seconds_before = 0.0;
    std::int64_t low = 0, high = all, tried_before = 0;
    int trials = 0;
    while (high - low > 1) {
      const auto n = static_cast<std::int64_t>(  // the bounds first: what isn't a number is the lower one
          std::min(std::max(static_cast<double>(low + 1), next), static_cast<double>(high - 1)));
      const SamplePart tried = part(sample, n, all);
      const double missing = budget - tried.seconds;
      (missing >= 0.0 ? low : high) = n;
      (missing >= 0.0 ? found.low : found.high) = tried;
      if (high - low <= 1) break;
      const double slope = trials == 0 && first > 0.0
                               ? first + 2.0 * growth * static_cast<double>(n)
                               : (tried.seconds - seconds_before) / static_cast<double>(n - tried_before);
      const std::int64_t middle = low + (high - low) / 2;
      if (++trials > 4) {
        next = static_cast<double>(middle);
      } else if (std::abs(missing) < slope) {
        next = static_cast<double>(missing >= 0.0 ? n + 1 : n - 1);
      } else {
        next = static_cast<double>(n) + missing / slope;
      }
      tried_before = n;
      seconds_before = tried.seconds;
    }
    if (low > 0) remember(found, begin, trials > 1 ? first : 0.0);
    return found;
  }

  /// @param begin where the part begins. @param first what its first tile was thought to cost; 0 keeps the growth.
  void remember(const Around& found, double begin, double first) {
    const double tiles = position(found.low.tokens);
    latest_.tile = found.high.seconds - found.low.seconds;
    latest_.end = forward() ? begin + tiles : begin - tiles;
    if (first > 0.0) latest_.growth = std::abs(found.low.seconds / tiles - first) / tiles;
  }

  /// How many tiles a budget lasts for if n of them cost n * (first + growth * n).
  [[nodiscard]] static double guess_tiles(double budget, double first, double growth) {
    if (first <= 0.0) return 1.0;
    const double root = first * first + 4.0 * growth * budget;
    return 2.0 * budget / (first + (root > 0.0 ? std::sqrt(root) : 0.0));
  }

  /// Tokens in tiles.
  [[nodiscard]] double position(Tokens tokens) const {
    return static_cast<double>(tokens) * tiles_per_token_;
  }

  /// Boundaries that parts of at most `budget` pass, fewer than all; for polynomial prices.
  [[nodiscard]] std::int64_t tiles_within(const BegunSample& sample, double budget, std::int64_t all) const {
    const SliceCoefficients& c = prices_->coefficients();
    const double x =
        forward() ? tokens_after(c, sample.taken, budget) : tokens_before(c, sample.rest(), budget);
    const Tokens n = std::clamp(static_cast<Tokens>(x), Tokens{0}, sample.rest());
    const Tokens passed = forward() ? n / tile_ : all - (sample.rest() - n + tile_ - 1) / tile_;
    return std::min<std::int64_t>(passed, all - 1);
  }

  [[nodiscard]] Slice slice_of(const BegunSample& sample, Tokens from, Tokens to) const {
    return forward() ? Slice{sample.id, sample.taken + from, sample.taken + to}
                     : Slice{sample.id, sample.rest() - to, sample.rest() - from};
  }
  [[nodiscard]] double seconds_of(const BegunSample& sample, Tokens from, Tokens to) const {
    const Slice slice = slice_of(sample, from, to);
    return (*prices_)(slice.begin, slice.end);
  }

  const SlicePrices* prices_;
  Tokens tile_;
  double tiles_per_token_;
  bool additive_;

  /// What the latest part tells of the next: the further a tile is from its sample's start, the more it costs.
  struct Latest {
    double end = 0.0;     ///< where it ended, in tiles from the sample's first token
    double tile = 0.0;    ///< seconds of the next tile
    double growth = 0.0;  ///< half of what each tile costs more than the one before it in the sample
  };
  Latest latest_;
};

}  // namespace slimpack
