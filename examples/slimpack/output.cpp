#include "output.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace fs = std::filesystem;

namespace {

/// Creates a file next to `target`, under a name that nobody uses.
std::FILE* create_beside(const fs::path& target, fs::path& name) {
  for (int i = 0; i < 100; ++i) {
    name = target;
    name += ".partial" + (i > 0 ? std::to_string(i) : "");
    if (std::FILE* file = std::fopen(name.c_str(), "wbx")) return file;
    if (errno != EEXIST) break;
  }
  return nullptr;
}

/// Gives `target` the text as a whole, or leaves everything as it was.
bool replace_file(const fs::path& target, std::string_view text) {
  std::error_code error;
  const bool exists = fs::exists(target, error);
  if (exists && !std::ofstream(target, std::ios::app))
    return false;  // renaming would replace it all the same
  fs::path name;
  std::FILE* file = create_beside(target, name);
  if (file == nullptr) return false;
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fclose(file) == 0 && written;
  if (exists) fs::permissions(name, fs::status(target, error).permissions(), error);
  if (written) fs::rename(name, target, error);
  if (!written || error) {
    std::error_code ignored;
    fs::remove(name, ignored);
    return false;
  }
  return true;
}

/// Devices and pipes can't be replaced; they take the text as it comes.
bool write_through(const fs::path& target, std::string_view text) {
  std::ofstream file(target, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

}  // namespace

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    std::cout << text;
    flush_standard_output();
    return;
  }
  std::error_code error;
  const bool special = fs::exists(path, error) && !fs::is_regular_file(path, error);
  const fs::path target =
      fs::is_symlink(path, error) && !special ? fs::weakly_canonical(path, error) : fs::path(path);
  require(special ? write_through(target, text) : replace_file(target, text), "can't write '", path,
          "'; expected a writable file in a directory that exists");
}

void flush_standard_output() {
  std::cout.flush();
  require(std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0,
          "standard output can't be written");
}

}  // namespace slimpack::command
