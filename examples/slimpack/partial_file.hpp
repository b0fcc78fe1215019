#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace slimpack::command {

/// A new file next to a target, whose place it takes once it is written. Its name is `.TARGET.slimpack-partial`, and it is
/// locked: one that is not was left by a process that was killed, and is removed by the next that writes the target. Where
/// that name can't be had (another process writes the same target, or the name is too long), it is one that nobody uses.
/// All functions throw std::system_error if the system refuses.
class PartialFile {
 public:
  /// @param target a file's path, which is no link. The file need not exist.
  explicit PartialFile(std::filesystem::path target);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  /// Removes the file unless it took the target's place.
  ~PartialFile();

  void write(std::string_view text);
  void set_mode(mode_t mode);

  /// Takes the target's name. The bytes are on the disk before, and the name afterwards, so that a machine that stops at
  /// any moment is left with the old file or the new one.
  void take_place();

 private:
  /// Creates the file under `name_`. @returns whether nobody else has it or can take it.
  bool create();

  std::filesystem::path target_, name_;
  int file_ = -1;
};

/// Whether a name is one that `PartialFile` gives, and so may remove.
bool is_partial_name(const std::filesystem::path& path);

/// Writes all of a text to an open file. @throws std::system_error.
void write_all(int file, std::string_view text);

}  // namespace slimpack::command
