#pragma once

#include <cstddef>
#include <span>

#include "slimpack/core/ids.hpp"

namespace slimpack::kernels {

/// Consecutive tokens `[begin, end)` of a sample, counted from the sample's first token.
struct Positions {
  Tokens begin = 0;
  Tokens end = 0;

  [[nodiscard]] constexpr std::size_t size() const { return static_cast<std::size_t>(end - begin); }
  friend bool operator==(const Positions&, const Positions&) = default;
};

[[nodiscard]] constexpr std::size_t count(std::span<const Positions> ranges) {
  std::size_t sum = 0;
  for (const Positions& range : ranges) sum += range.size();
  return sum;
}

}  // namespace slimpack::kernels
