#pragma once

#include <string>
#include <string_view>

namespace slimpack::command {

/// Writes a whole file or nothing: the text goes to a new file next to it, which then takes its name and
/// permissions. Links are followed. "-" is standard output. @throws InvalidInput if the file can't be
/// written.
void write_output(const std::string& path, std::string_view text);

/// @throws InvalidInput if what was printed could not be written.
void flush_standard_output();

}  // namespace slimpack::command
