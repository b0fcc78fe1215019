#pragma once

#include <string>

#include "parsers.hpp"
#include "tests/campaign/draw.hpp"

namespace campaign::files {

/// A changed file, and what must come of it.
struct Mutated {
  std::string bytes;
  std::string change;  ///< what was changed, for messages
  bool must_be_refused = false;
};

/// Changes a file at random: its bytes; the values and fields of a JSON file; the words of a state, with a checksum that fits
/// or without. A number of a plan that was changed alone has to be found, unless it is listed (plan/not_checked.hpp).
[[nodiscard]] Mutated mutated(Format format, const std::string& original, Draw& draw);

}  // namespace campaign::files
