#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

#include "compact_numbers.hpp"
#include "slimpack/core/ids.hpp"
#include "token_count.hpp"

namespace slimpack::command {

/// Most samples of a batch that `--split` makes; its help says so.
inline constexpr std::size_t most_split_samples = std::size_t{1} << 20;

/// Token lengths, one per line, and where they came from.
struct Lengths {
  std::string source;  ///< file name or "standard input", for messages
  std::vector<Tokens> tokens;
  LineNumbers lines;  ///< of each length
  /// Where each batch begins, and the end, if batches are made of sequences; else they are equal counts.
  std::vector<std::size_t> batches = {};
};

/// Reads lengths; blank lines are skipped. Memory: at most 16 times the text without its blanks, plus 1 MB.
/// @throws InvalidInput naming the line and what would be accepted.
Lengths read_lengths(std::istream& in, const std::string& source);

/// Reads lengths from a file, or from standard input for "-".
Lengths read_lengths_from(const std::string& path);

}  // namespace slimpack::command
