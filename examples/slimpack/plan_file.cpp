#include "plan_file.hpp"

#include <fstream>
#include <iostream>

#include "slimpack/plan/json.hpp"

namespace slimpack::command {

Plan read_plan_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path);
  std::istream& in = path == "-" ? std::cin : file;
  const std::string source = path == "-" ? "standard input" : path;
  constexpr const char* unreadable = "can't read the plan '";
  constexpr const char* expected = "'; expected a readable file, or - for standard input";
  require(path == "-" || file.is_open(), unreadable, source, expected);
  try {
    return read_json(in);
  } catch (const std::ios_base::failure&) {  // a directory opens, but can't be read
    throw InvalidInput(concat(unreadable, source, expected));
  } catch (const InvalidInput& error) {
    throw InvalidInput(source + ": " + error.what());
  }
}

}  // namespace slimpack::command
