#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace slimpack::command {

/// Thrown where nobody reads what is written any more: that is no failure, and ends the command without a word.
struct ClosedPipe {};

/// Writes a whole file or nothing: the text goes to a new file next to it, which then takes its name and
/// permissions (`PartialFile`). Links are followed. "-" is standard output.
/// @throws InvalidInput saying why the file can't be written, or ClosedPipe.
void write_output(const std::string& path, std::string_view text);

/// The file that a path leads to, itself no link, whether it exists or not. @throws std::system_error for links in a ring.
std::filesystem::path without_links(std::filesystem::path path);

/// @throws InvalidInput if what was printed could not be written, or ClosedPipe.
void flush_standard_output();

}  // namespace slimpack::command
