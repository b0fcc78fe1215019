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
  by_position,   ///< a token's place in its sample decides, so that it is on the same rank in both passes
};

/// How packs of whole documents are sharded over context-parallel ranks.
enum class ShardingPolicy : std::uint8_t {
  per_sequence,  ///< each pack as one sequence
  per_document,  ///< each pack document by document
  adaptive,      ///< each pack the better of these two ways, by predicted latency (WLB-LLM, section 5.3)
  mixed,         ///< as adaptive, or some documents by themselves, the others as one sequence, if better
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
      return "mixed";
    case Sharding::by_position:
      break;
  }
  return "by_position";
}

/// How the keys and values of a pack that several ranks share meet its queries.
enum class KeyExchange : std::uint8_t {
  none,        ///< not stated, or there is one rank
  ring,        ///< keys and values go round from rank to rank
  all_to_all,  ///< ranks trade tokens of all heads for all tokens of some heads
  all_gather,  ///< every rank has all keys and values
  queries,     ///< queries travel, and come back with their share of the result
};

/// As plan files name it.
[[nodiscard]] constexpr std::string_view exchange_name(KeyExchange exchange) {
  switch (exchange) {
    case KeyExchange::none:
      return "none";
    case KeyExchange::ring:
      return "ring";
    case KeyExchange::all_to_all:
      return "all_to_all";
    case KeyExchange::all_gather:
      return "all_gather";
    case KeyExchange::queries:
      break;
  }
  return "queries";
}

}  // namespace slimpack
