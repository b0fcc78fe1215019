#pragma once

#include <cstddef>

namespace slimpack::kernels {

/// Places `[begin, end)` of an array.
struct Part {
  std::size_t begin = 0, end = 0;

  [[nodiscard]] constexpr std::size_t size() const { return end - begin; }
  friend constexpr bool operator==(const Part&, const Part&) = default;
};

/// Part `i` of `n` values cut into `parts`: sizes differ by at most one, larger ones come last or between.
/// Exact for any n: no product overflows.
[[nodiscard]] constexpr Part part_of(std::size_t n, std::size_t parts, std::size_t i) {
  const auto cut = [&](std::size_t k) { return n / parts * k + n % parts * k / parts; };
  return {cut(i), cut(i + 1)};
}

}  // namespace slimpack::kernels
