#include "kernels/math/gemm.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm.hpp"
#include "slimpack/core/error.hpp"
#include "tests/kernels/random.hpp"

#ifdef SLIMPACK_TEST_CUDA
#include "kernels/cuda/device.hpp"
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

TEST_CASE("CUDA: a choice of how to multiply serves tasks of about as many tokens, and no other shapes") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto which = static_cast<cuda::Product>(seed % 3);
    const std::size_t in = pick(random, 1, 300), out = pick(random, 1, 300);
    const auto layout_of = [&](std::size_t tokens) {
      using View = MatrixView<const double>;
      const bool a_turned = which == cuda::Product::transposed_multiply,
                 b_turned = which == cuda::Product::multiply_transposed;
      const View a(nullptr, tokens, in, in + 3);
      const View b = a_turned   ? View(nullptr, tokens, out, out + 1)
                     : b_turned ? View(nullptr, out, in, in + 1)
                                : View(nullptr, in, out, out + 1);
      const MatrixView<double> c(nullptr, a_turned ? in : tokens, out, out + 2);
      return cuda::gemm_layout(which, a, b, c);
    };
    const std::size_t tokens = pick(random, 1, 5000);
    const auto rounded_up =
        static_cast<std::size_t>(cuda::rounded_up(static_cast<std::int64_t>(tokens), 64, 8));
    CHECK((rounded_up >= tokens && rounded_up <= std::max<std::size_t>(64, tokens + tokens / 8)));
    // As if there were as many tokens: nothing else changes.
    CHECK(cuda::rounded_tokens(which, layout_of(tokens)) == layout_of(rounded_up));
  }
}

TEST_CASE("choices that are used most are tried, each once") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    using Choices = cuda::TriedChoices<int, int>;
    Choices choices(20);
    std::map<int, std::pair<std::size_t, double>> used;  // uses and work
    std::map<int, int> tries;
    for (int step = 0; step < 6; ++step) {
      for (int i = 0; i < 60; ++i) {
        const int key = static_cast<int>(pick(random, 0, 19));
        const double work = 1.0 + key % 7;
        const int expected = tries.contains(key) ? key + 1000 : key;
        REQUIRE(choices.get(key, work, [&] { return key; }) == expected);
        ++used[key].first;
        used[key].second += work;
      }
      const std::size_t most = pick(random, 0, 6);
      std::vector<int> order;
      const std::size_t count = choices.try_hot(most, [&](int key, int choice) {
        CHECK(choice == key);
        order.push_back(key);
        return key + 1000;
      });
      CHECK(count == order.size());
      std::size_t waiting = 0;
      for (const auto& [key, uses] : used)
        waiting += !tries.contains(key) && uses.first >= Choices::hot ? 1 : 0;
      CHECK(count == std::min(most, waiting));
      for (std::size_t i = 0; i < order.size(); ++i) {
        CHECK(used.at(order[i]).first >= Choices::hot);
        CHECK(++tries[order[i]] == 1);
        if (i > 0) CHECK(used.at(order[i - 1]).second >= used.at(order[i]).second);
      }
    }
    // One that fails keeps its choice, and is not tried again.
    Choices few(1);
    for (std::size_t i = 0; i < Choices::hot; ++i) CHECK(few.get(1, 1.0, [] { return 5; }) == 5);
    CHECK_THROWS_AS(few.try_hot(1, [](int, int) -> int { throw InvalidInput("no way"); }), InvalidInput);
    CHECK(few.try_hot(1, [](int, int) { return 7; }) == 0);
    CHECK(few.get(1, 1.0, [] { return 6; }) == 5);
    CHECK(few.get(2, 1.0, [] { return 6; }) == 6);
    CHECK(few.size() == 1);
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
