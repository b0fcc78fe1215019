#pragma once

#include <string>

namespace slimpack::command {

/// What this program was built of, as ranks compare it: the hash of the program's own file, so that ranks of other sources,
/// another compiler or other flags are told apart. `unknown` where the system does not say which file that is.
[[nodiscard]] std::string build_text();

}  // namespace slimpack::command
