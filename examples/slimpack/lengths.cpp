#include "lengths.hpp"

#include <istream>

#include "input_file.hpp"
#include "line_reader.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"

namespace slimpack::command {

Lengths read_lengths(std::istream& in, const std::string& source) {
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
  require(count > 0, source, " holds no lengths; expected one per line");
  lengths.tokens.reserve(count);
  for (std::size_t at = 0; at < all.end();) lengths.tokens.push_back(static_cast<Tokens>(all.take(at)));
  return lengths;
}

Lengths read_lengths_from(const std::string& path) {
  constexpr const char* expected = "a readable file, or - for standard input";
  return read_input(path, is_standard_input(path), "the lengths from", expected,
                    [&](std::istream& in) { return read_lengths(in, input_name(path)); });
}

}  // namespace slimpack::command
