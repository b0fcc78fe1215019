#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/slicing/sample_parts.hpp"

namespace slimpack {

/// A sample cut into slices of about equal time.
struct EqualSlices {
  std::vector<Tokens> sizes;  ///< of the slices, in token order; their sum is the sample's length
  double most = 0.0;          ///< seconds of the longest slice
};

namespace detail {

/// Cuts one sample into a given number of slices, for one limit of seconds after another.
class EqualSlicing {
 public:
  EqualSlicing(const SlicePrices& prices, Tokens length, std::size_t count, Tokens tile)
      : prices_(prices),
        parts_(prices, tile),
        length_(length),
        count_(count),
        tile_(tile),
        whole_(prices(0, length)) {}

  /// The slices of the least limit that is enough for all of the sample.
  [[nodiscard]] EqualSlices operator()() {
    const auto n = static_cast<double>(count_);
    Trial best = cut(whole_);
    double low = 0.0, guess = whole_ / n;
    for (int step = 0; step < most_steps && low < best.most(); ++step) {
      const bool within = guess > low && guess < best.most();
      const double limit = within ? guess : step % 2 == 0 ? low : low + (best.most() - low) / 2.0;
      Trial trial = cut(limit);
      guess = limit + (trial.rest - limit) / n;
      if (trial.most() > limit) low = std::max(std::nextafter(limit, whole_), trial.next);
      if (trial.most() < best.most()) best = std::move(trial);
    }
    EqualSlices out{.sizes = std::move(best.sizes), .most = best.most()};
    if (!parts_.forward()) std::reverse(out.sizes.begin(), out.sizes.end());
    return out;
  }

 private:
  static constexpr int most_steps = 64;

  /// What a limit leads to. The last slice takes the rest, whatever that costs.
  struct Trial {
    std::vector<Tokens> sizes;
    double longest = 0.0;                                   ///< of the slices before the last
    double rest = 0.0;                                      ///< seconds of the last
    double next = std::numeric_limits<double>::infinity();  ///< lower limits lead to the same slices

    [[nodiscard]] double most() const { return std::max(longest, rest); }
  };

  Trial cut(double limit) {
    Trial out;
    BegunSample sample{.length = length_, .seconds = whole_};
    for (std::size_t i = 0; i + 1 < count_; ++i) {
      const Tokens most = most_tokens(sample, count_ - 1 - i);
      SamplePart part{.tokens = most, .seconds = seconds_of(sample, most)};
      if (part.seconds > limit) {
        const SampleParts::Around around = parts_.around(sample, limit);
        part = around.low.tokens > 0 ? around.low : around.high;
        out.next = std::min(out.next, around.high.seconds);
      }
      out.sizes.push_back(part.tokens);
      out.longest = std::max(out.longest, part.seconds);
      sample.seconds = parts_.seconds_left(sample, part);
      sample.taken += part.tokens;
    }
    out.sizes.push_back(sample.rest());
    out.rest = sample.seconds;
    out.next = std::min(out.next, out.most());
    return out;
  }

  /// Tokens that leave a tile for each of `others` slices.
  [[nodiscard]] Tokens most_tokens(const BegunSample& sample, std::size_t others) const {
    const Tokens left = static_cast<Tokens>(others) * tile_;
    return parts_.forward() ? (sample.rest() - 1) / tile_ * tile_ + tile_ - left : sample.rest() - left;
  }
  [[nodiscard]] double seconds_of(const BegunSample& sample, Tokens tokens) const {
    const Slice slice = parts_.slice(sample, tokens);
    return prices_(slice.begin, slice.end);
  }

  const SlicePrices& prices_;
  SampleParts parts_;
  Tokens length_;
  std::size_t count_;
  Tokens tile_;
  double whole_;
};

}  // namespace detail

/// Cuts a sample of `length` tokens into `count` slices so that the one that takes longest takes least: with enough tokens, all
/// take about as long (InfiniPipe, section 3.2: the mesh).
/// @param prices of the pass that is to be balanced. @param tile boundaries are multiples of it, counted from the first token.
/// @throws InvalidInput if there are fewer tiles than slices. O(count) for each of a few limits that are tried.
[[nodiscard]] inline EqualSlices equal_slices(const SlicePrices& prices, Tokens length, std::size_t count,
                                              Tokens tile = 1) {
  require(tile > 0, "tile is ", tile, "; expected a positive number of tokens");
  require(length > 0, "a sample has ", length, " tokens; expected a positive number");
  const Tokens tiles = (length - 1) / tile + 1;
  require(count > 0 && std::cmp_less_equal(count, tiles), "a sample of ", length,
          " tokens is to be cut into ", count, " slices; expected 1 to ", tiles, ", its tiles of ", tile,
          " tokens");
  return detail::EqualSlicing(prices, length, count, tile)();
}

}  // namespace slimpack
