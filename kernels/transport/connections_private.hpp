#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kernels/transport/asio_private.hpp"
#include "kernels/transport/slots.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// Messages to and from other ranks, over a connection with each. They move only during calls; those that
/// come before their receive is posted are kept.
class Connections {
 public:
  struct Unfinished {
    bool sends = false, done = false;
    std::size_t peer = 0;
    Tag tag = 0;
    std::span<std::byte> bytes = {};  ///< of a receive
  };
  /// What is done about a message of another size than its receive. It has to throw.
  using Refuse = std::function<void(const Unfinished& receive, std::size_t sent)>;

  /// @param sockets by rank.
  Connections(Sockets sockets, Refuse refuse);

  [[nodiscard]] std::size_t size() const { return peers_.size(); }

  /// As `Transport`'s, of ranks that there are, to others than this one.
  Request send(std::size_t to, Tag tag, std::span<const std::byte> bytes);
  Request receive(std::size_t from, Tag tag, std::span<std::byte> bytes);
  /// A message that is there at once: a rank's to itself.
  void keep(std::size_t rank, Tag tag, std::vector<std::byte> message);

  /// Moves what can be moved without waiting.
  void progress() { io_.poll(); }
  /// Waits for something that can be moved, and moves it.
  void progress(std::chrono::nanoseconds longest) { io_.run_one_for(longest); }

  /// Transfers that were started and not removed.
  [[nodiscard]] Slots<Unfinished>& transfers() { return transfers_; }
  /// Since when a rank's connection is closed, if it is.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> closed(std::size_t rank) const {
    return peers_[rank].closed;
  }

 private:
  /// What goes before each message.
  struct Header {
    Tag tag = 0;
    std::uint64_t size = 0;
  };

  struct Outgoing {
    Header header;
    std::span<const std::byte> bytes;
    Request request;
  };

  /// The message that is being read.
  struct Incoming {
    Header header;
    std::optional<Request> receive;  ///< whose bytes it fills
    std::vector<std::byte> kept;     ///< which it fills if there is no receive yet
  };

  /// The other end of a connection.
  struct Peer {
    explicit Peer(tcp::socket way) : socket(std::move(way)) {}

    tcp::socket socket;
    std::deque<Outgoing> out;
    Incoming in;
    std::multimap<Tag, Request> posted;
    std::multimap<Tag, std::vector<std::byte>> kept;
    std::optional<std::chrono::steady_clock::time_point> closed;
  };

  void require_size(const Unfinished& receive, std::size_t sent) const;
  void deliver(Unfinished& receive, const std::vector<std::byte>& message) const;
  void read_header(Peer& peer);
  void read_message(Peer& peer);
  void end_message(Peer& peer);
  void arrived(Peer& peer, Tag tag, std::vector<std::byte> message);
  void write(Peer& peer);

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> open_{
      io_.get_executor()};   ///< even without peers
  std::vector<Peer> peers_;  ///< by rank
  Refuse refuse_;
  Slots<Unfinished> transfers_;
};

}  // namespace slimpack::kernels
