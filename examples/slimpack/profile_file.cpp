#include "profile_file.hpp"

#include <fstream>
#include <ios>

#include "slimpack/cost/profile_json.hpp"

namespace slimpack::command {

Profile read_profile_file(const std::string& path) {
  constexpr const char* expected = "'; expected a file that `slimpack profile` has written";
  std::ifstream file(path);
  require(file.is_open(), "can't read the profile '", path, expected);
  try {
    return profile_from_json(file);
  } catch (const std::ios_base::failure&) {  // a directory opens, but can't be read
    throw InvalidInput(concat("can't read the profile '", path, expected));
  } catch (const InvalidInput& error) {
    throw InvalidInput(path + ": " + error.what());
  }
}

}  // namespace slimpack::command
