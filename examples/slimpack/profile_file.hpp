#pragma once

#include <string>

#include "slimpack/cost/profile.hpp"

namespace slimpack::command {

/// Reads the profile that `slimpack profile` has written. @throws InvalidInput naming the file and what is wrong.
Profile read_profile_file(const std::string& path);

}  // namespace slimpack::command
