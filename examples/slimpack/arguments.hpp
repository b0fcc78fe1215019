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

}  // namespace slimpack::command
