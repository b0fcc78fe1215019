#include "lengths.hpp"

#include <cstdio>
#include <fstream>
#include <ios>
#include <iostream>

#include "line_reader.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"

namespace slimpack::command {

Lengths read_lengths(std::istream& in, const std::string& source) try {
  Lengths lengths{.source = source, .tokens = {}, .lines = {}};
  CompactNumbers all;  // for a vector that grows holds its numbers three times
  std::size_t count = 0;
  for (LineReader line(in); line.next();) {
    const std::string_view text = line.text();
    if (text.empty()) continue;
    const Tokens tokens = text.size() > LineReader::most ? 0 : parse_token_count(text).value_or(0);
    if (tokens <= 0 || tokens > most_tokens) {
      throw InvalidInput(concat(source, ", line ", line.number(), ": '", visible(text),
                                "' is no length; expected an integer from 1 to 2^40", token_suffixes));
    }
    all.add(static_cast<std::uint64_t>(tokens));
    lengths.lines.add(line.number());
    ++count;
  }
  if (&in == &std::cin && std::ferror(stdin) != 0) throw std::ios_base::failure("standard input");
  require(count > 0, source, " holds no lengths; expected one per line");
  lengths.tokens.reserve(count);
  for (std::size_t at = 0; at < all.end();) lengths.tokens.push_back(static_cast<Tokens>(all.take(at)));
  return lengths;
} catch (const std::ios_base::failure&) {  // a directory opens, but can't be read
  throw InvalidInput(concat("can't read the lengths from '", source,
                            "'; expected a readable file, or - for standard input"));
}

Lengths read_lengths_from(const std::string& path) {
  if (path == "-") return read_lengths(std::cin, "standard input");
  std::ifstream file(path);
  require(file.is_open(), "can't read the lengths from '", path,
          "'; expected a readable file, or - for standard input");
  return read_lengths(file, path);
}

}  // namespace slimpack::command
