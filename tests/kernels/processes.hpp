#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/transport/asio_private.hpp"
#include "kernels/transport/launch.hpp"

namespace slimpack::testing {

/// How a process ended, and what it had said.
struct Ended {
  int signal = 0;    ///< that has ended it; 0: none
  int status = 0;    ///< of exit
  std::string said;  ///< what the body returned, or the error's message after "error: "
};

/// A port of this machine that nobody uses at the moment. Below those that the system gives to whoever asks for any; and
/// each process begins elsewhere, so that tests at the same time get others.
inline std::uint16_t free_port() {
  constexpr unsigned first = 20'000, number = 12'000;
  static unsigned last = static_cast<unsigned>(getpid()) * 37;
  for (unsigned tries = 0; tries < number; ++tries) {
    const auto port = static_cast<std::uint16_t>(first + ++last % number);
    boost::asio::io_context io;
    try {
      const kernels::tcp::acceptor free(io, {kernels::tcp::v4(), port});
      return port;
    } catch (const boost::system::system_error&) {
      continue;
    }
  }
  throw std::runtime_error("no port is free");
}

/// A rank of this machine that meets others on a port.
inline kernels::Launch launch_on(std::uint16_t port, std::size_t rank, std::size_t size) {
  return {.rank = rank, .size = size, .local_rank = rank, .host = "localhost", .port = port};
}

/// A process that runs a function. It has to be waited for.
class Process {
 public:
  explicit Process(const std::function<std::string()>& body) {
    int ends[2] = {};
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    id_ = fork();
    if (id_ == 0) {
      close(ends[0]);
      run(body, ends[1]);
    }
    close(ends[1]);
    said_ = ends[0];
  }

  [[nodiscard]] pid_t id() const { return id_; }

  Ended wait() const {
    Ended ended;
    char part[256];
    for (ssize_t bytes = 0; (bytes = read(said_, part, sizeof part)) > 0;)
      ended.said.append(part, static_cast<std::size_t>(bytes));
    close(said_);
    int status = 0;
    waitpid(id_, &status, 0);
    ended.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return ended;
  }

 private:
  [[noreturn]] static void run(const std::function<std::string()>& body, int to) {
    std::string said;
    int status = 0;
    try {
      said = body();
    } catch (const std::exception& error) {
      said = std::string("error: ") + error.what();
      status = 2;
    }
    for (std::string_view rest = said; !rest.empty();) {
      const ssize_t bytes = write(to, rest.data(), rest.size());
      if (bytes <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(bytes));
    }
    _exit(status);
  }

  pid_t id_ = 0;
  int said_ = -1;
};

inline std::vector<Ended> wait_all(const std::vector<Process>& processes) {
  std::vector<Ended> ended;
  for (const Process& process : processes) ended.push_back(process.wait());
  return ended;
}

}  // namespace slimpack::testing
