#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "kernels/transport/rendezvous_private.hpp"

// What rank 0 and the others have in common until they have met.
namespace slimpack::kernels {

/// What rank 0 answers once all have come, or one does not fit.
struct Reply {
  std::uint64_t magic = Hello::right_magic;
  std::uint32_t version = Hello::right_version;
  std::uint32_t refused = 0;
  std::uint64_t run = 0;
  std::uint32_t fault = 0, reserved = 0;  ///< rank at fault
  std::array<char, 1024> reason{};
};

/// A `Member` as it travels: one for each rank, after the reply.
struct Entry {
  std::uint32_t port = 0, local_rank = 0;
  std::array<char, 64> host{}, address{};
};

/// Does a context's work until something is done. @returns whether it is, before the deadline.
template <class Done>
bool run_until(asio::io_context& io, Deadline deadline, Done&& done) {
  while (!done()) {
    io.restart();
    if (io.run_one_until(deadline) == 0) return done();
  }
  return true;
}

/// Writes or reads all. @param got counts the bytes that came. @returns why not, if the other side closed or the deadline
/// came before: then the socket is closed.
error_code write_all(asio::io_context& io, tcp::socket& socket, asio::const_buffer bytes, Deadline deadline);
/// @copydoc write_all
error_code read_all(asio::io_context& io, tcp::socket& socket, asio::mutable_buffer bytes, Deadline deadline,
                    std::size_t& got);

/// Connects, retrying until the deadline, because the name or the other side may not exist yet.
/// @param error the last one, if the socket is returned closed.
[[nodiscard]] tcp::socket connect_to(asio::io_context& io, const std::string& host, std::uint16_t port,
                                     Deadline deadline, std::string& error);

/// Listens for the launch's ranks, by IPv6 and IPv4 where the machine has both. @param port 0: any free one.
/// @throws TransportError if it is taken.
[[nodiscard]] tcp::acceptor open_port(asio::io_context& io, const Launch& launch, std::uint16_t port);

/// Somebody who has connected and said hello.
struct Guest {
  tcp::socket socket;
  Hello hello = {};
};

/// Accepts guests. A guest that does not say hello, or speaks another protocol, keeps no one waiting.
class Door {
 public:
  explicit Door(tcp::acceptor acceptor) : acceptor_(std::move(acceptor)) { accept(); }

  [[nodiscard]] bool empty() const { return ready_.empty(); }
  /// The next guest with a hello, of whatever version.
  [[nodiscard]] Guest take();

 private:
  void accept();
  /// Reads a guest's hello: first what every version begins with.
  void hear(const std::shared_ptr<Guest>& guest);

  tcp::acceptor acceptor_;
  std::deque<std::shared_ptr<Guest>> ready_;
};

/// A host and port as text: `[::1]:29500` or `node3:29500`.
[[nodiscard]] std::string address_text(const std::string& host, std::uint16_t port);

/// Numeric address of the other side; empty if it is gone.
[[nodiscard]] std::string peer_address(const tcp::socket& socket);

/// Why ranks have not met. @param rank at fault.
[[nodiscard]] inline TransportError meeting_error(std::size_t rank, const std::string& what) {
  return {rank, "", what};
}

/// Rank 0's part: waits for all, and tells them who is who. @param run what this run is called.
/// @param[out] data listens for connections for data, on a port that the system chooses once the launch's own is taken.
/// @returns members and control. @throws TransportError naming who is missing or does not fit: so do all that have come.
[[nodiscard]] Meeting gather_ranks(asio::io_context& io, const Launch& launch,
                                   std::chrono::milliseconds timeout, std::uint64_t run, tcp::acceptor& data);

}  // namespace slimpack::kernels
