#pragma once

#include <algorithm>
#include <cstddef>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/inverse.hpp"
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
/// sample's end. `M` is any cost model; one that is quadratic is inverted in closed form.
template <CostModel M>
class SampleParts {
 public:
  SampleParts(const M& cost, Pass pass, Tokens tile) : cost_(&cost), pass_(pass), tile_(tile) {
    if constexpr (QuadraticCostModel<M>) quadratic_ = cost.is_quadratic();
  }

  [[nodiscard]] bool forward() const { return pass_ == Pass::forward; }

  /// Parts of a sample on both sides of a budget.
  struct Around {
    SamplePart low;   ///< the largest that costs at most the budget; empty if not even one tile does
    SamplePart high;  ///< the next larger one
  };

  /// Parts around `budget`, which is less than the whole rest costs. A closed form may be a token off;
  /// elsewhere, equal costs per tile are guessed from a part of about `hint` tokens first. O(1) if the guess
  /// is good, O(log tiles) else.
  [[nodiscard]] Around around(const BegunSample& sample, double budget, Tokens hint = 0) const {
    const std::int64_t all = tiles(sample);
    if (budget <= 0.0) return {{}, part(sample, 1)};
    if (quadratic_) {
      const std::int64_t n = tiles_within(sample, budget, all);
      return {part(sample, n), part(sample, n + 1)};
    }
    std::int64_t low = 0, high = all;
    SamplePart below, above{sample.rest(), sample.seconds};
    const auto narrow = [&](std::int64_t n) {
      if (n <= low || n >= high) return;
      const SamplePart p = part(sample, n);
      (p.seconds <= budget ? low : high) = n;
      (p.seconds <= budget ? below : above) = p;
    };
    narrow(std::clamp<std::int64_t>(hint / tile_, 1, all));
    int trials = 0;
    while (high - low > 1) {
      const bool from_below = low > 0;
      const double known = static_cast<double>(from_below ? low : high);
      const double guess = budget / (from_below ? below.seconds : above.seconds) * known;
      const auto n = trials++ < 3 ? static_cast<std::int64_t>(std::min(guess, static_cast<double>(all)))
                                  : low + (high - low) / 2;
      narrow(std::clamp(n, low + 1, high - 1));
      narrow(low + 1);
    }
    return {below, above};
  }

  /// Cost of a sample's tokens behind a part. Only polynomial costs are sure to add up.
  [[nodiscard]] double seconds_behind(const BegunSample& sample, const SamplePart& part) const {
    return quadratic_ ? sample.seconds - part.seconds : seconds_of(sample, part.tokens, sample.rest());
  }

  /// What cutting a part off makes the sample dearer.
  [[nodiscard]] double waste(const BegunSample& sample, const SamplePart& part) const {
    if (quadratic_ || part.tokens == 0) return 0.0;
    return part.seconds + seconds_behind(sample, part) - sample.seconds;
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

  /// The part up to the boundary `n` tiles away, 0 <= n <= tiles(sample).
  [[nodiscard]] SamplePart part(const BegunSample& sample, std::int64_t n) const {
    if (n == 0) return {};
    const Tokens size =
        forward() ? std::min(sample.rest(), n * tile_) : sample.rest() - (tiles(sample) - n) * tile_;
    return {size, seconds_of(sample, 0, size)};
  }

  /// Boundaries that parts of at most `budget` pass, fewer than all; for a quadratic model.
  [[nodiscard]] std::int64_t tiles_within(const BegunSample& sample, double budget, std::int64_t all) const {
    if constexpr (QuadraticCostModel<M>) {
      const SliceCoefficients& c = cost_->pipeline_coefficients(pass_);
      const double x =
          forward() ? tokens_after(c, sample.taken, budget) : tokens_before(c, sample.rest(), budget);
      const Tokens n = std::clamp(static_cast<Tokens>(x), Tokens{0}, sample.rest());
      const Tokens passed = forward() ? n / tile_ : all - (sample.rest() - n + tile_ - 1) / tile_;
      return std::min<std::int64_t>(passed, all - 1);
    }
    return 0;
  }

  [[nodiscard]] Slice slice_of(const BegunSample& sample, Tokens from, Tokens to) const {
    return forward() ? Slice{sample.id, sample.taken + from, sample.taken + to}
                     : Slice{sample.id, sample.rest() - to, sample.rest() - from};
  }
  [[nodiscard]] double seconds_of(const BegunSample& sample, Tokens from, Tokens to) const {
    const Slice slice = slice_of(sample, from, to);
    return pipeline_seconds(*cost_, slice.begin, slice.end, pass_);
  }

  const M* cost_;
  Pass pass_;
  Tokens tile_;
  bool quadratic_ = false;
};

}  // namespace slimpack
