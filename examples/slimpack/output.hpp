#pragma once

#include <string>
#include <string_view>

namespace slimpack::command {

/// Writes a whole file or nothing: the text goes to a temporary file beside it, which then takes its name. "-" is
/// standard output. @throws InvalidInput if the file can't be written.
void write_output(const std::string& path, std::string_view text);

}  // namespace slimpack::command
