#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace slimpack {

/// Whose attention stages on a GPU run.
enum class AttentionChoice : std::uint8_t {
  ours,  ///< slimpack's kernels
  cudnn  ///< cuDNN's, for the packs that it takes; ours for the others
};

/// Names of `AttentionChoice`, as messages list them.
inline constexpr std::string_view attention_names = "ours or cudnn";

/// A choice as options and files have it.
[[nodiscard]] constexpr std::string_view attention_name(AttentionChoice choice) {
  return choice == AttentionChoice::ours ? "ours" : "cudnn";
}

/// The choice of this name, if there is one.
[[nodiscard]] constexpr std::optional<AttentionChoice> attention_named(std::string_view name) {
  for (const AttentionChoice choice : {AttentionChoice::ours, AttentionChoice::cudnn}) {
    if (attention_name(choice) == name) return choice;
  }
  return std::nullopt;
}

}  // namespace slimpack
