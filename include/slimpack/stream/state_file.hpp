#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#if __has_include(<unistd.h>)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace slimpack {

struct StateFileOptions {
  /// The bytes are on the disk before the file gets its name, and the name before the call returns, so that
  /// the file survives a loss of power, too. POSIX systems; elsewhere an error.
  bool durable = false;
};

namespace detail {

/// @throws std::system_error if the system can't do it.
inline void sync_to_disk([[maybe_unused]] const std::filesystem::path& path) {
#if __has_include(<unistd.h>)
  const int file = ::open(path.c_str(), O_RDONLY);
  const int done = file < 0 ? -1 : ::fsync(file);
  const int error = errno;
  if (file >= 0) ::close(file);
  if (done != 0) throw std::system_error(error, std::generic_category(), "syncing " + path.string());
#else
  throw std::system_error(std::make_error_code(std::errc::not_supported), "syncing " + path.string());
#endif
}

}  // namespace detail

/// Writes a saved state so that the file holds either the old state or the new one, whenever the process
/// dies: into a file beside it, `PATH.new`, that then takes its name.
/// @throws std::system_error if it can't be written; the file is as before then.
inline void write_state_file(const std::filesystem::path& path, std::string_view bytes,
                             const StateFileOptions& options = {}) {
  std::filesystem::path beside = path;
  beside += ".new";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw std::system_error(std::make_error_code(std::errc::io_error), "writing " + beside.string());
  }
  if (options.durable) detail::sync_to_disk(beside);
  std::filesystem::rename(beside, path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (options.durable) detail::sync_to_disk(folder);
}

/// The bytes of a saved state. @throws std::system_error if the file can't be read.
[[nodiscard]] inline std::string read_state_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    throw std::system_error(std::make_error_code(std::errc::io_error), "reading " + path.string());
  }
  return bytes;
}

}  // namespace slimpack
