#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace slimpack::bench {

/// Who computes attention: our kernels for every GPU or for Hopper; or cuDNN, as a stage runs it, with gradients in
/// the same order each time, or as fast as it can: for a pack's exact sizes, gradients in any order, those of
/// keys as bf16 and set instead of added, statistics as it has them.
enum class AttentionBy { mma_sync, wgmma, cudnn, cudnn_fixed, cudnn_fast };

inline constexpr std::array<AttentionBy, 5> all_attention{AttentionBy::mma_sync, AttentionBy::wgmma,
                                                          AttentionBy::cudnn, AttentionBy::cudnn_fixed,
                                                          AttentionBy::cudnn_fast};

[[nodiscard]] constexpr bool is_ours(AttentionBy by) {
  return by == AttentionBy::mma_sync || by == AttentionBy::wgmma;
}

/// As tables and figures have it. Names of libraries' begin with the library's, those of ours with "ours".
[[nodiscard]] constexpr const char* name_of(AttentionBy by) {
  switch (by) {
    case AttentionBy::mma_sync:
      return "ours, mma.sync";
    case AttentionBy::wgmma:
      return "ours, wgmma";
    case AttentionBy::cudnn:
      return "cuDNN, as a stage runs it";
    case AttentionBy::cudnn_fixed:
      return "cuDNN, same bits each time";
    case AttentionBy::cudnn_fast:
      return "cuDNN";
  }
  return "";
}

/// As `--by` has it.
[[nodiscard]] constexpr std::string_view word_of(AttentionBy by) {
  switch (by) {
    case AttentionBy::mma_sync:
      return "mma_sync";
    case AttentionBy::wgmma:
      return "wgmma";
    case AttentionBy::cudnn:
      return "cudnn";
    case AttentionBy::cudnn_fixed:
      return "cudnn_fixed";
    case AttentionBy::cudnn_fast:
      return "cudnn_fast";
  }
  return "";
}

[[nodiscard]] constexpr std::optional<AttentionBy> attention_by_word(std::string_view word) {
  for (const AttentionBy by : all_attention) {
    if (word_of(by) == word) return by;
  }
  return std::nullopt;
}

}  // namespace slimpack::bench
