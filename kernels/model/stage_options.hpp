#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "slimpack/model/attention_choice.hpp"

namespace slimpack::kernels {

/// How members of a merged task share its attention.
enum class MergedAttention : std::uint8_t {
  ring,  ///< by tokens: keys and values go round (Liu et al., Ring Attention), with their gradients in backward
  heads,  ///< by heads, exchanged for tokens (Jacobs et al., DeepSpeed Ulysses); members divide kv_heads
};

struct StageOptions {
  std::string name = {};  ///< for messages, such as "stage 1 of pipeline 0"; empty: by its layers
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  std::size_t ring_tokens = 256;        ///< of each member that go round at a time where packs are merged
  std::size_t page_tokens = 256;        ///< most tokens of a sample whose keys and values share memory
  std::size_t head_chunk_tokens = 256;  ///< tokens whose logits exist at a time
  MergedAttention merged = MergedAttention::ring;
  /// On a GPU: the work of a step's tasks is captured once the step repeats the one before, and launched as graphs.
  bool graphs = true;
  AttentionChoice attention = AttentionChoice::ours;  ///< on a GPU
  /// Bytes that the stage holds for a library's attention; for packs that need more, ours runs.
  std::size_t attention_workspace = std::size_t{1} << 30U;
  double limit_bytes = std::numeric_limits<double>::infinity();  ///< that the stage may use
};

}  // namespace slimpack::kernels
