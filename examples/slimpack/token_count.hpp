#pragma once

#include <boost/any.hpp>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/core/ids.hpp"

namespace slimpack::command {

/// Longest sample that the command reads.
inline constexpr Tokens most_tokens = Tokens{1} << 40;

/// What may follow a number of tokens, for messages.
inline constexpr const char* token_suffixes = ", which may end in K, M or G for 2^10, 2^20 or 2^30";

/// A number of tokens as an integer, or as one with the suffix K, M or G: 128K is 131072. Its sign and size are not judged,
/// but none is given that does not fit into `Tokens`.
[[nodiscard]] std::optional<Tokens> parse_token_count(std::string_view text);

/// The value of an option that counts tokens, so that Boost knows how to read it.
struct TokenCount {
  Tokens tokens = 0;
};

std::ostream& operator<<(std::ostream& out, TokenCount count);

/// Called by Boost.Program_options. @throws boost::program_options::invalid_option_value.
void validate(boost::any& value, const std::vector<std::string>& texts, TokenCount* type, int);

}  // namespace slimpack::command
