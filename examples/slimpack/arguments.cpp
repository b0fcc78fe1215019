#include "arguments.hpp"

#include <boost/algorithm/string/split.hpp>
#include <cstdint>
#include <iostream>
#include <limits>
#include <typeinfo>

#include "named_files.hpp"
#include "slimpack/core/error.hpp"
#include "token_count.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

/// What an option takes, from the type of its value.
std::string accepted(const po::options_description& options, const std::string& option) {
  const auto* found = options.find_nothrow(option.substr(option.find_first_not_of('-')), false);
  const auto* value =
      found == nullptr ? nullptr : dynamic_cast<const po::typed_value_base*>(found->semantic().get());
  if (value == nullptr) return "a value";
  if (value->value_type() == typeid(double)) return "a number";
  if (value->value_type() == typeid(TokenCount)) return concat("an integer up to 2^40", token_suffixes);
  if (value->value_type() == typeid(std::int32_t))
    return concat("an integer up to ", std::numeric_limits<std::int32_t>::max());
  if (value->value_type() == typeid(std::int64_t))
    return concat("an integer up to ", std::numeric_limits<std::int64_t>::max());
  return "text";
}

po::variables_map parsed(const Syntax& syntax, const po::options_description& options,
                         const std::vector<std::string>& arguments) {
  // What no option takes is parsed into a hidden one, so that the message can name it.
  po::options_description all;
  all.add(options).add_options()("unexpected", po::value<std::vector<std::string>>());
  po::positional_options_description places;
  if (!syntax.positional.empty()) places.add(syntax.positional.c_str(), 1);
  places.add("unexpected", -1);
  po::variables_map values;
  po::store(po::command_line_parser(arguments)
                .options(all)
                .positional(places)
                .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing)
                .run(),
            values);
  return values;
}

}  // namespace

std::optional<po::variables_map> parse(const Syntax& syntax, po::options_description options,
                                       const std::vector<std::string>& arguments) {
  options.add_options()("help,h", "this text");
  const std::string help = "; `slimpack " + syntax.name + " --help` lists what is accepted";
  try {
    po::variables_map values = parsed(syntax, options, arguments);
    if (values.count("help") != 0) {
      std::cout << "usage: slimpack " << syntax.name << ' ' << syntax.usage << '\n' << options;
      return std::nullopt;
    }
    if (values.count("unexpected") != 0) {
      throw InvalidInput("unexpected argument '" +
                         values["unexpected"].as<std::vector<std::string>>().front() + "'" + help);
    }
    po::notify(values);
    require_different_files(values);
    return values;
  } catch (const po::invalid_option_value& error) {
    throw InvalidInput(std::string(error.what()) + "; expected " +
                       accepted(options, error.get_option_name()));
  } catch (const po::error& error) {
    throw InvalidInput(error.what() + help);
  }
}

std::vector<std::string> comma_separated(const std::string& text) {
  std::vector<std::string> parts;
  boost::split(parts, text, [](char c) { return c == ','; });
  return parts;
}

}  // namespace slimpack::command
