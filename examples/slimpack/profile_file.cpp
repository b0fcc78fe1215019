#include "profile_file.hpp"

#include "input_file.hpp"
#include "slimpack/cost/profile_json.hpp"

namespace slimpack::command {

Profile read_profile_file(const std::string& path) {
  constexpr const char* expected = "a file that `slimpack profile` has written";
  return read_input(path, false, "the profile", expected, [&](std::istream& in) {
    try {
      return profile_from_json(in);
    } catch (const InvalidInput& error) {
      throw InvalidInput(path + ": " + error.what());
    }
  });
}

}  // namespace slimpack::command
