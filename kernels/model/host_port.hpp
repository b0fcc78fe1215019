#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/math/aligned.hpp"

namespace slimpack::kernels {

/// How a host's transport gets at rows that lie in the host's memory anyway: all is done at once. See `RowPort`.
template <class Real>
struct HostPort {
  using Buffer = AlignedVector<Real>;
  struct Mark {};

  static constexpr std::size_t behind = 0;

  [[nodiscard]] static Buffer buffer(std::size_t numbers) { return Buffer(numbers); }
  static void fetch(std::span<const Real> rows, std::span<Real> to) {
    std::copy(rows.begin(), rows.end(), to.begin());
  }
  [[nodiscard]] static Mark mark() { return {}; }
  [[nodiscard]] static bool reached(Mark) { return true; }
  static void wait(Mark) {}
  static void wait_all() {}
};

}  // namespace slimpack::kernels
