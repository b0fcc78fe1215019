#pragma once

#include <cstdint>
#include <string_view>

namespace slimpack {

/// How a sequence is cut over context-parallel ranks.
enum class Sharding : std::uint8_t {
  none,          ///< not at all: there is one rank
  per_sequence,  ///< as if it were one document
  per_document,  ///< each document by itself
  mixed,         ///< some documents by themselves, the others as one sequence
};

/// As plan files name it.
[[nodiscard]] constexpr std::string_view sharding_name(Sharding kind) {
  switch (kind) {
    case Sharding::none:
      return "none";
    case Sharding::per_sequence:
      return "per_sequence";
    case Sharding::per_document:
      return "per_document";
    case Sharding::mixed:
      break;
  }
  return "mixed";
}

}  // namespace slimpack
