#include "kernels/math/attention.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "tests/kernels/random.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::difference, slimpack::testing::in_double, slimpack::testing::Numbers,
    slimpack::testing::numbers, slimpack::testing::pick, slimpack::testing::random_matrix,
    slimpack::testing::tolerance;

namespace {

/// Rows of a sample's matrix, one after another.
template <class Real>
Matrix<Real> rows_of(const Matrix<Real>& all, const std::vector<Positions>& ranges) {
  Matrix<Real> out(count(ranges), all.cols());
  Real* to = out.data();
  for (const Positions& range : ranges) {
    to = std::copy_n(all.data() + std::size_t(range.begin) * all.cols(), range.size() * all.cols(), to);
  }
  return out;
}

/// Ranges of random tokens among the first `tokens`, ascending, all of them dealt out to `parts` lists.
std::vector<std::vector<Positions>> deal(std::mt19937& random, std::size_t tokens, std::size_t parts) {
  std::vector<std::vector<Positions>> out(parts);
  for (std::size_t at = 0; at < tokens;) {
    const std::size_t end = std::min(tokens, at + pick(random, 1, 1 + tokens / 3));
    out[pick(random, 0, parts - 1)].push_back({Tokens(at), Tokens(end)});
    at = end;
  }
  return out;
}

/// A sample's attention in plain loops over (head, query, key).
struct Naive {
  HeadShape shape;
  Numbers q, k, v;

  [[nodiscard]] double dot(const Numbers& a, std::size_t i, const Numbers& b, std::size_t j) const {
    double sum = 0;
    for (std::size_t c = 0; c < shape.head_dim; ++c) sum += a[i + c] * b[j + c];
    return sum;
  }

  /// Calls f(place of the query's head, place of the key's head, probability, log-sum-exp) for each visible
  /// pair.
  template <class F>
  void pairs(std::size_t token, F&& f) const {
    for (std::size_t a = 0; a < shape.heads; ++a) {
      const std::size_t at = token * shape.query_width() + a * shape.head_dim;
      const auto key = [&](std::size_t j) {
        return j * shape.kv_width() + a / shape.group() * shape.head_dim;
      };
      Numbers score(token + 1);
      double sum = 0;
      for (std::size_t j = 0; j <= token; ++j) {
        score[j] = dot(q, at, k, key(j)) / std::sqrt(double(shape.head_dim));
        sum += std::exp(score[j]);
      }
      for (std::size_t j = 0; j <= token; ++j) f(at, key(j), std::exp(score[j]) / sum, std::log(sum));
    }
  }

  void forward(std::size_t token, Numbers& out, Numbers& lse) const {
    pairs(token, [&](std::size_t at, std::size_t key, double p, double log_sum) {
      for (std::size_t c = 0; c < shape.head_dim; ++c) out[at + c] += p * v[key + c];
      lse[at / shape.head_dim] = log_sum;
    });
  }

  void backward(std::size_t token, const Numbers& out, const Numbers& dout, Numbers& dq, Numbers& dk,
                Numbers& dv) const {
    pairs(token, [&](std::size_t at, std::size_t key, double p, double) {
      const double ds =
          p * (dot(dout, at, v, key) - dot(dout, at, out, at)) / std::sqrt(double(shape.head_dim));
      for (std::size_t c = 0; c < shape.head_dim; ++c) {
        dv[key + c] += p * dout[at + c];
        dq[at + c] += ds * k[key + c];
        dk[key + c] += ds * q[at + c];
      }
    });
  }
};

/// Random queries against a sample dealt out to pieces, in several calls.
template <class Real>
struct Case {
  explicit Case(unsigned seed) : random(seed) {
    shape.kv_heads = pick(random, 1, 3);
    shape.heads = shape.kv_heads * pick(random, 1, 8);
    shape.head_dim = pick(random, 1, 24);
    blocks = {pick(random, 1, 40), pick(random, 1, 40)};
    tokens = pick(random, 1, 60);
    q = random_matrix<Real>(random, tokens, shape.query_width());
    k = random_matrix<Real>(random, tokens, shape.kv_width());
    v = random_matrix<Real>(random, tokens, shape.kv_width());
    dout = random_matrix<Real>(random, tokens, shape.query_width());
    queries = deal(random, tokens, pick(random, 1, 4));
    pieces = deal(random, tokens, pick(random, 1, 5));
    std::shuffle(pieces.begin(), pieces.end(), random);
  }

  std::mt19937 random;
  HeadShape shape;
  AttentionBlocks blocks;
  std::size_t tokens = 0;
  Matrix<Real> q, k, v, dout;
  std::vector<std::vector<Positions>> queries, pieces;
};

}  // namespace

TEMPLATE_TEST_CASE("attention piece by piece equals plain loops, forward and backward", "", float, double) {
  using Real = TestType;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    Case<Real> c(seed);
    const Naive naive{c.shape, in_double(c.q), in_double(c.k), in_double(c.v)};
    const std::size_t qw = c.shape.query_width(), kw = c.shape.kv_width();
    Numbers eout(c.tokens * qw), else_(c.tokens * c.shape.heads), edq(c.tokens * qw), edk(c.tokens * kw),
        edv(edk);
    for (std::size_t t = 0; t < c.tokens; ++t) naive.forward(t, eout, else_);
    for (std::size_t t = 0; t < c.tokens; ++t) naive.backward(t, eout, in_double(c.dout), edq, edk, edv);

    Attention<Real> attention(c.shape, c.blocks);
    std::vector<Matrix<Real>> keys, values, dkeys, dvalues;
    for (const auto& ranges : c.pieces) {
      keys.push_back(rows_of(c.k, ranges));
      values.push_back(rows_of(c.v, ranges));
      dkeys.emplace_back(count(ranges), kw);
      dvalues.emplace_back(count(ranges), kw);
    }
    std::vector<KeyValuePiece<Real>> pieces;
    std::vector<typename Attention<Real>::PieceGradients> gradients;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      pieces.push_back({keys[i].view(), values[i].view(), c.pieces[i]});
      gradients.push_back({dkeys[i].view(), dvalues[i].view()});
    }
    const std::size_t cut = pick(c.random, 0, pieces.size());  // first and second call
    const std::span<const KeyValuePiece<Real>> all(pieces);
    const std::span<const typename Attention<Real>::PieceGradients> all_gradients(gradients);
    Numbers out(eout.size()), lse(else_.size()), dq(edq.size());
    const auto place = [&](const Matrix<Real>& rows, const std::vector<Positions>& ranges, Numbers& to) {
      std::size_t at = 0;
      for (const Positions& r : ranges) {
        for (std::size_t i = 0; i < r.size() * rows.cols(); ++i, ++at) {
          to[std::size_t(r.begin) * rows.cols() + i] = double(rows.data()[at]);
        }
      }
    };
    for (const auto& ranges : c.queries) {
      const Matrix<Real> q = rows_of(c.q, ranges), dout = rows_of(c.dout, ranges);
      Matrix<Real> o(q.rows(), qw), maximum(q.rows(), c.shape.heads), sum(q.rows(), c.shape.heads),
          g(q.rows(), qw);
      const AttentionState<Real> state{o.view(), maximum.view(), sum.view()};
      Attention<Real>::begin(state);
      attention.accumulate({q.view(), ranges}, all.first(cut), state);
      attention.accumulate({q.view(), ranges}, all.subspan(cut), state);
      attention.finish(state, maximum.view());
      place(o, ranges, out);
      place(maximum, ranges, lse);
      const typename Attention<Real>::Saved saved{o.view(), maximum.view(), dout.view()};
      std::fill_n(g.data(), g.rows() * qw, Real{0});
      attention.backward({q.view(), ranges}, saved, all.subspan(cut), g.view(), all_gradients.subspan(cut));
      attention.backward({q.view(), ranges}, saved, all.first(cut), g.view(), all_gradients.first(cut));
      place(g, ranges, dq);
    }
    Numbers dk(edk.size()), dv(edv.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      place(dkeys[i], c.pieces[i], dk);
      place(dvalues[i], c.pieces[i], dv);
    }
    CHECK(difference(out, eout) < tolerance<Real>);
    CHECK(difference(lse, else_) < tolerance<Real>);
    CHECK(difference(dq, edq) < tolerance<Real>);
    CHECK(difference(dk, edk) < tolerance<Real>);
    CHECK(difference(dv, edv) < tolerance<Real>);
  }
}

TEST_CASE("attention of scores that no exponential holds stays finite") {
  const HeadShape shape{1, 1, 1};
  Attention<float> attention(shape, {1, 1});
  Matrix<float> q(2, 1), k(2, 1), v(2, 1), out(2, 1), maximum(2, 1), sum(2, 1);
  std::copy_n(std::vector<float>{300, -300}.begin(), 2, q.data());
  std::copy_n(std::vector<float>{-10, 10}.begin(), 2, k.data());
  std::copy_n(std::vector<float>{3, 5}.begin(), 2, v.data());
  const std::vector<Positions> both{{0, 2}};
  const KeyValuePiece<float> piece{k.view(), v.view(), both};
  const AttentionState<float> state{out.view(), maximum.view(), sum.view()};
  Attention<float>::begin(state);
  attention.accumulate({q.view(), both}, std::span(&piece, 1), state);
  attention.finish(state, sum.view());
  CHECK(out.data()[0] == 3.0f);
  CHECK(out.data()[1] == 3.0f);
  CHECK(sum.data()[0] == -3000.0f);
  CHECK(sum.data()[1] == 3000.0f);
}

TEST_CASE("attention refuses what it can't work with") {
  CHECK_THROWS_WITH(Attention<double>({6, 4, 8}), Catch::StartsWith("kv_heads is 4"));
  CHECK_THROWS_AS(Attention<double>({6, 0, 8}), InvalidInput);
  CHECK_THROWS_AS(Attention<double>({6, 3, 8}, {0, 8}), InvalidInput);
  Attention<double> attention({2, 1, 4});
  Matrix<double> q(3, 8), k(3, 4), out(3, 8), maximum(3, 2), sum(3, 2);
  const AttentionState<double> state{out.view(), maximum.view(), sum.view()};
  const std::vector<Positions> good{{0, 3}}, late{{1, 4}}, down{{2, 4}, {0, 1}}, more{{0, 4}};
  const auto run = [&](const auto& queries, const auto& keys) {
    Attention<double>::begin(state);
    const KeyValuePiece<double> piece{k.view(), k.view(), keys};
    attention.accumulate({q.view(), queries}, std::span(&piece, 1), state);
    attention.finish(state, sum.view());
  };
  CHECK_NOTHROW(run(good, good));
  CHECK_NOTHROW(run(late, good));
  CHECK_THROWS_WITH(run(good, late), Catch::StartsWith("query 0 has met no key"));
  CHECK_THROWS_WITH(run(down, good), Catch::StartsWith("positions of queries have [0, 1) after 4"));
  CHECK_THROWS_WITH(run(good, more), Catch::StartsWith("keys are [3 x 4]; expected [4 x 4]"));
}
