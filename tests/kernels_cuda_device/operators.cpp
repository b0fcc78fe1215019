#include "kernels/cuda/operators.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/device/adamw.hpp"
#include "kernels/cuda/device/cross_entropy.hpp"
#include "kernels/cuda/device/embedding.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/device/rope.hpp"
#include "kernels/cuda/device/swiglu.hpp"
#include "kernels/math/adamw.hpp"
#include "kernels/math/cross_entropy.hpp"
#include "kernels/math/rms_norm.hpp"
#include "kernels/math/rope.hpp"
#include "kernels/math/swiglu.hpp"
#include "tests/effort.hpp"
#include "tests/kernels_cuda_device/host_launcher.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"

// The kernels of the CUDA back end, run by the host, against kernels/math in double.
using namespace slimpack;
using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;
using slimpack::testing::Bf16Rows, slimpack::testing::HostLauncher, slimpack::testing::numbers,
    slimpack::testing::pick, slimpack::testing::random_bf16, slimpack::testing::relative_error,
    slimpack::testing::seeds;

namespace {

constexpr double closeness = slimpack::testing::bf16_tolerance;

/// Sizes of rows: in packs of 8 or not, with something next to them or not, from none on.
struct RowSizes {
  explicit RowSizes(std::mt19937& random)
      : packs(pick(random, 0, 1) == 1),
        rows(pick(random, 0, 5) == 0 ? 0 : pick(random, 1, 40)),
        cols(packs ? 8 * pick(random, 1, 80) : pick(random, 1, 300)),
        stride(pick(random, 0, 1) == 1 ? cols : cols + 8) {}

  bool packs;
  std::size_t rows, cols, stride;
};

std::vector<double> doubles(std::span<const Bf16> from) {
  std::vector<double> out;
  for (const Bf16 x : from) out.push_back(static_cast<double>(to_float(x)));
  return out;
}

std::vector<std::int32_t> random_labels(std::mt19937& random, std::size_t tokens, std::size_t vocab) {
  std::vector<std::int32_t> labels(tokens);
  for (auto& label : labels) label = static_cast<std::int32_t>(pick(random, 0, vocab)) - 1;
  return labels;
}

}  // namespace

TEST_CASE("CUDA: RMSNorm, with a residual and without, forward and backward", "[threads]") {
  for (unsigned seed = 1; seed <= seeds(30, 15, 10); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const RowSizes s(random);
    const bool with_residual = pick(random, 0, 1) == 1;
    auto x = random_bf16(random, s.rows, s.cols, s.stride, 2.0);
    const auto residual = random_bf16(random, s.rows, s.cols, s.stride);
    const auto weight = random_bf16(random, 1, s.cols), dy = random_bf16(random, s.rows, s.cols, s.stride);
    Bf16Rows sum(s.rows, s.cols, s.stride), y(s.rows, s.cols, s.stride);
    auto input = x.in_double();
    if (with_residual) {
      const auto more = residual.in_double();
      for (std::size_t i = 0; i < numbers(input).size(); ++i) numbers(input)[i] += numbers(more)[i];
    }
    const auto none = MatrixView<const Bf16>{};
    rms_norm_by(HostLauncher{}, x.view(), with_residual ? residual.view() : none,
                with_residual ? sum.view() : MatrixView<Bf16>{}, weight.span(), 1e-5, y.view());
    Matrix<double> ey(s.rows, s.cols);
    rms_norm<double>(input.view(), doubles(weight.span()), 1e-5, ey.view());
    CHECK(relative_error(y, ey) <= closeness);
    CHECK(y.margins_are_untouched());
    if (with_residual) CHECK(relative_error(sum, input) <= closeness);

    auto dx = random_bf16(random, s.rows, s.cols, s.stride);
    auto edx = dx.in_double();
    std::vector<float> dweight(s.cols, 0.5F), workspace(rms_norm_workspace(s.rows, s.cols), NAN);
    std::vector<double> edweight(s.cols, 0.5);
    rms_norm_backward_by(HostLauncher{}, x.view(), weight.span(), 1e-5, dy.view(), dx.view(), dweight,
                         workspace);
    rms_norm_backward<double>(x.in_double().view(), doubles(weight.span()), 1e-5, dy.in_double().view(),
                              edx.view(), edweight);
    CHECK(relative_error(dx, edx) <= closeness);
    CHECK(relative_error(dweight, edweight) <= 1e-5);
    CHECK(dx.margins_are_untouched());
    CHECK_THROWS_AS(rms_norm_backward_by(HostLauncher{}, x.view(), weight.span(), 1e-5, dy.view(), dx.view(),
                                         std::span(dweight).first(s.cols - 1), workspace),
                    InvalidInput);
  }
}

TEST_CASE("CUDA: the gradient of a norm's weight over many rows") {
  std::mt19937 random(1);
  const std::size_t rows = 700, cols = 136;
  const auto x = random_bf16(random, rows, cols), dy = random_bf16(random, rows, cols),
             weight = random_bf16(random, 1, cols);
  Bf16Rows dx(rows, cols, cols, 0);
  std::vector<float> dweight(cols), workspace(rms_norm_workspace(rows, cols), NAN);
  rms_norm_backward_by(HostLauncher{}, x.view(), weight.span(), 1e-5, dy.view(), dx.view(), dweight,
                       workspace);
  Matrix<double> edx(rows, cols);
  std::vector<double> edweight(cols);
  rms_norm_backward<double>(x.in_double().view(), doubles(weight.span()), 1e-5, dy.in_double().view(),
                            edx.view(), edweight);
  CHECK(relative_error(dweight, edweight) <= 1e-5);
  CHECK(relative_error(dx, edx) <= closeness);
}

TEST_CASE("CUDA: the rotary embedding at the positions of slices with prefixes") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t dim = pick(random, 0, 1) == 1 ? 16 * pick(random, 1, 8) : 2 * pick(random, 1, 40);
    const std::size_t heads = pick(random, 1, 6);
    std::vector<Positions> ranges;
    std::vector<std::int32_t> positions;
    for (std::size_t slices = pick(random, 0, 4); slices > 0; --slices) {
      const auto begin = static_cast<Tokens>(pick(random, 0, 300000));
      ranges.push_back({begin, begin + static_cast<Tokens>(pick(random, 1, 9))});
      for (Tokens p = begin; p < ranges.back().end; ++p) positions.push_back(static_cast<std::int32_t>(p));
    }
    std::vector<float> table(positions.size() * dim, NAN);
    rope_table_by(HostLauncher{}, positions, dim, 10000.0, table);
    RopeTable<double> expected;
    expected.set(ranges, dim, 10000.0);
    auto x = random_bf16(random, positions.size(), heads * dim, heads * dim + 8 * pick(random, 0, 1));
    auto ex = x.in_double();
    rope_by(HostLauncher{}, table, dim, x.view(), 1.0F);
    rope<double>(expected, ex.view());
    CHECK(relative_error(x, ex) <= closeness);
    CHECK(x.margins_are_untouched());
    ex = x.in_double();
    rope_by(HostLauncher{}, table, dim, x.view(), -1.0F);
    rope_backward<double>(expected, ex.view());
    CHECK(relative_error(x, ex) <= closeness);
  }
}

TEST_CASE("CUDA: SwiGLU forward and backward, in place too") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const RowSizes s(random);
    auto gate_up = random_bf16(random, s.rows, 2 * s.cols, 0, 3.0);
    const auto dout = random_bf16(random, s.rows, s.cols, s.stride);
    Bf16Rows out(s.rows, s.cols, s.stride), dgate_up(s.rows, 2 * s.cols);
    Matrix<double> eout(s.rows, s.cols), edgate_up(s.rows, 2 * s.cols);
    swiglu_by(HostLauncher{}, gate_up.view(), out.view());
    swiglu<double>(gate_up.in_double().view(), eout.view());
    CHECK(relative_error(out, eout) <= closeness);
    CHECK(out.margins_are_untouched());
    swiglu_backward_by(HostLauncher{}, gate_up.view(), dout.view(), dgate_up.view());
    swiglu_backward<double>(gate_up.in_double().view(), dout.in_double().view(), edgate_up.view());
    CHECK(relative_error(dgate_up, edgate_up) <= closeness);
    swiglu_backward_by(HostLauncher{}, gate_up.view(), dout.view(), gate_up.view());
    CHECK(relative_error(gate_up, edgate_up) <= closeness);
  }
}

TEST_CASE("CUDA: cross-entropy over a vocabulary in parts", "[threads]") {
  for (unsigned seed = 1; seed <= seeds(30, 15, 10); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const RowSizes s(random);
    const auto labels = random_labels(random, s.rows, s.cols);
    auto logits = random_bf16(random, s.rows, s.cols, s.stride, seed % 3 == 0 ? 60.0 : 2.0);
    auto expected = logits.in_double();
    std::vector<LogitState> states(s.rows, LogitState{.maximum = NAN, .sum = NAN, .label = NAN});
    std::vector<std::size_t> parts;  // where they begin
    for (std::size_t at = 0; at < s.cols; at += pick(random, 1, s.cols)) parts.push_back(at);
    parts.push_back(s.cols);
    const auto part = [&](std::size_t i) {
      return logits.view().middle_cols(parts[i], parts[i + 1] - parts[i]);
    };
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      cross_entropy_part_by(HostLauncher{}, part(i), parts[i], labels, states);
    }
    double loss = 0.25;
    cross_entropy_loss_by(HostLauncher{}, labels, states, &loss);
    CHECK(loss == Approx(0.25 + cross_entropy<double>(expected.view(), labels)).epsilon(1e-5).margin(1e-5));
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      cross_entropy_backward_by(HostLauncher{}, part(i), parts[i], labels, states, 0.125);
    }
    cross_entropy_backward<double>(expected.view(), labels, 0.125);
    CHECK(relative_error(logits, expected) <= closeness);
    CHECK(logits.margins_are_untouched());
  }
}

TEST_CASE("CUDA: AdamW on float weights, with copies") {
  std::mt19937 random(1);
  for (const std::size_t n : {0UL, 1UL, 1000UL}) {
    auto weights = slimpack::testing::random_matrix<float>(random, 1, n);
    std::vector<float> first(n), second(n);
    std::vector<Bf16> copies(n, {0x7fff});
    std::vector<double> ew(numbers(weights).begin(), numbers(weights).end()), em(n), ev(n);
    const AdamWOptions o{
        .learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.2};
    for (int step = 1; step <= 5; ++step) {
      const auto g = slimpack::testing::random_matrix<float>(random, 1, n);
      adamw_by(HostLauncher{}, numbers(weights), copies, numbers(g), first, second, step, o);
      adamw<double>(ew, std::vector<double>(numbers(g).begin(), numbers(g).end()), em, ev, step, o);
    }
    CHECK(relative_error(numbers(weights), ew) <= 1e-5);
    CHECK(relative_error(doubles(copies), ew) <= closeness);
  }
  std::vector<float> one(1);
  std::vector<Bf16> copy(1);
  CHECK_THROWS_AS(adamw_by(HostLauncher{}, one, copy, one, one, one, 0, {}), InvalidInput);
  CHECK_THROWS_AS(adamw_by(HostLauncher{}, one, {}, one, one, one, 1, {}), InvalidInput);
}

TEST_CASE("CUDA: the embedding's rows, and the sum of their gradients") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const RowSizes s(random);
    const std::size_t vocab = pick(random, 1, 20);
    std::vector<std::int32_t> ids(s.rows);
    for (auto& id : ids) id = static_cast<std::int32_t>(pick(random, 0, vocab - 1));
    const auto table = random_bf16(random, vocab, s.cols),
               dout = random_bf16(random, s.rows, s.cols, s.stride);
    Bf16Rows out(s.rows, s.cols, s.stride);
    embedding_by(HostLauncher{}, table.view(), ids, out.view());
    Matrix<float> dtable(vocab, s.cols);
    Matrix<double> eout(s.rows, s.cols), edtable(vocab, s.cols);
    const auto rows = table.in_double(), gradients = dout.in_double();
    for (std::size_t t = 0; t < s.rows; ++t) {
      for (std::size_t c = 0; c < s.cols; ++c) {
        const auto id = static_cast<std::size_t>(ids[t]);
        eout.view().row(t)[c] = rows.view().row(id)[c];
        edtable.view().row(id)[c] += gradients.view().row(t)[c];
      }
    }
    CHECK(relative_error(out, eout) == 0);
    CHECK(out.margins_are_untouched());
    const TokenOrder order = token_order(ids, static_cast<std::int32_t>(vocab));
    CHECK(std::is_sorted(order.ids.begin(), order.ids.end()));
    embedding_backward_by(HostLauncher{}, order.ids, order.begins, order.tokens, dout.view(), dtable.view());
    CHECK(relative_error(numbers(dtable), numbers(edtable)) <= 1e-5);
  }
  CHECK_THROWS_WITH(token_order(std::vector<std::int32_t>{0, 7}, 7), Catch::StartsWith("token 1 has id 7"));
}
