#include "partial_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view ending = ".slimpack-partial";

[[noreturn]] void fail(int error = errno) { throw std::system_error(error, std::generic_category()); }

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

/// Whether the name is still that of the open file.
bool has_name(int file, const fs::path& name) {
  struct stat open_one, named;
  return fstat(file, &open_one) == 0 && lstat(name.c_str(), &named) == 0 && open_one.st_dev == named.st_dev &&
         open_one.st_ino == named.st_ino;
}

/// Removes a file that the process which wrote it has left, if there is one and the system has locks.
void remove_left_over(const fs::path& name) {
  const int file = open(name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat status;
  const bool left = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                    flock(file, LOCK_EX | LOCK_NB) == 0 && has_name(file, name);
  if (left) unlink(name.c_str());
  close(file);
}

/// Writes to the disk what an open file or folder holds. @returns why it can't, or 0; also on file systems that know no such
/// thing.
int sync_error(int file) {
  if (fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP) return 0;
  return errno;
}

std::string random_name() {
  std::random_device random;
  return concat('.', random(), random(), ending);
}

}  // namespace

bool is_partial_name(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') && name.ends_with(ending);
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail();
    }
  }
}

PartialFile::PartialFile(fs::path target) : target_(std::move(target)) {
  const fs::path folder = folder_of(target_);
  name_ = folder / concat('.', target_.filename().string(), ending);
  remove_left_over(name_);
  if (create()) return;
  do {
    name_ = folder / random_name();
  } while (!create() && errno == EEXIST);
  if (file_ < 0) fail();
}

bool PartialFile::create() {
  file_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) return false;
  const bool others = flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!others && has_name(file_, name_)) return true;
  close(std::exchange(file_, -1));  // another process took it for a file that was left over
  errno = EEXIST;
  return false;
}

PartialFile::~PartialFile() {
  if (!name_.empty()) unlink(name_.c_str());
  if (file_ >= 0) close(file_);
}

void PartialFile::write(std::string_view text) { write_all(file_, text); }

void PartialFile::set_mode(mode_t mode) {
  if (fchmod(file_, mode) != 0) fail();
}

void PartialFile::take_place() {
  if (const int error = sync_error(file_)) fail(error);
  if (std::rename(name_.c_str(), target_.c_str()) != 0) fail();
  name_.clear();
  const int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // it may be written to, but not read
  const int error = sync_error(folder);
  close(folder);
  if (error != 0) fail(error);
}

}  // namespace slimpack::command
