#pragma once

#include <string>

#include "kernels/executor_options.hpp"
#include "kernels/model/stage_options.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/settings.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/sharding/kind.hpp"
#include "slimpack/version.hpp"

namespace slimpack::kernels {

/// What decides the result of a run besides its plans and texts: the model, the executor's options, the numbers of the
/// back end. Not what only limits a rank's memory or time.
/// @tparam Stage the back end.
template <class Stage>
[[nodiscard]] Settings executor_settings(const Transformer& model, const ExecutorOptions& options) {
  const StageOptions& stage = options.stage;
  const AdamWOptions& adamw = options.adamw;
  return {{"version", concat(version_major, ".", version_minor, ".", version_patch)},
          {"precision", concat("weights of ", 8 * sizeof(typename Stage::Weight), " bits and numbers of ",
                               8 * sizeof(typename Stage::Number))},
          setting("model's layers", model.layers),
          setting("model's hidden size", model.hidden),
          setting("model's heads", model.heads),
          setting("model's key/value heads", model.kv_heads),
          setting("model's head dimension", model.head_dim),
          setting("model's feed-forward size", model.ffn),
          setting("model's vocabulary", model.vocab),
          setting("epsilon of norms", stage.norm_epsilon),
          setting("rotary embedding's theta", stage.rope_theta),
          {"exchange of keys and values",
           std::string(exchange_name(stage.merged == MergedAttention::heads ? KeyExchange::all_to_all
                                                                            : KeyExchange::ring))},
          setting("tokens that go round at a time", stage.ring_tokens),
          setting("tokens of a page of keys and values", stage.page_tokens),
          setting("tokens whose logits exist at a time", stage.head_chunk_tokens),
          {"attention", std::string(attention_name(stage.attention))},
          setting("workspace of attention", stage.attention_workspace),
          setting("seed of the weights", options.init.seed),
          setting("deviation of the weights", options.init.deviation),
          setting("learning rate", adamw.learning_rate),
          setting("beta1 of AdamW", adamw.beta1),
          setting("beta2 of AdamW", adamw.beta2),
          setting("epsilon of AdamW", adamw.epsilon),
          setting("weight decay", adamw.weight_decay),
          setting("sharding of the optimiser", options.shard_optimiser),
          setting("chunk of a merged sample", options.block)};
}

}  // namespace slimpack::kernels
