#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kernels/transport/slots.hpp"
#include "kernels/transport/socket.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// Messages to and from other ranks, over a connection with each. They move only during calls of
/// `progress`; those that come before their receive is posted are kept.
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
  Connections(std::vector<Socket> sockets, Refuse refuse);

  [[nodiscard]] std::size_t size() const { return peers_.size(); }

  /// As `Transport`'s, of ranks that there are, to others than this one.
  Request send(std::size_t to, Tag tag, std::span<const std::byte> bytes);
  Request receive(std::size_t from, Tag tag, std::span<std::byte> bytes);
  /// A message that is there at once: a rank's to itself.
  void keep(std::size_t rank, Tag tag, std::vector<std::byte> message);

  /// Moves what can be moved. @param milliseconds how long to wait for something that can.
  void progress(int milliseconds);

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
    std::size_t gone = 0;  ///< of header and bytes
    Request request;
  };

  /// The message that is being read.
  struct Incoming {
    Header header;
    std::size_t got = 0;  ///< of header and bytes
    std::span<std::byte> target;
    std::optional<Request> receive;  ///< that the target belongs to
    std::vector<std::byte> kept;     ///< the target, if there is no receive yet
  };

  /// The other end of a connection.
  struct Peer {
    Socket socket;
    std::deque<Outgoing> out;
    Incoming in;
    std::map<Tag, std::deque<Request>> posted;
    std::map<Tag, std::deque<std::vector<std::byte>>> kept;
    std::optional<std::chrono::steady_clock::time_point> closed;
  };

  static std::optional<Request> take_posted(Peer& peer, Tag tag);
  void require_size(const Unfinished& receive, std::size_t sent) const;
  void deliver(Unfinished& receive, const std::vector<std::byte>& message) const;
  void begin_message(Peer& peer);
  void end_message(Peer& peer);
  void arrived(Peer& peer, Tag tag, std::vector<std::byte> message);
  void read_from(Peer& peer);
  void write_to(Peer& peer);

  std::vector<Peer> peers_;  ///< by rank
  Refuse refuse_;
  Slots<Unfinished> transfers_;
  std::vector<pollfd> polled_;
};

}  // namespace slimpack::kernels
