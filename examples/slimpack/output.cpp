#include "output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include "partial_file.hpp"
#include "signals.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace fs = std::filesystem;

namespace {

/// An open file, closed at the end.
class Opened {
 public:
  Opened(const fs::path& path, int flags) : file_(open(path.c_str(), flags | O_CLOEXEC)) {
    if (file_ < 0) throw std::system_error(errno, std::generic_category());
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() { close(file_); }

  [[nodiscard]] int number() const { return file_; }

 private:
  int file_;
};

/// Gives `target` the text as a whole, or leaves everything as it was. Signals that end programs wait meanwhile, so that
/// they leave nothing behind.
void replace_file(const fs::path& target, std::string_view text) {
  const SignalsHeld held;
  struct stat old;
  const bool exists = stat(target.c_str(), &old) == 0;
  if (exists) const Opened writable(target, O_WRONLY);  // renaming would replace it all the same
  PartialFile file(target);
  if (exists) file.set_mode(old.st_mode & 07777);
  file.write(text);
  file.take_place();
}

/// Devices and pipes can't be replaced; they take the text as it comes.
void write_through(const fs::path& target, std::string_view text) {
  try {
    write_all(Opened(target, O_WRONLY).number(), text);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) throw ClosedPipe{};
    throw;
  }
}

/// Whether standard output is a pipe that nobody reads any more.
bool reader_is_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

/// What would be accepted where the system refuses.
std::string wanted(int error, std::size_t bytes) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return concat("room for ", bytes, " bytes");
    case EFBIG:
      return concat("files of ", bytes, " bytes to be allowed (ulimit -f)");
    case EACCES:
    case EPERM:
    case EROFS:
      return "a file that this user may write, in a folder that this user may write";
    case ENOENT:
    case ENOTDIR:
      return "a file in a folder that exists";
    default:
      return "a writable file in a folder that exists";
  }
}

}  // namespace

std::filesystem::path without_links(fs::path path) {
  constexpr int most_links = 40;  // as Linux has it
  for (int i = 0; i < most_links; ++i) {
    std::error_code unknown;  // then opening it will say what is wrong
    if (!fs::is_symlink(path, unknown)) return path;
    path = path.parent_path() / fs::read_symlink(path);
  }
  throw std::system_error(ELOOP, std::generic_category());
}

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    std::cout << text;
    flush_standard_output();
    return;
  }
  require(!is_partial_name(path), "can't write '", path,
          "': files of such names are removed; expected another name");
  try {
    struct stat status;
    const bool special = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
    special ? write_through(path, text) : replace_file(without_links(path), text);
  } catch (const std::system_error& error) {
    throw InvalidInput(concat("can't write '", path, "': ", error.code().message(), "; expected ",
                              wanted(error.code().value(), text.size())));
  }
}

void flush_standard_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  const std::error_code reason(errno, std::generic_category());
  if (reader_is_gone()) throw ClosedPipe{};
  throw InvalidInput(concat("standard output can't be written", reason ? ": " + reason.message() : "",
                            "; expected room for what is printed"));
}

}  // namespace slimpack::command
