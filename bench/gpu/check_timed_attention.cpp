#include <cstddef>
#include <random>
#include <string>

#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/pack_attention.hpp"
#include "bench/gpu/sampled_attention.hpp"

namespace slimpack::bench {

namespace {

using cuda::Bf16;

/// Rows that the pack owns, and after them as many as a tile may reach, which are no numbers.
Rows<Bf16> rows_and_more(std::mt19937& random, std::size_t rows, std::size_t all, std::size_t cols) {
  const Rows<Bf16> owned = random_rows(random, rows, cols);
  Rows<Bf16> out(all, cols);
  cuda::copy_bytes(out.span().data(), owned.span().data(), owned.span().size_bytes(), nullptr);
  cuda::wait_for_device();
  return out;
}

AttentionNumbers run(std::mt19937& random, const AttentionShape& shape, AttentionBy by) {
  constexpr std::size_t tile = 128;
  const auto owned = static_cast<std::size_t>(shape.tokens()),
             owned_keys = static_cast<std::size_t>(shape.keys);
  const std::size_t tokens = owned + tile, keys = owned_keys + tile;
  const std::size_t qw = timed_heads.query_width(), kw = timed_heads.kv_width();
  const Rows<Bf16> q = rows_and_more(random, owned, tokens, qw),
                   dout = rows_and_more(random, owned, tokens, qw),
                   k = rows_and_more(random, owned_keys, keys, kw),
                   v = rows_and_more(random, owned_keys, keys, kw), out(tokens, qw), dq(tokens, qw);
  const Rows<float> lse(timed_heads.heads, tokens), delta(timed_heads.heads, tokens);
  Rows<float> dk(keys, kw), dv(keys, kw);
  dk.fill(0), dv.fill(0);
  PackAttention pack(by, timed_heads, shape.slices, {q.in(), k.in(), v.in()});
  pack.forward(out, lse, nullptr);
  pack.backward({out, lse, dout, delta, dq, dk, dv}, nullptr);
  return {q.read(),  k.read(),   v.read(),  dout.read(), out.read(),
          dq.read(), lse.read(), dk.read(), dv.read(),   tokens};
}

}  // namespace

void check_timed_attention(Checks& checks, unsigned seed, AttentionBy by) {
  std::mt19937 random(seed);
  for (const AttentionShape& shape : attention_shapes()) {
    const AttentionNumbers numbers = run(random, shape, by);
    const SampledErrors errors = SampledAttention(timed_heads, numbers).compare_some(shape.slices, random);
    const std::string how = std::string(" by ") + name_of(by) + ", " + shape.name;
    checks.add("attention" + how, errors.out.error());
    checks.add("attention_backward, queries" + how, errors.dq.error());
    checks.add("attention_backward, keys" + how, errors.dk.error());
    checks.add("attention_backward, values" + how, errors.dv.error());
  }
}

}  // namespace slimpack::bench
