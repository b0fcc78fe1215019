#pragma once

#include "slimpack/core/ids.hpp"

namespace slimpack {

/// Floating-point operations of one transformer layer: dense products, and attention proper.
struct Flops {
  double linear = 0.0;
  double attention = 0.0;

  [[nodiscard]] constexpr double total() const { return linear + attention; }
  constexpr Flops& operator+=(const Flops& other) {
    linear += other.linear;
    attention += other.attention;
    return *this;
  }
};

/// Twice the number of (query, key) pairs of causal tokens `[begin, end)`, in which token i attends to i + 1
/// tokens: `end (end + 1) - begin (begin + 1)`, factored so that nothing cancels.
[[nodiscard]] constexpr double twice_causal_pairs(Tokens begin, Tokens end) {
  return static_cast<double>(end - begin) * (static_cast<double>(end) + static_cast<double>(begin) + 1.0);
}

}  // namespace slimpack
