#pragma once

#include <cstdint>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"

namespace slimpack {

/// Shape of a Llama-style decoder: grouped-query attention and a gated MLP in every layer.
struct Transformer {
  std::string name = "custom";
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t heads = 0;     ///< query heads
  std::int32_t kv_heads = 0;  ///< key/value heads; equal to `heads` without grouping
  std::int32_t head_dim = 0;
  std::int32_t ffn = 0;  ///< width of the gated MLP
  std::int32_t vocab = 0;

  friend bool operator==(const Transformer&, const Transformer&) = default;
};

/// Parameters of the attention and MLP matrices and the two norms of one layer.
[[nodiscard]] constexpr double layer_parameters(const Transformer& m) {
  const double h = m.hidden, q = double(m.heads) * m.head_dim, kv = double(m.kv_heads) * m.head_dim;
  return h * (q + 2 * kv) + q * h + 3 * h * m.ffn + 2 * h;
}

/// Parameters of the input embedding; the (untied) output head has as many.
[[nodiscard]] constexpr double embedding_parameters(const Transformer& m) {
  return double(m.vocab) * m.hidden;
}

/// All parameters: layers, embedding, output head and the final norm.
[[nodiscard]] constexpr double parameters(const Transformer& m) {
  return m.layers * layer_parameters(m) + 2 * embedding_parameters(m) + m.hidden;
}

/// @throws InvalidInput naming the first field that no transformer can have.
inline void validate(const Transformer& m) {
  const auto positive = [&](const char* field, std::int32_t value) {
    require(value > 0, "model '", visible(m.name), "': ", field, " is ", value,
            "; expected a positive number");
  };
  positive("layers", m.layers);
  positive("hidden", m.hidden);
  positive("heads", m.heads);
  positive("kv_heads", m.kv_heads);
  positive("head_dim", m.head_dim);
  positive("ffn", m.ffn);
  positive("vocab", m.vocab);
  require(m.heads % m.kv_heads == 0, "model '", visible(m.name), "': kv_heads is ", m.kv_heads,
          "; expected a divisor of heads = ", m.heads);
}

}  // namespace slimpack
