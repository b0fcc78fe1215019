#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/pack_attention.hpp"

namespace slimpack::bench {

namespace {

using cuda::AttentionSlice, cuda::Bf16;

/// Numbers of the GPU beside those in double.
class Compared {
 public:
  void add(double result, double expected) {
    const double d = result - expected;
    off_ += d * d;
    all_ += expected * expected;
  }
  /// Infinite if a result is no number.
  [[nodiscard]] double error() const { return std::isfinite(off_) ? std::sqrt(off_ / all_) : INFINITY; }

 private:
  double off_ = 0.0, all_ = 0.0;
};

/// What goes into attention and what came out, on the host.
struct HostAttention {
  std::vector<Bf16> q, k, v, dout, out, dq;
  std::vector<float> lse, dk, dv;
  std::size_t tokens = 0;
};

constexpr std::size_t dim = timed_heads.head_dim;
const double scale = 1.0 / std::sqrt(static_cast<double>(dim));

/// The numbers of a head in a row.
template <class T>
std::span<const T> head_of(const std::vector<T>& rows, std::size_t row, std::size_t heads, std::size_t head) {
  return std::span(rows).subspan((row * heads + head) * dim, dim);
}

template <class A, class B>
double dot(std::span<const A> a, std::span<const B> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < dim; ++i) sum += in_double(a[i]) * in_double(b[i]);
  return sum;
}

struct Errors {
  Compared out, dq, dk, dv;
};

/// Output and gradient of one query, from all keys that it sees. O(keys).
void compare_query(const HostAttention& h, const AttentionSlice& s, std::int32_t token, std::size_t head,
                   Errors& errors) {
  constexpr std::size_t heads = timed_heads.heads, kv_heads = timed_heads.kv_heads;
  const std::size_t kv_head = head / timed_heads.group(),
                    row = static_cast<std::size_t>(s.query_begin + token);
  const auto seen = static_cast<std::size_t>(s.prefix + token + 1),
             begin = static_cast<std::size_t>(s.key_begin);
  const auto q = head_of(h.q, row, heads, head), dout = head_of(h.dout, row, heads, head);
  std::vector<double> p(seen), dp(seen);
  double most = -INFINITY, sum = 0.0, delta = 0.0;
  for (std::size_t j = 0; j < seen; ++j) {
    p[j] = scale * dot(q, head_of(h.k, begin + j, kv_heads, kv_head));
    dp[j] = dot(dout, head_of(h.v, begin + j, kv_heads, kv_head));
    most = std::max(most, p[j]);
  }
  for (double& x : p) sum += x = std::exp(x - most);
  for (std::size_t j = 0; j < seen; ++j) delta += (p[j] /= sum) * dp[j];
  std::vector<double> out(dim), dq(dim);
  for (std::size_t j = 0; j < seen; ++j) {
    const auto k = head_of(h.k, begin + j, kv_heads, kv_head), v = head_of(h.v, begin + j, kv_heads, kv_head);
    const double ds = scale * p[j] * (dp[j] - delta);
    for (std::size_t i = 0; i < dim; ++i) {
      out[i] += p[j] * in_double(v[i]);
      dq[i] += ds * in_double(k[i]);
    }
  }
  for (std::size_t i = 0; i < dim; ++i) {
    errors.out.add(in_double(head_of(h.out, row, heads, head)[i]), out[i]);
    errors.dq.add(in_double(head_of(h.dq, row, heads, head)[i]), dq[i]);
  }
}

/// Gradients of one key and value, from all queries that see it. Their log-sum-exps and outputs are the GPU's, which
/// `compare_query` samples: in double, each would take all keys. O(queries of the slice).
void compare_key(const HostAttention& h, const AttentionSlice& s, std::int32_t key, std::size_t kv_head,
                 Errors& errors) {
  constexpr std::size_t heads = timed_heads.heads, kv_heads = timed_heads.kv_heads;
  const std::size_t group = timed_heads.group(), at = static_cast<std::size_t>(s.key_begin + key);
  const auto k = head_of(h.k, at, kv_heads, kv_head), v = head_of(h.v, at, kv_heads, kv_head);
  std::vector<double> dk(dim), dv(dim);
  for (std::int32_t token = std::max(0, key - s.prefix); token < s.tokens; ++token) {
    const auto row = static_cast<std::size_t>(s.query_begin + token);
    for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const auto q = head_of(h.q, row, heads, head), dout = head_of(h.dout, row, heads, head);
      const double p = std::exp(scale * dot(q, k) - in_double(h.lse[head * h.tokens + row]));
      const double ds = scale * p * (dot(dout, v) - dot(dout, head_of(h.out, row, heads, head)));
      for (std::size_t i = 0; i < dim; ++i) {
        dk[i] += ds * in_double(q[i]);
        dv[i] += p * in_double(dout[i]);
      }
    }
  }
  for (std::size_t i = 0; i < dim; ++i) {
    errors.dk.add(in_double(head_of(h.dk, at, kv_heads, kv_head)[i]), dk[i]);
    errors.dv.add(in_double(head_of(h.dv, at, kv_heads, kv_head)[i]), dv[i]);
  }
}

HostAttention run(std::mt19937& random, const AttentionShape& shape, AttentionBy by) {
  const auto tokens = static_cast<std::size_t>(shape.tokens()), keys = static_cast<std::size_t>(shape.keys);
  const std::size_t qw = timed_heads.query_width(), kw = timed_heads.kv_width();
  const Rows<Bf16> q = random_rows(random, tokens, qw), dout = random_rows(random, tokens, qw),
                   k = random_rows(random, keys, kw), v = random_rows(random, keys, kw), out(tokens, qw),
                   dq(tokens, qw);
  const Rows<float> lse(timed_heads.heads, tokens), delta(timed_heads.heads, tokens);
  Rows<float> dk(keys, kw), dv(keys, kw);
  dk.fill(0), dv.fill(0);
  PackAttention pack(by, timed_heads, shape.slices, {q.in(), k.in(), v.in()});
  pack.forward(out, lse, nullptr);
  pack.backward({out, lse, dout, delta, dq, dk, dv}, nullptr);
  return {q.read(),  k.read(),   v.read(),  dout.read(), out.read(),
          dq.read(), lse.read(), dk.read(), dv.read(),   tokens};
}

/// Some tokens and keys of the first, a middle and the last slice: at borders, and anywhere.
Errors compare(std::mt19937& random, const HostAttention& h, const std::vector<AttentionSlice>& slices) {
  Errors errors;
  for (const std::size_t n : {std::size_t{0}, slices.size() / 2, slices.size() - 1}) {
    const AttentionSlice& s = slices[n];
    const auto below = [&](std::int32_t end) {
      return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(end));
    };
    for (const std::int32_t token : {0, below(s.tokens), below(s.tokens), s.tokens - 1})
      compare_query(h, s, token, random() % timed_heads.heads, errors);
    for (const std::int32_t key : {0, below(s.seen()), below(s.seen()), s.prefix, s.seen() - 1})
      compare_key(h, s, key, random() % timed_heads.kv_heads, errors);
  }
  return errors;
}

}  // namespace

void check_timed_attention(Checks& checks, unsigned seed) {
  std::mt19937 random(seed);
  for (const AttentionShape& shape : attention_shapes()) {
    for (const AttentionBy by : our_attention()) {
      const Errors errors = compare(random, run(random, shape, by), shape.slices);
      const std::string how = std::string(" by ") + name_of(by) + ", " + shape.name;
      checks.add("attention" + how, errors.out.error());
      checks.add("attention_backward, queries" + how, errors.dq.error());
      checks.add("attention_backward, keys" + how, errors.dk.error());
      checks.add("attention_backward, values" + how, errors.dv.error());
    }
  }
}

}  // namespace slimpack::bench
