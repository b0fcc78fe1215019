#include "kernels/math/gemm.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "kernels/cuda/gemm_layout.hpp"
#include "slimpack/core/error.hpp"
#include "tests/kernels/random.hpp"

#ifdef SLIMPACK_TEST_CUDA
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/gemm.hpp"
#endif

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::difference, slimpack::testing::numbers, slimpack::testing::pick,
    slimpack::testing::random_matrix;

namespace {

/// A number of a factor, by the row and column that it has in the product.
double at(const double* data, const cuda::ColumnMajor& m, std::size_t row, std::size_t col) {
  if (m.is_transposed) std::swap(row, col);
  REQUIRE((row < m.rows && col < m.cols && m.rows <= m.leading));
  return data[col * m.leading + row];
}

}  // namespace

TEST_CASE("CUDA: products of rows are products of columns the other way round") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t m = pick(random, 0, 9), n = pick(random, 0, 9), k = pick(random, 0, 9);
    const auto which = static_cast<cuda::Product>(seed % 3);
    const bool a_turned = which == cuda::Product::transposed_multiply;
    const bool b_turned = which == cuda::Product::multiply_transposed;
    const auto wide_a = random_matrix<double>(random, a_turned ? k : m, (a_turned ? m : k) + 3);
    const auto wide_b = random_matrix<double>(random, b_turned ? n : k, (b_turned ? k : n) + 2);
    const auto a = wide_a.view().middle_cols(1, a_turned ? m : k),
               b = wide_b.view().middle_cols(2, b_turned ? k : n);
    Matrix<double> expected(m, n), c(m, n);
    switch (which) {
      case cuda::Product::multiply:
        multiply<double>(a, b, expected.view());
        break;
      case cuda::Product::multiply_transposed:
        multiply_transposed<double>(a, b, expected.view());
        break;
      case cuda::Product::transposed_multiply:
        transposed_multiply<double>(a, b, expected.view());
        break;
    }
    const cuda::GemmLayout layout = cuda::gemm_layout(which, a, b, c.view());
    CHECK(layout.depth == k);
    CHECK((layout.result.rows == n && layout.result.cols == m && !layout.result.is_transposed));
    for (std::size_t row = 0; row < layout.result.rows; ++row) {
      for (std::size_t col = 0; col < layout.result.cols; ++col) {
        double sum = 0;
        for (std::size_t i = 0; i < layout.depth; ++i) {
          sum += at(b.data, layout.left, row, i) * at(a.data, layout.right, i, col);
        }
        c.data()[col * layout.result.leading + row] = sum;
      }
    }
    CHECK(difference(numbers(c), numbers(expected)) < 1e-12);
    Matrix<double> wrong(m + 1, n);
    CHECK_THROWS_WITH(cuda::gemm_layout(which, a, b, wrong.view()), Catch::StartsWith("product of ["));
  }
}

#ifdef SLIMPACK_TEST_CUDA
TEST_CASE("CUDA: products start where there is a GPU, and say what is missing where there is none") {
  if (cuda::probe_devices().count > 0) {
    CHECK_NOTHROW(cuda::Gemm({}));
  } else {
    CHECK_THROWS_AS(cuda::Gemm({}), InvalidInput);
  }
}
#endif
