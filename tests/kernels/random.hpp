#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "kernels/math/matrix.hpp"

// Random numbers, and comparisons with what double precision gives.
namespace slimpack::testing {

using Numbers = std::vector<double>;

[[nodiscard]] inline std::size_t pick(std::mt19937& random, std::size_t lo, std::size_t hi) {
  return std::uniform_int_distribution<std::size_t>(lo, hi)(random);
}

/// How far a result in `Real` may be from one in double, relative to the largest number.
template <class Real>
inline constexpr double tolerance = sizeof(Real) == sizeof(double) ? 1e-12 : 2e-5;

template <class Real>
[[nodiscard]] kernels::Matrix<Real> random_matrix(std::mt19937& random, std::size_t rows, std::size_t cols,
                                                  double scale = 1.0) {
  kernels::Matrix<Real> m(rows, cols);
  std::normal_distribution<double> normal(0.0, scale);
  for (std::size_t i = 0; i < rows * cols; ++i) m.data()[i] = static_cast<Real>(normal(random));
  return m;
}

template <class Real>
[[nodiscard]] std::span<Real> numbers(kernels::Matrix<Real>& m) {
  return {m.data(), m.rows() * m.cols()};
}

template <class Real>
[[nodiscard]] std::span<const Real> numbers(const kernels::Matrix<Real>& m) {
  return {m.data(), m.rows() * m.cols()};
}

template <class Real>
[[nodiscard]] std::vector<double> in_double(const kernels::Matrix<Real>& m) {
  return {m.data(), m.data() + m.rows() * m.cols()};
}

/// Largest difference, relative to the largest expected number (or 1, if that is smaller). Infinite if a
/// number is none.
template <class A, class B>
[[nodiscard]] double difference(const A& result, const B& expected) {
  REQUIRE(result.size() == expected.size());
  double most = 1.0, off = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = std::abs(static_cast<double>(result[i]) - static_cast<double>(expected[i]));
    off = std::isfinite(d) ? std::max(off, d) : INFINITY;
    most = std::max(most, std::abs(static_cast<double>(expected[i])));
  }
  return off / most;
}

}  // namespace slimpack::testing
