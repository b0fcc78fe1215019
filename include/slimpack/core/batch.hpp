#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// What happens to a sample that is longer than the context.
enum class LongSamples : std::uint8_t {
  error,     ///< refuse the batch
  truncate,  ///< keep the first `context` tokens
  split,     ///< make several samples of it, each of at most `context` tokens
};

/// Samples of at most `context` tokens that lengths make once they are split. @pre lengths and context are positive,
/// and the sum of the lengths fits 63 bits. O(lengths).
[[nodiscard]] inline std::size_t count_pieces(std::span<const Tokens> lengths, Tokens context) {
  std::size_t pieces = 0;
  for (const Tokens length : lengths) pieces += static_cast<std::size_t>((length - 1) / context + 1);
  return pieces;
}

/// Checks lengths and applies the policy for samples above the context.
/// @returns the lengths to plan for; with `split` there can be more of them than came in, in the same order.
/// @throws InvalidInput naming the first sample whose length is not positive, or above the context where that
/// is an error, and if there are no samples or more than ids can count.
[[nodiscard]] inline std::vector<Tokens> apply_context(std::span<const Tokens> lengths, Tokens context,
                                                       LongSamples policy) {
  require(context > 0, "context is ", context, "; expected a positive number of tokens");
  require(!lengths.empty(), "the batch has no samples; expected at least one");
  constexpr std::size_t most = std::numeric_limits<SampleId>::max();
  std::size_t samples = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const Tokens length = lengths[i];
    require(length > 0, "sample ", i, " has ", length, " tokens; expected a positive number");
    require(length <= context || policy != LongSamples::error, "sample ", i, " has ", length,
            " tokens; expected at most the context of ", context, " (or truncate or split longer samples)");
    samples += policy == LongSamples::split ? count_pieces({&length, 1}, context) : 1;
    require(samples <= most, "the batch has ", samples, " samples up to number ", i, "; expected at most ",
            most);
  }
  std::vector<Tokens> result;
  result.reserve(samples);
  for (const Tokens length : lengths) {
    result.push_back(std::min(length, context));
    if (policy != LongSamples::split) continue;
    for (Tokens rest = length - context; rest > 0; rest -= context) result.push_back(std::min(rest, context));
  }
  return result;
}

/// Checks that a batch can be planned. @throws InvalidInput naming the first bad sample.
inline void validate_batch(std::span<const Tokens> lengths) {
  require(!lengths.empty(), "the batch has no samples; expected at least one");
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require(lengths[i] > 0, "sample ", i, " has ", lengths[i], " tokens; expected a positive number");
    require(lengths[i] <= Tokens{1} << 40, "sample ", i, " has ", lengths[i],
            " tokens; expected at most 2^40");
  }
}

/// Pipelines of a layout that may have fewer samples: planners look at each of them.
inline constexpr std::size_t most_idle_pipelines = std::size_t{1} << 16;

/// The same on `dp` pipelines. @throws InvalidInput as above, or if nobody could want so many.
inline void validate_batch(std::span<const Tokens> lengths, std::int32_t dp) {
  validate_batch(lengths);
  const std::size_t most = std::max(lengths.size(), most_idle_pipelines);
  require(static_cast<std::size_t>(dp) <= most, "dp is ", dp, "; expected at most ", most, " pipelines for ",
          lengths.size(), " samples");
}

}  // namespace slimpack
