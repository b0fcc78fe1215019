#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "kernels/math/adamw.hpp"
#include "kernels/math/cross_entropy.hpp"
#include "kernels/math/gemm.hpp"
#include "kernels/math/rms_norm.hpp"
#include "kernels/math/rope.hpp"
#include "kernels/math/swiglu.hpp"
#include "slimpack/core/error.hpp"
#include "tests/kernels/random.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::difference, slimpack::testing::in_double, slimpack::testing::Numbers,
    slimpack::testing::numbers, slimpack::testing::pick, slimpack::testing::random_matrix,
    slimpack::testing::tolerance;

namespace {

/// Central differences of sum(f(x) * dy).
template <class F>
Numbers numeric_gradient(const F& f, Numbers x, const Numbers& dy) {
  Numbers gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i], step = 1e-5;
    for (const double sign : {1.0, -1.0}) {
      x[i] = at + sign * step;
      const Numbers y = f(x);
      for (std::size_t j = 0; j < y.size(); ++j) gradient[i] += sign * y[j] * dy[j] / (2 * step);
    }
    x[i] = at;
  }
  return gradient;
}

Numbers naive_norm(const Numbers& x, const Numbers& w) {
  Numbers y(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += w.size()) {
    double square = 0;
    for (std::size_t i = 0; i < w.size(); ++i) square += x[begin + i] * x[begin + i];
    for (std::size_t i = 0; i < w.size(); ++i) {
      y[begin + i] = w[i] * x[begin + i] / std::sqrt(square / double(w.size()) + 1e-5);
    }
  }
  return y;
}

Numbers naive_swiglu(const Numbers& gate_up, std::size_t ffn) {
  Numbers out;
  for (std::size_t begin = 0; begin < gate_up.size(); begin += 2 * ffn) {
    for (std::size_t i = begin; i < begin + ffn; ++i) {
      out.push_back(gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[i + ffn]);
    }
  }
  return out;
}

Numbers naive_loss(const Numbers& logits, const std::vector<std::int32_t>& labels, std::size_t vocab) {
  double loss = 0;
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] < 0) continue;
    double sum = 0;
    for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(logits[t * vocab + i]);
    loss += std::log(sum) - logits[t * vocab + std::size_t(labels[t])];
  }
  return {loss};
}

}  // namespace

TEMPLATE_TEST_CASE("products equal plain loops", "", float, double) {
  using Real = TestType;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t m = pick(random, 0, 40), n = pick(random, 0, 40), k = pick(random, 0, 40);
    const auto a = random_matrix<Real>(random, m, k), at = random_matrix<Real>(random, k, m);
    const auto b = random_matrix<Real>(random, k, n), bt = random_matrix<Real>(random, n, k);
    const auto before = random_matrix<Real>(random, m, n + 3);
    for (const Update update : {Update::set, Update::add}) {
      // Into the middle columns of a wider matrix: what stands next to them has to stay.
      auto c1 = before, c2 = before, c3 = before;
      multiply<Real>(a.view(), b.view(), c1.view().middle_cols(2, n), update);
      multiply_transposed<Real>(a.view(), bt.view(), c2.view().middle_cols(2, n), update);
      transposed_multiply<Real>(at.view(), b.view(), c3.view().middle_cols(2, n), update);
      Numbers e1 = in_double(before), e2 = e1, e3 = e1;
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          const std::size_t at_c = i * (n + 3) + 2 + j;
          if (update == Update::set) e1[at_c] = e2[at_c] = e3[at_c] = 0;
          for (std::size_t l = 0; l < k; ++l) {
            e1[at_c] += double(a.data()[i * k + l]) * double(b.data()[l * n + j]);
            e2[at_c] += double(a.data()[i * k + l]) * double(bt.data()[j * k + l]);
            e3[at_c] += double(at.data()[l * m + i]) * double(b.data()[l * n + j]);
          }
        }
      }
      CHECK(difference(numbers(c1), e1) < tolerance<Real>);
      CHECK(difference(numbers(c2), e2) < tolerance<Real>);
      CHECK(difference(numbers(c3), e3) < tolerance<Real>);
    }
  }
  Matrix<Real> a(2, 3), b(4, 5);
  CHECK_THROWS_WITH(multiply<Real>(a.view(), b.view(), a.view()),
                    Catch::StartsWith("product of [2 x 3] and [4 x 5]"));
}

TEMPLATE_TEST_CASE("the norm and its gradients equal plain loops", "", float, double) {
  using Real = TestType;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t tokens = pick(random, 0, 6), hidden = pick(random, 1, 40);
    const auto x = random_matrix<Real>(random, tokens, hidden),
               dy = random_matrix<Real>(random, tokens, hidden);
    const auto w = random_matrix<Real>(random, 1, hidden);
    Matrix<Real> y(tokens, hidden);
    rms_norm<Real>(x.view(), numbers(w), 1e-5, y.view());
    CHECK(difference(numbers(y), naive_norm(in_double(x), in_double(w))) < tolerance<Real>);

    auto dx = random_matrix<Real>(random, tokens, hidden), dw = random_matrix<Real>(random, 1, hidden);
    Numbers edx = in_double(dx), edw = in_double(dw);
    rms_norm_backward<Real>(x.view(), numbers(w), 1e-5, dy.view(), dx.view(), numbers(dw));
    const auto gx = numeric_gradient([&](const Numbers& v) { return naive_norm(v, in_double(w)); },
                                     in_double(x), in_double(dy));
    const auto gw = numeric_gradient([&](const Numbers& v) { return naive_norm(in_double(x), v); },
                                     in_double(w), in_double(dy));
    for (std::size_t i = 0; i < edx.size(); ++i) edx[i] += gx[i];
    for (std::size_t i = 0; i < edw.size(); ++i) edw[i] += gw[i];
    CHECK(difference(numbers(dx), edx) < std::max(1e-7, tolerance<Real>));
    CHECK(difference(numbers(dw), edw) < std::max(1e-7, tolerance<Real>));
  }
  Matrix<Real> x(2, 3), y(2, 4), w(1, 3);
  CHECK_THROWS_AS(rms_norm<Real>(x.view(), numbers(std::as_const(w)), 1e-5, y.view()), InvalidInput);
}

TEMPLATE_TEST_CASE("the gated activation and its gradient equal plain loops", "", float, double) {
  using Real = TestType;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t tokens = pick(random, 0, 3), ffn = seed == 1 ? 300 : pick(random, 1, 40);
    const auto x = random_matrix<Real>(random, tokens, 2 * ffn, 2.0),
               dy = random_matrix<Real>(random, tokens, ffn);
    Matrix<Real> y(tokens, ffn);
    swiglu<Real>(x.view(), y.view());
    CHECK(difference(numbers(y), naive_swiglu(in_double(x), ffn)) < tolerance<Real>);
    const auto expected =
        numeric_gradient([&](const Numbers& v) { return naive_swiglu(v, ffn); }, in_double(x), in_double(dy));
    auto dx = x;
    swiglu_backward<Real>(dx.view(), dy.view(), dx.view());
    CHECK(difference(numbers(dx), expected) < std::max(1e-7, tolerance<Real>));
  }
}

TEMPLATE_TEST_CASE("the gated activation survives large numbers", "", float, double) {
  using Real = TestType;
  Matrix<Real> x(1, 4), y(1, 2), dy(1, 2), dx(1, 4);
  std::copy_n(std::vector<Real>{-200, 200, 3, 3}.begin(), 4, x.data());
  std::fill_n(dy.data(), 2, Real{1});
  swiglu<Real>(x.view(), y.view());
  CHECK(difference(numbers(y), Numbers{0, 600}) < tolerance<Real>);
  swiglu_backward<Real>(x.view(), dy.view(), dx.view());
  CHECK(difference(numbers(dx), Numbers{0, 3, 0, 200}) < tolerance<Real>);
}

TEMPLATE_TEST_CASE("cross-entropy and its gradient equal plain loops", "", float, double) {
  using Real = TestType;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t tokens = pick(random, 0, 6), vocab = pick(random, 1, 40);
    const auto x = random_matrix<Real>(random, tokens, vocab, 3.0);
    std::vector<std::int32_t> labels(tokens);
    for (auto& label : labels) label = static_cast<std::int32_t>(pick(random, 0, vocab)) - 1;
    CHECK(difference(Numbers{cross_entropy<Real>(x.view(), labels)},
                     naive_loss(in_double(x), labels, vocab)) < tolerance<Real>);
    const double scale = 0.25;
    const auto expected = numeric_gradient([&](const Numbers& v) { return naive_loss(v, labels, vocab); },
                                           in_double(x), {scale});
    auto dx = x;
    cross_entropy_backward<Real>(dx.view(), labels, scale);
    CHECK(difference(numbers(dx), expected) < std::max(1e-7, tolerance<Real>));
  }
  // Logits whose exponential no number holds.
  auto big = Matrix<Real>(1, 2);
  big.data()[0] = 5000;
  big.data()[1] = 4990;
  CHECK(cross_entropy<Real>(big.view(), std::vector<std::int32_t>{1}) == Approx(10.0000454));
  CHECK_THROWS_WITH(cross_entropy<Real>(big.view(), std::vector<std::int32_t>{2}),
                    Catch::StartsWith("label of token 0 is 2"));
  CHECK_THROWS_AS(cross_entropy<Real>(big.view(), std::vector<std::int32_t>{-2}), InvalidInput);
  CHECK_THROWS_AS(cross_entropy_backward<Real>(big.view(), std::vector<std::int32_t>{0, 0}, 1.0),
                  InvalidInput);
}

TEMPLATE_TEST_CASE("the rotary embedding turns pairs by position", "", float, double) {
  using Real = TestType;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t heads = pick(random, 1, 8), half = pick(random, 1, 20), dim = 2 * half;
    const auto from = static_cast<Tokens>(pick(random, 0, 5000));
    const std::vector<Positions> ranges{{from, from + 3}, {from + 7, from + 8}, {0, 2}};
    const std::vector<Tokens> positions{from, from + 1, from + 2, from + 7, 0, 1};
    RopeTable<Real> table;
    table.set(ranges, dim, 10000.0);
    const auto before = random_matrix<Real>(random, positions.size(), heads * dim);
    Numbers expected = in_double(before);
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::size_t a = 0; a < heads; ++a) {
        for (std::size_t i = 0; i < half; ++i) {
          const double angle = double(positions[t]) / std::pow(10000.0, double(i) / double(half));
          const std::size_t low = (t * heads + a) * dim + i, high = low + half;
          const double x = before.data()[low], y = before.data()[high];
          expected[low] = x * std::cos(angle) - y * std::sin(angle);
          expected[high] = y * std::cos(angle) + x * std::sin(angle);
        }
      }
    }
    auto x = before;
    rope<Real>(table, x.view());
    CHECK(difference(numbers(x), expected) < std::max(1e-11, tolerance<Real>));
    rope_backward<Real>(table, x.view());
    CHECK(difference(numbers(x), numbers(before)) < tolerance<Real>);
  }
  RopeTable<Real> table;
  CHECK_THROWS_WITH(table.set(std::vector<Positions>{{0, 1}}, 3, 10000.0),
                    Catch::StartsWith("head_dim is 3"));
  table.set(std::vector<Positions>{{0, 2}}, 4, 10000.0);
  Matrix<Real> wrong(3, 4);
  CHECK_THROWS_AS(rope<Real>(table, wrong.view()), InvalidInput);
}

TEMPLATE_TEST_CASE("AdamW equals the textbook's steps, in parts as in one piece", "", float, double) {
  using Real = TestType;
  std::mt19937 random(1);
  const std::size_t n = 37;
  auto w = random_matrix<Real>(random, 1, n);
  Matrix<Real> m(1, n), v(1, n);
  Numbers ew = in_double(w), em(n), ev(n);
  const AdamWOptions o{
      .learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.2};
  for (int step = 1; step <= 20; ++step) {
    const auto g = random_matrix<Real>(random, 1, n);
    const auto part = [&](auto& x, std::size_t from, std::size_t to) {
      return numbers(x).subspan(from, to - from);
    };
    for (const auto& [from, to] : {std::pair{std::size_t{0}, n / 3}, std::pair{n / 3, n}}) {
      adamw<Real>(part(w, from, to), part(g, from, to), part(m, from, to), part(v, from, to), step, o);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double gradient = g.data()[i];
      em[i] = 0.8 * em[i] + 0.2 * gradient;
      ev[i] = 0.9 * ev[i] + 0.1 * gradient * gradient;
      const double mean = em[i] / (1 - std::pow(0.8, step)), square = ev[i] / (1 - std::pow(0.9, step));
      ew[i] -= 0.01 * (mean / (std::sqrt(square) + 1e-6) + 0.2 * ew[i]);
    }
  }
  CHECK(difference(numbers(w), ew) < tolerance<Real>);
  Matrix<Real> shorter(1, n - 1);
  CHECK_THROWS_AS(adamw<Real>(numbers(w), numbers(std::as_const(shorter)), numbers(m), numbers(v), 1),
                  InvalidInput);
  CHECK_THROWS_WITH(adamw<Real>(numbers(w), numbers(std::as_const(w)), numbers(m), numbers(v), 0),
                    Catch::StartsWith("step is 0"));
  CHECK_THROWS_WITH(
      adamw<Real>(numbers(w), numbers(std::as_const(w)), numbers(m), numbers(v), 1, {.beta1 = 1.0}),
      Catch::StartsWith("beta1 is 1"));
}
