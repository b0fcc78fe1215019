#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/model/weights.hpp"
#include "slimpack/model/offload.hpp"

namespace slimpack::kernels {

/// What a stage keeps of a token from forward to backward, other than keys and values.
enum class Kept : std::uint8_t {
  input,      ///< of a layer [hidden]; recomputed layers keep nothing else
  query,      ///< with rotary embedding [heads * head_dim]
  attention,  ///< its output [heads * head_dim]
  lse,        ///< log-sum-exp of attention's scores [heads]
  middle,     ///< between attention and MLP, residual included [hidden]
  gate_up,    ///< before the activation [2 ffn]
  output,     ///< of the stage's last layer [hidden]; last stage only
};

/// Where the numbers of a token's activations stand: layer by layer, of recomputed layers the input alone.
/// Numbers are per token; a fragment of n tokens stores each field as n rows.
class ActivationLayout {
 public:
  explicit ActivationLayout(const StagePart& part) : ActivationLayout(part, part.heads().heads) {}

  /// @param lse_width numbers that a token's log-sum-exps take, where they are wider than the rest.
  ActivationLayout(const StagePart& part, std::size_t lse_width)
      : layers_(part.layer_count()),
        widths_{part.hidden(),
                part.heads().query_width(),
                part.heads().query_width(),
                lse_width,
                part.hidden(),
                2 * part.ffn(),
                part.hidden()},
        last_(part.last) {}

  /// Of `tokens` tokens together, of which a tensor-parallel rank holds the residual stream of `rows`: all numbers below are
  /// then theirs, not a token's.
  [[nodiscard]] ActivationLayout of(std::size_t tokens, std::size_t rows) const {
    ActivationLayout layout = *this;
    for (std::size_t i = 0; i < widths_.size(); ++i)
      layout.widths_[i] *= is_residual(static_cast<Kept>(i)) ? rows : tokens;
    return layout;
  }

  /// Whether a field is of the residual stream, of which a tensor-parallel rank has some tokens.
  [[nodiscard]] static constexpr bool is_residual(Kept field) {
    return field == Kept::input || field == Kept::middle || field == Kept::output;
  }

  [[nodiscard]] std::size_t width(Kept field) const { return widths_[static_cast<std::size_t>(field)]; }

  /// Numbers of a token before the field of a layer. The field has to be kept there.
  [[nodiscard]] std::size_t offset(Kept field, std::size_t layer, std::size_t recompute_layers) const {
    if (field == Kept::output) return before(layers_, recompute_layers);
    std::size_t sum = before(layer, recompute_layers);
    for (std::size_t i = 0; i < static_cast<std::size_t>(field); ++i) sum += widths_[i];
    return sum;
  }

  /// Numbers of a token before a layer; of all layers if it is the one after the last.
  [[nodiscard]] std::size_t before(std::size_t layer, std::size_t recompute_layers) const {
    std::size_t full = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(Kept::output); ++i) full += widths_[i];
    const std::size_t thin = layer < recompute_layers ? layer : recompute_layers;
    return thin * width(Kept::input) + (layer - thin) * full;
  }

  /// Numbers of a token in the layers of a range.
  [[nodiscard]] std::size_t size(const LayerRange& range, std::size_t recompute_layers) const {
    return before(static_cast<std::size_t>(range.end), recompute_layers) -
           before(static_cast<std::size_t>(range.first), recompute_layers);
  }

  /// Those of a stage's layers that wait in the host's memory.
  [[nodiscard]] LayerRange offloaded(std::size_t recompute_layers, std::size_t offload_layers) const {
    return offloaded_layers(static_cast<std::int32_t>(layers_), static_cast<std::int32_t>(recompute_layers),
                            static_cast<std::int32_t>(offload_layers));
  }

  /// Numbers of a token in all.
  [[nodiscard]] std::size_t size(std::size_t recompute_layers) const {
    return before(layers_, recompute_layers) + (last_ ? width(Kept::output) : 0);
  }

 private:
  std::size_t layers_;
  std::array<std::size_t, 7> widths_;
  bool last_;
};

}  // namespace slimpack::kernels
