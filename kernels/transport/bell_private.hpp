#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace slimpack::kernels {

/// Wakes a thread that polls.
class Bell {
 public:
  Bell() {
    if (pipe(ends_.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    for (const int end : ends_) {
      fcntl(end, F_SETFL, O_NONBLOCK);
      fcntl(end, F_SETFD, FD_CLOEXEC);
    }
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() {
    for (const int end : ends_) close(end);
  }

  /// What gets readable when it rings, until it is silenced.
  [[nodiscard]] int get() const { return ends_[0]; }
  void ring() const {
    const char any = 0;
    [[maybe_unused]] const ssize_t full_is_fine = write(ends_[1], &any, 1);
  }
  void silence() const {
    char any[64];
    while (read(ends_[0], any, sizeof any) > 0) continue;
  }

 private:
  std::array<int, 2> ends_{};
};

}  // namespace slimpack::kernels
