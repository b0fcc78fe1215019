#include "lengths.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace {

std::string_view trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// A line as messages quote it. They end at a null character.
std::string quotable(std::string_view line) {
  std::string text(line.substr(0, 40));
  std::replace(text.begin(), text.end(), '\0', '?');
  return text;
}

}  // namespace

Lengths read_lengths(std::istream& in, const std::string& source) {
  Lengths lengths{.source = source, .tokens = {}, .lines = {}};
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const std::string_view text = trimmed(line);
    if (text.empty()) continue;
    const Tokens tokens = parse_token_count(text).value_or(0);
    require(tokens > 0 && tokens <= most_tokens, source, ", line ", number, ": '", quotable(text),
            "' is no length; expected an integer from 1 to 2^40", token_suffixes);
    lengths.tokens.push_back(tokens);
    lengths.lines.push_back(number);
  }
  require(!in.bad(), "can't read the lengths from '", source,
          "'; expected a readable file, or - for standard input");
  require(!lengths.tokens.empty(), source, " holds no lengths; expected one per line");
  return lengths;
}

Lengths read_lengths_from(const std::string& path) {
  if (path == "-") return read_lengths(std::cin, "standard input");
  std::ifstream file(path);
  require(file.is_open(), "can't read the lengths from '", path,
          "'; expected a readable file, or - for standard input");
  return read_lengths(file, path);
}

}  // namespace slimpack::command
