// The CPU back end's speed beside Eigen's own matrix product, on one thread and in one run.
// gflops: billions of floating-point operations a second, by the plan format's formula (masked pairs don't count).
// of_gemm: that rate divided by the rate of a square product of 768 (Eigen's, as compiled for the kernels), measured
// right before and right after; the larger of the two counts.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "kernels/math/attention.hpp"
#include "kernels/math/gemm.hpp"

namespace {

using namespace slimpack;
using namespace slimpack::kernels;

template <class Real>
Matrix<Real> random_matrix(std::size_t rows, std::size_t cols) {
  std::mt19937 random(static_cast<unsigned>(rows + cols));
  std::normal_distribution<double> normal;
  Matrix<Real> m(rows, cols);
  for (std::size_t i = 0; i < rows * cols; ++i) m.data()[i] = static_cast<Real>(normal(random));
  return m;
}

/// Operations a second of a square product, the best of a few.
template <class Real>
double gemm_rate() {
  constexpr std::size_t n = 768;
  static const Matrix<Real> a = random_matrix<Real>(n, n), b = random_matrix<Real>(n, n);
  Matrix<Real> c(n, n);
  double best = 0.0;
  for (int i = 0; i < 8; ++i) {
    const auto start = std::chrono::steady_clock::now();
    multiply<Real>(a.view(), b.view(), c.view());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    benchmark::DoNotOptimize(c.data());
    best = std::max(best, 2.0 * n * n * n / seconds.count());
  }
  return best;
}

/// Runs `f` as the benchmark's body, and reports its rate.
template <class Real, class F>
void report(benchmark::State& state, double flops, F&& f) {
  const double before = gemm_rate<Real>();
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) f();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double rate = flops * static_cast<double>(state.iterations()) / seconds.count();
  state.counters["gflops"] = rate * 1e-9;
  state.counters["of_gemm"] = rate / std::max(before, gemm_rate<Real>());
}

/// A slice behind a prefix: 8 query heads.
template <class Real>
struct Slice {
  Slice(std::size_t tokens, std::size_t prefix, std::size_t kv_heads, std::size_t dim)
      : shape{8, kv_heads, dim},
        queries{{Tokens(prefix), Tokens(prefix + tokens)}},
        keys{{0, Tokens(prefix + tokens)}},
        q(random_matrix<Real>(tokens, shape.query_width())),
        k(random_matrix<Real>(prefix + tokens, shape.kv_width())),
        v(k),
        out(tokens, shape.query_width()),
        dq(out),
        maximum(tokens, shape.heads),
        sum(maximum),
        dk(k),
        dv(v) {}

  [[nodiscard]] double forward_flops() const {
    const auto b = static_cast<double>(queries[0].begin), e = static_cast<double>(queries[0].end);
    return 2.0 * static_cast<double>(shape.query_width()) * (e * (e + 1) - b * (b + 1));
  }

  void forward() {
    const AttentionState<Real> state{out.view(), maximum.view(), sum.view()};
    Attention<Real>::begin(state);
    attention.accumulate({q.view(), queries}, std::span(&piece, 1), state);
    attention.finish(state, sum.view());
  }

  void backward() {
    attention.backward({q.view(), queries}, {out.view(), sum.view(), q.view()}, std::span(&piece, 1),
                       dq.view(), std::span(&gradients, 1));
  }

  HeadShape shape;
  std::vector<Positions> queries, keys;
  Matrix<Real> q, k, v, out, dq, maximum, sum, dk, dv;
  Attention<Real> attention{shape};
  KeyValuePiece<Real> piece{k.view(), v.view(), keys};
  typename Attention<Real>::PieceGradients gradients{dk.view(), dv.view()};
};

template <class Real>
Slice<Real> slice_of(const benchmark::State& state) {
  const auto arg = [&](int i) { return static_cast<std::size_t>(state.range(i)); };
  return {arg(0), arg(1), arg(2), arg(3)};
}

template <class Real>
void attention_forward(benchmark::State& state) {
  auto slice = slice_of<Real>(state);
  report<Real>(state, slice.forward_flops(), [&] { slice.forward(); });
}

template <class Real>
void attention_backward(benchmark::State& state) {
  auto slice = slice_of<Real>(state);
  slice.forward();
  report<Real>(state, 2.5 * slice.forward_flops(), [&] { slice.backward(); });
}

void slices(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "prefix", "kv_heads", "head_dim"});
  b->Args({256, 0, 2, 64})->Args({2048, 0, 2, 64})->Args({1024, 8192, 2, 64});
  b->Args({1024, 8192, 8, 64})->Args({1024, 8192, 2, 128})->Args({4096, 0, 2, 128});
  b->Unit(benchmark::kMillisecond);
}

BENCHMARK_TEMPLATE(attention_forward, float)->Apply(slices);
BENCHMARK_TEMPLATE(attention_forward, double)->Apply(slices);
BENCHMARK_TEMPLATE(attention_backward, float)->Apply(slices);
BENCHMARK_TEMPLATE(attention_backward, double)->Apply(slices);

}  // namespace
