#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/operators.hpp"
#include "kernels/math/adamw.hpp"
#include "kernels/math/cross_entropy.hpp"
#include "kernels/math/gemm.hpp"
#include "kernels/math/rms_norm.hpp"
#include "kernels/math/rope.hpp"
#include "kernels/math/swiglu.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16;
using kernels::Matrix, kernels::Positions, kernels::Update;

std::vector<double> doubles(const std::vector<Bf16>& from) {
  std::vector<double> out;
  for (const Bf16 x : from) out.push_back(in_double(x));
  return out;
}

struct Sizes {
  std::size_t rows, cols;
};

void check_norm(Checks& checks, std::mt19937& random, const Sizes& s) {
  const auto x = random_bf16(random, s.rows * s.cols, 2.0), dy = random_bf16(random, s.rows * s.cols),
             w = random_bf16(random, s.cols);
  const Rows<Bf16> dx_in(x, s.rows, s.cols), dy_in(dy, s.rows, s.cols), y(s.rows, s.cols),
      dx(dy, s.rows, s.cols);
  const Numbers<Bf16> weight(w);
  const Numbers<float> dweight(std::vector<float>(s.cols, 0.5F)),
      workspace(cuda::rms_norm_workspace(s.rows, s.cols));
  cuda::rms_norm(dx_in.in(), {}, {}, weight.span(), 1e-5, y.view(), nullptr);
  cuda::rms_norm_backward(dx_in.in(), weight.span(), 1e-5, dy_in.in(), dx.view(), dweight.span(),
                          workspace.span(), nullptr);
  const auto in = matrix(x, s.rows, s.cols), gradient = matrix(dy, s.rows, s.cols);
  Matrix<double> ey(s.rows, s.cols);
  auto edx = gradient;
  std::vector<double> edweight(s.cols, 0.5);
  kernels::rms_norm<double>(in.view(), doubles(w), 1e-5, ey.view());
  kernels::rms_norm_backward<double>(in.view(), doubles(w), 1e-5, gradient.view(), edx.view(), edweight);
  checks.add("rms_norm", relative_error(y.read(), ey));
  checks.add("rms_norm_backward, input", relative_error(dx.read(), edx));
  checks.add("rms_norm_backward, weight", relative_error(dweight.read(), edweight));
}

void check_rope(Checks& checks, std::mt19937& random, std::size_t dim) {
  const std::vector<Positions> ranges{{0, 50}, {250000, 250031}};
  std::vector<std::int32_t> positions;
  for (const Positions& range : ranges) {
    for (Tokens p = range.begin; p < range.end; ++p) positions.push_back(static_cast<std::int32_t>(p));
  }
  const std::size_t tokens = positions.size(), cols = 3 * dim;
  const auto x = random_bf16(random, tokens * cols);
  const Rows<Bf16> turned(x, tokens, cols);
  const Numbers<std::int32_t> at(positions);
  const Numbers<float> table(tokens * dim);
  cuda::rope_table(at.span(), dim, 10000.0, table.span(), nullptr);
  cuda::rope(table.span(), dim, turned.view(), nullptr);
  kernels::RopeTable<double> expected_table;
  expected_table.set(ranges, dim, 10000.0);
  auto expected = matrix(x, tokens, cols);
  kernels::rope<double>(expected_table, expected.view());
  checks.add("rope", relative_error(turned.read(), expected));
  cuda::rope_backward(table.span(), dim, turned.view(), nullptr);
  checks.add("rope_backward", relative_error(turned.read(), matrix(x, tokens, cols)));
}

void check_swiglu(Checks& checks, std::mt19937& random, const Sizes& s) {
  const auto in = random_bf16(random, 2 * s.rows * s.cols, 3.0), d = random_bf16(random, s.rows * s.cols);
  const Rows<Bf16> gate_up(in, s.rows, 2 * s.cols), dout(d, s.rows, s.cols), out(s.rows, s.cols),
      dgate_up(s.rows, 2 * s.cols);
  cuda::swiglu(gate_up.in(), out.view(), nullptr);
  cuda::swiglu_backward(gate_up.in(), dout.in(), dgate_up.view(), nullptr);
  Matrix<double> eout(s.rows, s.cols), edgate_up(s.rows, 2 * s.cols);
  const auto x = matrix(in, s.rows, 2 * s.cols), dx = matrix(d, s.rows, s.cols);
  kernels::swiglu<double>(x.view(), eout.view());
  kernels::swiglu_backward<double>(x.view(), dx.view(), edgate_up.view());
  checks.add("swiglu", relative_error(out.read(), eout));
  checks.add("swiglu_backward", relative_error(dgate_up.read(), edgate_up));
}

void check_cross_entropy(Checks& checks, std::mt19937& random, const Sizes& s) {
  const auto in = random_bf16(random, s.rows * s.cols, 3.0);
  std::vector<std::int32_t> wanted(s.rows);
  for (auto& label : wanted) label = static_cast<std::int32_t>(random() % (s.cols + 1)) - 1;
  const Rows<Bf16> logits(in, s.rows, s.cols);
  const Numbers<std::int32_t> labels(wanted);
  const Numbers<cuda::LogitState> states(s.rows);
  const Numbers<double> loss(std::vector<double>{0.0});
  const std::size_t half = s.cols / 16 * 8;
  for (const auto& [first, size] : {std::pair{std::size_t{0}, half}, std::pair{half, s.cols - half}}) {
    if (size == 0) continue;
    cuda::cross_entropy_part(logits.in().middle_cols(first, size), first, labels.span(), states.span(),
                             nullptr);
  }
  cuda::cross_entropy_loss(labels.span(), states.span(), loss.span().data(), nullptr);
  cuda::cross_entropy_backward(logits.view(), 0, labels.span(), states.span(), 0.125, nullptr);
  auto expected = matrix(in, s.rows, s.cols);
  const double eloss = kernels::cross_entropy<double>(expected.view(), wanted);
  kernels::cross_entropy_backward<double>(expected.view(), wanted, 0.125);
  checks.add("cross_entropy", std::abs(loss.read()[0] - eloss) / std::abs(eloss));
  checks.add("cross_entropy_backward", relative_error(logits.read(), expected));
}

void check_adamw(Checks& checks, std::mt19937& random, std::size_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> w(n), g(n);
  for (std::size_t i = 0; i < n; ++i) w[i] = normal(random), g[i] = normal(random);
  const Numbers<float> weights(w), gradients(g), first(std::vector<float>(n, 0.0F)),
      second(std::vector<float>(n, 0.0F));
  const Numbers<Bf16> copies(n);
  std::vector<double> ew(w.begin(), w.end()), em(n), ev(n);
  const std::vector<double> eg(g.begin(), g.end());
  for (int step = 1; step <= 3; ++step) {
    cuda::adamw(weights.span(), copies.span(), gradients.span(), first.span(), second.span(), step, {},
                nullptr);
    kernels::adamw<double>(ew, eg, em, ev, step, {});
  }
  checks.add("adamw, weights", relative_error(weights.read(), ew));
  checks.add("adamw, copies", relative_error(copies.read(), ew));
}

void check_embedding(Checks& checks, std::mt19937& random, const Sizes& s) {
  const std::size_t vocab = 50;
  const auto rows = random_bf16(random, vocab * s.cols), d = random_bf16(random, s.rows * s.cols);
  std::vector<std::int32_t> wanted(s.rows);
  for (auto& id : wanted) id = static_cast<std::int32_t>(random() % vocab);
  const cuda::TokenOrder order = cuda::token_order(wanted, vocab);
  const Rows<Bf16> table(rows, vocab, s.cols), dout(d, s.rows, s.cols), out(s.rows, s.cols);
  const Rows<float> dtable(std::vector<float>(vocab * s.cols, 0.0F), vocab, s.cols);
  const Numbers<std::int32_t> ids(wanted), unique(order.ids), begins(order.begins), tokens(order.tokens);
  cuda::embedding(table.in(), ids.span(), out.view(), nullptr);
  cuda::embedding_backward(unique.span(), begins.span(), tokens.span(), dout.in(), dtable.view(), nullptr);
  Matrix<double> eout(s.rows, s.cols), edtable(vocab, s.cols);
  for (std::size_t t = 0; t < s.rows; ++t) {
    for (std::size_t c = 0; c < s.cols; ++c) {
      const auto id = static_cast<std::size_t>(wanted[t]);
      eout.view().row(t)[c] = in_double(rows[id * s.cols + c]);
      edtable.view().row(id)[c] += in_double(d[t * s.cols + c]);
    }
  }
  checks.add("embedding", relative_error(out.read(), eout));
  checks.add("embedding_backward", relative_error(dtable.read(), edtable));
}

void check_gemm(Checks& checks, std::mt19937& random) {
  const cuda::DeviceMemory workspace(std::size_t{32} << 20U);
  cuda::Gemm gemm(workspace.bytes());
  const std::size_t m = 96, n = 136, k = 200;
  for (const auto product :
       {cuda::Product::multiply, cuda::Product::multiply_transposed, cuda::Product::transposed_multiply}) {
    const Sizes a_size = product == cuda::Product::transposed_multiply ? Sizes{k, m} : Sizes{m, k};
    const Sizes b_size = product == cuda::Product::multiply_transposed ? Sizes{n, k} : Sizes{k, n};
    const auto left = random_bf16(random, m * k), right = random_bf16(random, k * n);
    const Rows<Bf16> a(left, a_size.rows, a_size.cols), b(right, b_size.rows, b_size.cols), c(m, n);
    const Rows<float> sum(std::vector<float>(m * n, 1.0F), m, n);
    gemm.run(product, a.in(), b.in(), c.view(), Update::set, nullptr);
    gemm.run(product, a.in(), b.in(), sum.view(), Update::add, nullptr);
    const auto ea = matrix(left, a_size.rows, a_size.cols), eb = matrix(right, b_size.rows, b_size.cols);
    Matrix<double> expected(m, n);
    switch (product) {
      case cuda::Product::multiply:
        kernels::multiply<double>(ea.view(), eb.view(), expected.view());
        break;
      case cuda::Product::multiply_transposed:
        kernels::multiply_transposed<double>(ea.view(), eb.view(), expected.view());
        break;
      case cuda::Product::transposed_multiply:
        kernels::transposed_multiply<double>(ea.view(), eb.view(), expected.view());
        break;
    }
    checks.add("gemm, bf16", relative_error(c.read(), expected));
    for (std::size_t i = 0; i < m * n; ++i) expected.data()[i] += 1.0;
    checks.add("gemm, added in float", relative_error(sum.read(), expected));
  }
}

}  // namespace

void check_operators(Checks& checks, unsigned seed) {
  std::mt19937 random(seed);
  for (const Sizes& s : {Sizes{1, 8}, Sizes{37, 101}, Sizes{300, 1024}, Sizes{5000, 40}}) {
    check_norm(checks, random, s);
    check_swiglu(checks, random, s);
    check_cross_entropy(checks, random, s);
    check_embedding(checks, random, s);
  }
  for (const std::size_t dim : {64UL, 128UL, 6UL}) check_rope(checks, random, dim);
  check_adamw(checks, random, 100003);
  check_gemm(checks, random);
}

}  // namespace slimpack::bench
