#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace slimpack::kernels {

using Deadline = std::chrono::steady_clock::time_point;

/// Owns a stream socket, which never blocks and is closed in children.
class Socket {
 public:
  Socket() = default;
  /// Takes over an open descriptor and sets it up.
  explicit Socket(int descriptor);
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// The result of reading or writing as much as possible without waiting.
struct Moved {
  std::size_t bytes = 0;
  bool closed = false;  ///< by the other side, or broken: nothing more will come or go
};

/// Writes as much as possible without waiting: the first bytes, then the second.
Moved write_some(const Socket& socket, std::span<const std::byte> first,
                 std::span<const std::byte> second = {});
/// Reads what has arrived.
Moved read_some(const Socket& socket, std::span<std::byte> bytes);

/// Writes all. @returns whether all bytes went before the deadline and before the other side closed.
bool write_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
/// Reads all, likewise. @param got counts the bytes that came.
bool read_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline, std::size_t& got);

/// Milliseconds until a deadline as `poll` takes them: rounded up, 0 if it has passed, at most a minute.
[[nodiscard]] int poll_time(Deadline deadline);

/// A host and port as text: `[::1]:29500` or `node3:29500`.
[[nodiscard]] std::string address_text(std::string_view host, std::uint16_t port);

/// A socket that listens. For IPv6 and IPv4 where the machine has both.
/// @param port 0: any free one. @param loopback for processes of this machine only.
/// @throws std::system_error if the port is in use or may not be used.
[[nodiscard]] Socket listen_on(std::uint16_t port, bool loopback);
/// The port on which a socket listens.
[[nodiscard]] std::uint16_t port_of(const Socket& socket);
/// Numeric address of the other side; empty if it is gone.
[[nodiscard]] std::string peer_address(const Socket& socket);

/// Whether a name or address, as written, is `localhost` or 127.0.0.1: all ranks are on one machine.
[[nodiscard]] bool is_loopback(std::string_view host);

/// Connects, retrying until the deadline, because the name or the other side may not exist yet.
/// @param error the last one, if no socket is returned.
[[nodiscard]] Socket connect_to(const std::string& host, std::uint16_t port, Deadline deadline,
                                std::string& error);

}  // namespace slimpack::kernels
