#pragma once

#include <cstdint>
#include <string>

#include "parsers.hpp"

namespace campaign::files {

/// A small file of a format, as users have them. All of it follows from the seed.
[[nodiscard]] std::string original(Format format, std::uint64_t seed);

}  // namespace campaign::files
