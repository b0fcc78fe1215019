#include "plan_file.hpp"

#include "input_file.hpp"
#include "slimpack/plan/json.hpp"

namespace slimpack::command {

Plan read_plan_file(const std::string& path) {
  constexpr const char* expected = "a readable file, or - for standard input";
  return read_input(path, is_standard_input(path), "the plan", expected, [&](std::istream& in) {
    try {
      return read_json(in);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(input_name(path), ": ", error.what()));
    }
  });
}

}  // namespace slimpack::command
