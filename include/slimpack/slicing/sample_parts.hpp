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
  double behind = 0.0;  ///< cost of the sample's tokens behind it
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
    Around parts;
    if (budget <= 0.0) {
      parts.high = part(sample, 1, all);
    } else if (quadratic_) {
      const std::int64_t n = tiles_within(sample, budget, all);
      parts = {part(sample, n, all), part(sample, n + 1, all)};
    } else {
      parts = search(sample, budget, all, hint);
    }
    parts.low.behind = seconds_behind(sample, parts.low);
    parts.high.behind = seconds_behind(sample, parts.high);
    return parts;
  }

  /// What cutting a part off makes the sample dearer.
  [[nodiscard]] double waste(const BegunSample& sample, const SamplePart& part) const {
    return quadratic_ ? 0.0 : part.seconds + part.behind - sample.seconds;
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

  /// Only polynomial costs are sure to add up.
  [[nodiscard]] double seconds_behind(const BegunSample& sample, const SamplePart& part) const {
    if (quadratic_ || part.tokens == 0) return sample.seconds - part.seconds;
    return seconds_of(sample, part.tokens, sample.rest());
  }

  /// The part up to the boundary `n` tiles away, 0 <= n <= `all`, the sample's number of them; without what stays
  /// behind.
  [[nodiscard]] SamplePart part(const BegunSample& sample, std::int64_t n, std::int64_t all) const {
    if (n == 0) return {};
    const Tokens size = forward() ? std::min(sample.rest(), n * tile_) : sample.rest() - (all - n) * tile_;
    return {.tokens = size, .seconds = seconds_of(sample, 0, size)};
  }

  /// `around` by trying parts.
  [[nodiscard]] Around search(const BegunSample& sample, double budget, std::int64_t all, Tokens hint) const {
    Around found{.low = {}, .high = {.tokens = sample.rest(), .seconds = sample.seconds}};
    std::int64_t low = 0, high = all, next = hint / tile_;
    for (int trials = 0; high - low > 1; ++trials) {
      const std::int64_t n = std::clamp(next, low + 1, high - 1);
      const SamplePart tried = part(sample, n, all);
      const bool within = tried.seconds <= budget;
      (within ? low : high) = n;
      (within ? found.low : found.high) = tried;
      const double guess = budget / tried.seconds * static_cast<double>(n);
      next = trials < 3 && guess < static_cast<double>(high) ? static_cast<std::int64_t>(guess)
                                                             : low + (high - low) / 2;
    }
    return found;
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
