#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/model/attention_choice.hpp"

namespace slimpack::kernels {

/// How members of a merged task share its attention.
enum class MergedAttention : std::uint8_t {
  ring,  ///< by tokens: keys and values go round (Liu et al., Ring Attention), with their gradients in backward
  heads,  ///< by heads, exchanged for tokens (Jacobs et al., DeepSpeed Ulysses); members divide kv_heads
};

/// The way that shares attention where keys are exchanged like this; nothing for exchanges that no back end here has.
/// @param otherwise where it is not stated how.
[[nodiscard]] constexpr std::optional<MergedAttention> merged_attention(KeyExchange exchange,
                                                                        MergedAttention otherwise) {
  switch (exchange) {
    case KeyExchange::none:
      return otherwise;
    case KeyExchange::ring:
      return MergedAttention::ring;
    case KeyExchange::all_to_all:
      return MergedAttention::heads;
    case KeyExchange::all_gather:
    case KeyExchange::queries:
      break;
  }
  return std::nullopt;
}

/// How the members of a merged task share its attention: as the plan says or, where it does not, in another way.
/// @throws InvalidInput naming an exchange that no back end here has.
[[nodiscard]] inline MergedAttention merged_attention(const StageTask& task, MergedAttention otherwise) {
  const auto way = merged_attention(task.exchange, otherwise);
  require(way.has_value(), to_string(task), " exchanges keys by '", exchange_name(task.exchange),
          "'; expected ring or all_to_all, which the back end has");
  return *way;
}

struct StageOptions {
  std::string name = {};  ///< for messages, such as "stage 1 of pipeline 0"; empty: by its layers
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  std::size_t ring_tokens = 256;        ///< most rows of each member that go round at a time
  std::size_t page_tokens = 256;        ///< most tokens of a sample whose keys and values share memory
  std::size_t head_chunk_tokens = 256;  ///< tokens whose logits exist at a time
  MergedAttention merged = MergedAttention::ring;  ///< of packs for which the plan names no exchange
  /// On a GPU: the work of a step's tasks is captured once the step repeats the one before, and launched as graphs.
  bool graphs = true;
  /// On a GPU: between steps, cuBLASLt's best ways to products that come often are timed, once. Which one is fastest
  /// may differ from run to run, and with it the last bits.
  bool try_products = true;
  AttentionChoice attention = AttentionChoice::ours;  ///< on a GPU
  /// Bytes that the stage holds for a library's attention; for packs that need more, ours runs.
  std::size_t attention_workspace = std::size_t{1} << 30U;
  double limit_bytes = std::numeric_limits<double>::infinity();  ///< that the stage may use
  /// That its offloaded layers may use of the host's memory; on a CPU only, a GPU keeps them.
  double host_limit_bytes = std::numeric_limits<double>::infinity();
};

}  // namespace slimpack::kernels
