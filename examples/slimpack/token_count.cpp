#include "token_count.hpp"

#include <boost/program_options.hpp>
#include <charconv>
#include <limits>
#include <ostream>

namespace slimpack::command {

std::optional<Tokens> parse_token_count(std::string_view text) {
  Tokens number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  if (suffix.empty()) return number;
  const std::size_t power = std::string_view("KMG").find(suffix.front());
  if (suffix.size() > 1 || power == std::string_view::npos) return std::nullopt;
  const Tokens unit = Tokens{1} << (10 * (power + 1));
  constexpr Tokens most = std::numeric_limits<Tokens>::max();
  if (number > most / unit || number < -(most / unit)) return std::nullopt;
  return number * unit;
}

std::ostream& operator<<(std::ostream& out, TokenCount count) { return out << count.tokens; }

void validate(boost::any& value, const std::vector<std::string>& texts, TokenCount*, int) {
  namespace po = boost::program_options;
  po::validators::check_first_occurrence(value);
  const std::string& text = po::validators::get_single_string(texts);
  const auto tokens = parse_token_count(text);
  if (!tokens) throw po::invalid_option_value(text);
  value = TokenCount{*tokens};
}

}  // namespace slimpack::command
