#pragma once

#include <cstdint>

namespace slimpack {

/// How a sequence is cut over context-parallel ranks.
enum class Sharding : std::uint8_t {
  none,          ///< not at all: there is one rank
  per_sequence,  ///< as if it were one document
  per_document,  ///< each document by itself
  mixed,         ///< some documents by themselves, the others as one sequence
};

}  // namespace slimpack
