#pragma once

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <vector>

namespace slimpack::command {

/// A subcommand as its user sees it.
struct Syntax {
  std::string name;
  std::string usage;       ///< what follows the name
  std::string positional;  ///< option that takes the one argument without a name; empty = none
};

/// Parses a subcommand's arguments; for --help prints the options and returns nothing.
/// @throws InvalidInput naming the option or value, and what would be accepted.
std::optional<boost::program_options::variables_map> parse(
    const Syntax& syntax, boost::program_options::options_description options,
    const std::vector<std::string>& arguments);

/// The parts of a list like `a,b`; one empty part if there is nothing.
std::vector<std::string> comma_separated(const std::string& text);

}  // namespace slimpack::command
