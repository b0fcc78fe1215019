#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>
#include <system_error>

#include "slimpack/core/error.hpp"
#include "slimpack/stream/state.hpp"

namespace slimpack {

/// Leaves it to the system when to write bytes to the disk.
struct NoSync {
  void operator()(const std::filesystem::path&) const {}
};

namespace detail {

/// @param reason as errno has it; 0: none is known. @param doing what, and with which file.
[[noreturn]] inline void throw_file_error(int reason, const std::string& doing) {
  throw std::system_error(reason != 0 ? reason : EIO, std::generic_category(), doing);
}

}  // namespace detail

/// Writes a saved state so that the file holds either the old state or the new one, whenever the process
/// dies: it writes `PATH.new` and then renames it.
/// @param sync is called with the new file after it is written, and with the folder after the file is
/// renamed; if it writes them to the disk (`fsync`), the file also survives a loss of power.
/// @throws std::system_error, with the system's reason, if it can't be written, and whatever `sync` throws; the
/// old file is then unchanged, unless only the folder could not be written to the disk.
template <class Sync = NoSync>
void write_state_file(const std::filesystem::path& path, std::string_view bytes, Sync&& sync = {}) {
  std::filesystem::path next = path;
  next += ".new";
  errno = 0;
  std::ofstream file(next, std::ios::binary | std::ios::trunc);
  const bool opened = file.is_open();
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    const int reason = errno;
    std::error_code ignored;
    if (opened) std::filesystem::remove(next, ignored);
    detail::throw_file_error(reason, "writing " + next.string());
  }
  try {
    sync(next);
    std::filesystem::rename(next, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(next, ignored);
    throw;
  }
  sync(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

/// The bytes of a saved state, as `write_state_file` has written them; none of an empty file. A file that does not
/// begin as a saved state is not read any further, nor one that goes on where its state ends.
/// @throws std::system_error, with the system's reason, if the file can't be read. @throws InvalidInput if it holds
/// something else.
[[nodiscard]] inline std::string read_state_file(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::uint64_t words = 0;  // that it was written with
  for (std::size_t next = 8 * detail::state_head_words; file; next = std::size_t{1} << 20) {
    const std::size_t before = bytes.size();
    bytes.resize(before + next);
    file.read(bytes.data() + before, static_cast<std::streamsize>(next));
    bytes.resize(before + static_cast<std::size_t>(file.gcount()));
    if (bytes.empty()) break;
    detail::WordReader in(bytes);
    if (before == 0) words = detail::read_head(in).words;
    require((bytes.size() + 7) / 8 <= words, "the saved state goes on after the ", words,
            " words that it was written with; expected its end there");
  }
  if (!file.is_open() || file.bad()) {
    detail::throw_file_error(errno, "reading " + path.string());
  }
  return bytes;
}

}  // namespace slimpack
