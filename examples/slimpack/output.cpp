#include "output.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    std::cout << text << std::flush;
    require(std::cout.good(), "standard output can't be written");
    return;
  }
  std::error_code error;
  // Devices and pipes can't be replaced; they take the text as it comes.
  const bool special = std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string target = special ? path : path + ".partial";
  std::ofstream file(target, std::ios::binary);
  file << text;
  file.close();
  const bool written = file.good();
  if (written && !special) std::filesystem::rename(target, path, error);
  if (!written || error) {
    if (!special) std::remove(target.c_str());
    throw InvalidInput(
        concat("can't write '", path, "'; expected a writable file in a directory that exists"));
  }
}

}  // namespace slimpack::command
