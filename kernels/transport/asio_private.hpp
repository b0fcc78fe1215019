#pragma once

#include <fcntl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

// What the files over Boost.Asio have in common. Only sources include it: it takes seconds to compile.
namespace slimpack::kernels {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Deadline = std::chrono::steady_clock::time_point;

/// By rank; closed to those with which there is no connection.
using Sockets = std::vector<tcp::socket>;

[[nodiscard]] inline Sockets closed_sockets(asio::io_context& io, std::size_t ranks) {
  Sockets sockets;
  for (std::size_t rank = 0; rank < ranks; ++rank) sockets.emplace_back(io);
  return sockets;
}

/// Sockets for the use of another context: their own may go.
[[nodiscard]] inline Sockets moved_to(asio::io_context& io, Sockets from) {
  Sockets sockets = closed_sockets(io, from.size());
  for (std::size_t rank = 0; rank < from.size(); ++rank) {
    if (!from[rank].is_open()) continue;
    error_code gone;  // the other side may be, which those who read find out
    const auto protocol = from[rank].local_endpoint(gone).protocol();
    sockets[rank].assign(protocol, from[rank].release());
    sockets[rank].set_option(tcp::no_delay(true), gone);
  }
  return sockets;
}

/// Children that a program starts do not keep what its ranks have open.
template <class Socket>
void close_in_children(Socket& socket) {
  fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

/// A value as it travels between processes of one kind of machine.
template <class T>
[[nodiscard]] auto buffer_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return asio::buffer(&value, sizeof value);
}

}  // namespace slimpack::kernels
