#include "kernels/transport/socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using std::chrono::milliseconds;

std::string error_text(int code) { return std::generic_category().message(code); }

[[noreturn]] void throw_errno(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

/// Waits until a socket is ready. @returns whether it is.
bool wait_for(const Socket& socket, short events, Deadline deadline) {
  pollfd poll_on{socket.get(), events, 0};
  while (std::chrono::steady_clock::now() < deadline) {
    if (poll(&poll_on, 1, poll_time(deadline)) > 0) return true;
  }
  return false;
}

struct Freer {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, Freer>;

/// Connects to one address. @returns an open socket, or the reason why not in `error`.
Socket connect_once(const addrinfo& address, Deadline deadline, std::string& error) {
  const int descriptor = ::socket(address.ai_family, SOCK_STREAM, 0);
  if (descriptor < 0) {
    error = error_text(errno);
    return {};
  }
  Socket socket(descriptor);
  if (connect(descriptor, address.ai_addr, address.ai_addrlen) == 0) return socket;
  int code = errno;
  if (code == EINPROGRESS) {
    socklen_t size = sizeof code;
    const bool ended = wait_for(socket, POLLOUT, deadline) &&
                       getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0;
    if (!ended) code = ETIMEDOUT;
  }
  if (code == 0) return socket;
  error = error_text(code);
  return {};
}

Socket listen_on(int family, std::uint16_t port, bool loopback) {
  const int descriptor = ::socket(family, SOCK_STREAM, 0);
  if (descriptor < 0) throw_errno("socket");
  Socket socket(descriptor);
  const int yes = 1, no = 0;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  int bound = 0;
  if (family == AF_INET6) {
    setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_any;
    bound = bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    bound = bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  if (bound != 0) throw_errno("bind");
  if (listen(descriptor, SOMAXCONN) != 0) throw_errno("listen");
  return socket;
}

}  // namespace

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  const int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Socket::~Socket() {
  if (open()) close(descriptor_);
}

Moved write_some(const Socket& socket, std::span<const std::byte> first, std::span<const std::byte> second) {
  const auto part = [](std::span<const std::byte> bytes) {
    return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  std::array<iovec, 2> parts{part(first), part(second)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t bytes = sendmsg(socket.get(), &message, MSG_NOSIGNAL);
  if (bytes >= 0) return {static_cast<std::size_t>(bytes), false};
  return {0, !would_block(errno)};
}

Moved read_some(const Socket& socket, std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), 0);
  if (got > 0) return {static_cast<std::size_t>(got), false};
  return {0, got == 0 || !would_block(errno)};
}

bool write_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const Moved moved = write_some(socket, bytes);
    if (moved.closed) return false;
    bytes = bytes.subspan(moved.bytes);
    if (moved.bytes == 0 && !wait_for(socket, POLLOUT, deadline)) return false;
  }
  return true;
}

bool read_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline, std::size_t& got) {
  got = 0;
  while (got < bytes.size()) {
    const Moved moved = read_some(socket, bytes.subspan(got));
    if (moved.closed) return false;
    got += moved.bytes;
    if (moved.bytes == 0 && !wait_for(socket, POLLIN, deadline)) return false;
  }
  return true;
}

int poll_time(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

std::string address_text(std::string_view host, std::uint16_t port) {
  return host.find(':') == std::string_view::npos ? concat(host, ":", port) : concat("[", host, "]:", port);
}

Socket listen_on(std::uint16_t port, bool loopback) {
  if (!loopback) {
    try {
      return listen_on(AF_INET6, port, false);
    } catch (const std::system_error& error) {  // a machine without IPv6
      if (error.code().value() != EAFNOSUPPORT && error.code().value() != EADDRNOTAVAIL) throw;
    }
  }
  return listen_on(AF_INET, port, loopback);
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw_errno("getsockname");
  const in_port_t port = address.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return ntohs(port);
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return {};
  }
  const std::string_view text = host.data();
  constexpr std::string_view mapped = "::ffff:";  // IPv4 on a socket for both
  return std::string(text.starts_with(mapped) ? text.substr(mapped.size()) : text);
}

bool is_loopback(std::string_view host) { return host == "localhost" || host == "127.0.0.1"; }

Socket connect_to(const std::string& host, std::uint16_t port, Deadline deadline, std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  auto pause = milliseconds(10);
  error = "no time was left";
  while (true) {
    addrinfo* list = nullptr;
    const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    const Addresses addresses(list);
    if (code != 0) error = gai_strerror(code);
    for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
      Socket socket = connect_once(*address, deadline, error);
      if (socket.open() && port_of(socket) != port) return socket;  // else it has met itself
    }
    if (std::chrono::steady_clock::now() + pause >= deadline) return {};
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(500));
  }
}

}  // namespace slimpack::kernels
