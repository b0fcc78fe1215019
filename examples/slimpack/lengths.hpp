#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "token_count.hpp"

namespace slimpack::command {

/// Token lengths, one per line, and where they came from.
struct Lengths {
  std::string source;  ///< file name or "standard input", for messages
  std::vector<Tokens> tokens;
  std::vector<std::size_t> lines;  ///< line number of each length
  /// Where each batch begins, and the end, if batches are made of sequences; else they are equal counts.
  std::vector<std::size_t> batches = {};
};

/// Reads lengths; blank lines are skipped. @throws InvalidInput naming the line and what would be accepted.
Lengths read_lengths(std::istream& in, const std::string& source);

/// Reads lengths from a file, or from standard input for "-".
Lengths read_lengths_from(const std::string& path);

}  // namespace slimpack::command
