#include "named_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "devices.hpp"
#include "output.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace fs = std::filesystem;

namespace {

/// An option that names a file; - is standard input, or output where it is written.
struct FileOption {
  const char* name;
  bool written;
};

constexpr FileOption file_options[] = {{"lengths", false}, {"profile", false}, {"device", false},
                                       {"plan", false},    {"state", true},    {"output", true},
                                       {"html", true},     {"svg", true}};

/// A file that an option names.
struct NamedFile {
  std::string shown;  ///< option and path, for messages
  bool written = false;
  std::optional<struct stat> status;  ///< none: there is no such file yet
  fs::path path;                      ///< without links, if there is no such file yet
};

std::optional<struct stat> status_of(const std::string& path, bool written) {
  struct stat status;
  const int error =
      path == "-" ? fstat(written ? STDOUT_FILENO : STDIN_FILENO, &status) : stat(path.c_str(), &status);
  return error == 0 ? std::optional(status) : std::nullopt;
}

/// What can't be resolved is left as it is: it can't be opened either.
fs::path resolved(const std::string& path) {
  std::error_code error;
  try {
    const fs::path whole = fs::weakly_canonical(fs::absolute(without_links(path)), error);
    return error ? fs::path(path) : whole;
  } catch (const std::system_error&) {
    return path;
  }
}

std::vector<NamedFile> named_files(const boost::program_options::variables_map& values) {
  std::vector<NamedFile> files;
  const auto add = [&](const std::string& shown, const std::string& path, bool written) {
    files.push_back({.shown = shown, .written = written, .status = status_of(path, written), .path = {}});
    if (!files.back().status && path != "-") files.back().path = resolved(path);
  };
  bool prints = true;
  for (const auto& [name, written] : file_options) {
    if (values.count(name) == 0) continue;
    const auto& path = values[name].as<std::string>();
    if (std::string(name) == "device" && !names_profile(path)) continue;
    add(concat("--", name, " '", path, "'"), path, written);
    if (written && path == "-") prints = false;
  }
  if (prints) add("standard output", "-", true);
  return files;
}

bool same_file(const NamedFile& a, const NamedFile& b) {
  if (!a.status || !b.status) return !a.status && !b.status && !a.path.empty() && a.path == b.path;
  return S_ISREG(a.status->st_mode) && a.status->st_dev == b.status->st_dev &&
         a.status->st_ino == b.status->st_ino;
}

}  // namespace

void require_different_files(const boost::program_options::variables_map& values) {
  const std::vector<NamedFile> files = named_files(values);
  for (const NamedFile& file : files) {
    for (const NamedFile& other : files) {
      if (&other == &file || !file.written) continue;
      require(!same_file(file, other), file.shown, " is the same file as ", other.shown,
              "; expected another one, because it is overwritten");
    }
  }
}

}  // namespace slimpack::command
