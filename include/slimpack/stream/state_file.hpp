#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace slimpack {

/// Leaves it to the system when bytes reach the disk.
struct NoSync {
  void operator()(const std::filesystem::path&) const {}
};

/// Writes a saved state so that the file holds either the old state or the new one, whenever the process
/// dies: into a file beside it, `PATH.new`, that then takes its name.
/// @param sync is called with the file beside, once it is written, and with the folder, once the file has its
/// name; if it brings them to the disk (`fsync`), the file survives a loss of power, too.
/// @throws std::system_error if it can't be written, and whatever `sync` throws; the file is as before then,
/// unless only the folder could not be brought to the disk.
template <class Sync = NoSync>
void write_state_file(const std::filesystem::path& path, std::string_view bytes, Sync&& sync = {}) {
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
  sync(beside);
  std::filesystem::rename(beside, path);
  sync(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
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
