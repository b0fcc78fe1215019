#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/attention.hpp"

// Attention of packs so large that only some of its rows are computed again in double.
namespace slimpack::bench {

/// Results, and what is expected.
class Compared {
 public:
  void add(double result, double expected) {
    const double d = result - expected;
    off_ += d * d;
    all_ += expected * expected;
  }
  /// ||results - expected|| / ||expected||; infinite if a result is no number.
  [[nodiscard]] double error() const { return std::isfinite(off_) ? std::sqrt(off_ / all_) : INFINITY; }

 private:
  double off_ = 0.0, all_ = 0.0;
};

/// What goes into a pack's attention and its gradients, and what came out.
struct AttentionNumbers {
  std::vector<kernels::cuda::Bf16> q, k, v, dout, out, dq;
  std::vector<float> lse, dk, dv;
  std::size_t tokens = 0;
};

struct SampledErrors {
  Compared out, dq, dk, dv;
};

/// Computes rows of a pack's attention again, in double.
class SampledAttention {
 public:
  /// @param numbers have to outlive it.
  SampledAttention(const kernels::HeadShape& shape, const AttentionNumbers& numbers)
      : shape_(shape), n_(numbers), scale_(1.0 / std::sqrt(static_cast<double>(shape.head_dim))) {}

  /// Output and gradient of one query, from all keys that it sees. @param token of the slice. O(keys *
  /// head_dim).
  void compare_query(const kernels::cuda::AttentionSlice& s, std::int32_t token, std::size_t head,
                     SampledErrors& errors) const {
    const std::size_t kv_head = head / shape_.group(), row = index(s.query_begin + token);
    const std::size_t seen = index(s.prefix + token + 1), begin = index(s.key_begin);
    const auto q = query(n_.q, row, head), dout = query(n_.dout, row, head);
    std::vector<double> p(seen), dp(seen);
    double most = -INFINITY, sum = 0.0, delta = 0.0;
    for (std::size_t j = 0; j < seen; ++j) {
      p[j] = scale_ * dot(q, key(n_.k, begin + j, kv_head));
      dp[j] = dot(dout, key(n_.v, begin + j, kv_head));
      most = std::max(most, p[j]);
    }
    for (double& x : p) sum += x = std::exp(x - most);
    for (std::size_t j = 0; j < seen; ++j) delta += (p[j] /= sum) * dp[j];
    std::vector<double> out(shape_.head_dim), dq(shape_.head_dim);
    for (std::size_t j = 0; j < seen; ++j) {
      add(p[j], key(n_.v, begin + j, kv_head), out);
      add(scale_ * p[j] * (dp[j] - delta), key(n_.k, begin + j, kv_head), dq);
    }
    compare(query(n_.out, row, head), out, errors.out);
    compare(query(n_.dq, row, head), dq, errors.dq);
  }

  /// Gradients of one key and value, from all queries that see it. These queries' log-sum-exps and outputs
  /// are the ones that came out, of which `compare_query` takes samples: in double, each would take all of
  /// its keys.
  /// @param key_token of the sample. O(queries of the slice * heads of the group * head_dim).
  void compare_key(const kernels::cuda::AttentionSlice& s, std::int32_t key_token, std::size_t kv_head,
                   SampledErrors& errors) const {
    const std::size_t at = index(s.key_begin + key_token);
    const auto k = key(n_.k, at, kv_head), v = key(n_.v, at, kv_head);
    std::vector<double> dk(shape_.head_dim), dv(shape_.head_dim);
    for (std::int32_t token = std::max(0, key_token - s.prefix); token < s.tokens; ++token) {
      const std::size_t row = index(s.query_begin + token);
      for (std::size_t head = kv_head * shape_.group(); head < (kv_head + 1) * shape_.group(); ++head) {
        const auto q = query(n_.q, row, head), dout = query(n_.dout, row, head);
        const double lse = static_cast<double>(n_.lse[head * n_.tokens + row]);
        const double p = std::exp(scale_ * dot(q, k) - lse);
        add(scale_ * p * (dot(dout, v) - dot(dout, query(n_.out, row, head))), q, dk);
        add(p, dout, dv);
      }
    }
    compare(key(n_.dk, at, kv_head), dk, errors.dk);
    compare(key(n_.dv, at, kv_head), dv, errors.dv);
  }

  /// Tokens and keys of the first, a middle and the last slice: at borders, and anywhere. Keys are compared
  /// where no other slice sees them, so slices have to be of different samples.
  [[nodiscard]] SampledErrors compare_some(std::span<const kernels::cuda::AttentionSlice> slices,
                                           std::mt19937& random) const {
    SampledErrors errors;
    for (const std::size_t i : {std::size_t{0}, slices.size() / 2, slices.size() - 1}) {
      const kernels::cuda::AttentionSlice& s = slices[i];
      const auto below = [&](std::int32_t end) {
        return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(end));
      };
      for (const std::int32_t token : {0, below(s.tokens), below(s.tokens), s.tokens - 1})
        compare_query(s, token, random() % shape_.heads, errors);
      for (const std::int32_t k : {0, below(s.seen()), below(s.seen()), s.prefix, s.seen() - 1})
        compare_key(s, k, random() % shape_.kv_heads, errors);
    }
    return errors;
  }

 private:
  [[nodiscard]] static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] static double number(kernels::cuda::Bf16 x) {
    return static_cast<double>(kernels::cuda::to_float(x));
  }
  [[nodiscard]] static double number(float x) { return static_cast<double>(x); }

  /// The numbers of a head in a row of all heads, or of all key/value heads.
  template <class T>
  [[nodiscard]] std::span<const T> query(const std::vector<T>& rows, std::size_t row,
                                         std::size_t head) const {
    return std::span(rows).subspan((row * shape_.heads + head) * shape_.head_dim, shape_.head_dim);
  }
  template <class T>
  [[nodiscard]] std::span<const T> key(const std::vector<T>& rows, std::size_t row, std::size_t head) const {
    return std::span(rows).subspan((row * shape_.kv_heads + head) * shape_.head_dim, shape_.head_dim);
  }
  template <class T>
  [[nodiscard]] static double dot(std::span<const T> a, std::span<const T> b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += number(a[i]) * number(b[i]);
    return sum;
  }
  template <class T>
  static void add(double factor, std::span<const T> x, std::vector<double>& sum) {
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += factor * number(x[i]);
  }
  template <class T>
  static void compare(std::span<const T> results, const std::vector<double>& expected, Compared& compared) {
    for (std::size_t i = 0; i < expected.size(); ++i) compared.add(number(results[i]), expected[i]);
  }

  kernels::HeadShape shape_;
  const AttentionNumbers& n_;
  double scale_;
};

}  // namespace slimpack::bench
