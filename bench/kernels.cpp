// The CPU back end's speed compared with Eigen's own matrix product, on one thread and in one run. gflops:
// billions of floating-point operations per second, by the plan format's formula (masked pairs don't count).
// of_gemm: that rate divided by the rate of a square product of 768 (Eigen's, as compiled for the kernels),
// measured right before and right after; the larger of the two counts. Each pass of a stage is measured
// between two products, and the median counts. Rates are by processor time, so that other programs on the
// machine disturb them less.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/keep_memory.hpp"
#include "kernels/math/attention.hpp"
#include "kernels/math/gemm.hpp"
#include "kernels/model/memory.hpp"
#include "kernels/model/stage.hpp"
#include "slimpack/core/flops.hpp"

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

/// Processor time of this program, which has one thread.
double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Operations per second of a square product, the best of a few.
template <class Real>
double gemm_rate() {
  constexpr std::size_t n = 768;
  static const Matrix<Real> a = random_matrix<Real>(n, n), b = random_matrix<Real>(n, n);
  Matrix<Real> c(n, n);
  double best = 0.0;
  for (int i = 0; i < 8; ++i) {
    const double start = now();
    multiply<Real>(a.view(), b.view(), c.view());
    benchmark::DoNotOptimize(c.data());
    best = std::max(best, 2.0 * n * n * n / (now() - start));
  }
  return best;
}

/// Runs `f` as the benchmark's body, and reports its rate.
template <class Real, class F>
void report(benchmark::State& state, double flops, F&& f) {
  const double before = gemm_rate<Real>();
  f();
  const double start = now();
  for (auto _ : state) f();
  const double rate = flops * static_cast<double>(state.iterations()) / (now() - start);
  state.counters["gflops"] = rate * 1e-9;
  state.counters["of_gemm"] = rate / std::max(before, gemm_rate<Real>());
}

/// A slice after a prefix: 8 query heads.
template <class Real>
struct PrefixedSlice {
  PrefixedSlice(std::size_t tokens, std::size_t prefix, std::size_t kv_heads, std::size_t dim)
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
PrefixedSlice<Real> slice_of(const benchmark::State& state) {
  const auto arg = [&](std::size_t i) { return static_cast<std::size_t>(state.range(i)); };
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

/// The middle one of three stages, two layers, that runs one pack of equal samples.
template <class Real>
class MiddleStage {
 public:
  MiddleStage(std::size_t samples, Tokens length, std::int32_t hidden, bool recompute) {
    plan_.model = {"bench", 6, hidden, hidden / 64, std::max(1, hidden / 256), 64, hidden * 11 / 4, 1000};
    plan_.pipelines.push_back({.id = 0, .layers = {2, 2, 2}, .order = {}});
    plan_.pipelines[0].order.assign(3, {{Pass::forward, 0}, {Pass::backward, 0}});
    for (PassPlan* pass : {&plan_.forward, &plan_.backward}) {
      for (std::size_t i = 0; i < samples; ++i) pass->packs.add({static_cast<SampleId>(i), 0, length});
      pass->packs.close();
      pass->pipelines.add_row(1);
    }
    plan_.tokens.assign(samples, length);
    plan_.backward.recompute_layers.add_row(3, recompute ? 2 : 0);
    for (const Tokens tokens : plan_.tokens) {
      for (Tokens t = 0; t < tokens; ++t) ids_.add(0);
      ids_.close();
    }
    program_ = std::make_unique<StageProgram>(plan_, 0, 1);
    stage_ = std::make_unique<CpuStage<Real>>(stage_part(plan_.model, plan_, 0, 1));
    stage_->weights().initialise();
    rows_ = random_matrix<Real>(samples * static_cast<std::size_t>(length), static_cast<std::size_t>(hidden));
  }

  [[nodiscard]] double forward_flops() const {
    const Transformer& m = plan_.model;
    const double h = m.hidden, q = double(m.heads) * m.head_dim, kv = double(m.kv_heads) * m.head_dim;
    double flops = 0.0;
    for (const Tokens tokens : plan_.tokens) {
      flops += double(tokens) * (2 * h * (q + 2 * kv) + 2 * q * h + 6 * h * m.ffn);
      flops += 2 * q * twice_causal_pairs(0, tokens);
    }
    return 2 * flops;
  }

  /// Backward does twice the linear products, attention two and a half times, and again what is recomputed:
  /// all of forward but keys, values and the MLP's last product.
  [[nodiscard]] double backward_flops() const {
    const Transformer& m = plan_.model;
    double attention = 0.0, kept = 0.0;
    for (const Tokens tokens : plan_.tokens) {
      attention += 2 * 2.0 * m.heads * m.head_dim * twice_causal_pairs(0, tokens);
      kept += 2 * double(tokens) * (4.0 * m.hidden * m.kv_heads * m.head_dim + 2.0 * m.hidden * m.ffn);
    }
    const double recomputed = plan_.backward.recompute_layers[0][1] > 0 ? forward_flops() - kept : 0.0;
    return 2 * forward_flops() + 0.5 * attention + recomputed;
  }

  /// Seconds of both passes, without what happens once a step.
  std::pair<double, double> step() {
    const auto tasks = program_->tasks();
    stage_->begin_step(*program_, ids_);
    const double start = now();
    benchmark::DoNotOptimize(stage_->forward(tasks[0], rows_.view()).data);
    const double middle = now();
    benchmark::DoNotOptimize(stage_->backward(tasks[1], rows_.view()).data);
    stage_->release(tasks[1]);
    return {middle - start, now() - middle};
  }

 private:
  Plan plan_;
  Ragged<std::int32_t> ids_;
  std::unique_ptr<StageProgram> program_;
  std::unique_ptr<CpuStage<Real>> stage_;
  Matrix<Real> rows_;
};

/// One pass is measured, the other and the step's begin are not. Memory stays with the process, as in
/// `slimpack train`.
template <class Real, bool forward>
void stage_pass(benchmark::State& state) {
  keep_memory();
  MiddleStage<Real> stage(static_cast<std::size_t>(state.range(0)), state.range(1),
                          static_cast<std::int32_t>(state.range(2)), state.range(3) != 0);
  const double flops = forward ? stage.forward_flops() : stage.backward_flops();
  stage.step();
  std::vector<double> ratios;
  double seconds = 0.0, before = gemm_rate<Real>();
  for (auto _ : state) {
    const auto [forward_seconds, backward_seconds] = stage.step();
    const double pass = forward ? forward_seconds : backward_seconds, after = gemm_rate<Real>();
    state.SetIterationTime(pass);
    seconds += pass;
    ratios.push_back(flops / pass / std::max(before, after));
    before = after;
  }
  std::sort(ratios.begin(), ratios.end());
  state.counters["gflops"] = flops * static_cast<double>(state.iterations()) / seconds * 1e-9;
  state.counters["of_gemm"] = ratios[ratios.size() / 2];
}

template <class Real>
void stage_forward(benchmark::State& state) {
  stage_pass<Real, true>(state);
}

template <class Real>
void stage_backward(benchmark::State& state) {
  stage_pass<Real, false>(state);
}

void packs(benchmark::internal::Benchmark* b) {
  b->ArgNames({"samples", "length", "hidden", "recompute"});
  b->Args({16, 128, 512, 0})->Args({8, 128, 1024, 0})->Args({1, 1024, 1024, 0})->Args({64, 16, 1024, 0});
  b->Args({1, 4096, 512, 0})->Args({8, 128, 1024, 1});
  b->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(7);
}

BENCHMARK_TEMPLATE(stage_forward, float)->Apply(packs);
BENCHMARK_TEMPLATE(stage_forward, double)->Apply(packs);
BENCHMARK_TEMPLATE(stage_backward, float)->Apply(packs);
BENCHMARK_TEMPLATE(stage_backward, double)->Apply(packs);

}  // namespace
