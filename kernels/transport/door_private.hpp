#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/transport/rendezvous.hpp"
#include "kernels/transport/socket.hpp"

namespace slimpack::kernels {

/// Somebody who has connected and said hello.
struct Guest {
  Socket socket;
  Hello hello;
};

/// Accepts guests. A guest that does not say hello, or speaks another protocol, keeps no one waiting.
class Door {
 public:
  /// @param listener has to outlive the door.
  explicit Door(const Socket& listener) : listener_(listener) {}

  /// The next guest with a hello, of whatever version. @param others sockets that end the wait when they
  /// become readable. @returns nothing after the deadline, or when one of the others is readable.
  std::optional<Guest> next(Deadline deadline, std::span<const pollfd> others = {});

 private:
  struct Knock {
    Socket socket;
    std::array<std::byte, sizeof(Hello)> said{};
    std::size_t got = 0;
  };

  void take_knocks();
  std::optional<Guest> take_ready();

  const Socket& listener_;
  std::vector<Knock> knocks_;
};

}  // namespace slimpack::kernels
