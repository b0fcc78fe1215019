#include "kernels/transport/tcp.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "kernels/transport/collectives.hpp"
#include "kernels/transport/control.hpp"
#include "kernels/transport/slots.hpp"
#include "kernels/transport/watch.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What goes before each message.
struct Header {
  Tag tag = 0;
  std::uint64_t size = 0;
};

struct Unfinished {
  bool sends = false, done = false;
  std::size_t peer = 0;
  Tag tag = 0;
  std::span<std::byte> bytes;  ///< of a receive
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
  std::optional<Clock::time_point> closed;
};

std::vector<Peer> peers_of(std::vector<Socket> sockets) {
  std::vector<Peer> peers(sockets.size());
  for (std::size_t rank = 0; rank < peers.size(); ++rank) peers[rank].socket = std::move(sockets[rank]);
  return peers;
}

}  // namespace

struct TcpTransport::State {
  State(const Launch& launch, Meeting meeting, const TcpOptions& chosen)
      : options(chosen),
        rank(launch.rank),
        members(std::move(meeting.members)),
        peers(peers_of(std::move(meeting.data))),
        control(std::move(meeting.control), launch.rank, chosen),
        board(control.board()) {}

  void throw_if_failed() const {
    if (board.failed()) throw error_of(*board.failure());
  }

  [[noreturn]] void fail(const Failure& failure) {
    control.fail(failure);
    throw error_of(*board.failure());
  }

  [[nodiscard]] Failure own_failure(std::string_view reason) const {
    return {rank, board[rank].task.read(), concat(rank_text(board, rank), " failed: ", reason)};
  }

  void require_rank(std::size_t peer) const {
    require(peer < peers.size(), "there is no rank ", peer, "; expected one below ", peers.size());
  }

  [[noreturn]] void wrong_size(std::size_t peer, Tag tag, std::size_t sent, std::size_t expected) {
    fail({peer, board[peer].task.read(),
          concat(rank_text(board, peer), " has sent ", sent, " bytes as ", tag_text(tag), "; expected ",
                 expected, " by ", rank_text(board, rank))});
  }

  /// A receive meets a message that was kept.
  void deliver(Unfinished& receive, const std::vector<std::byte>& message) {
    if (message.size() != receive.bytes.size())
      wrong_size(receive.peer, receive.tag, message.size(), receive.bytes.size());
    std::copy(message.begin(), message.end(), receive.bytes.begin());
    receive.done = true;
  }

  static std::optional<Request> take_posted(Peer& peer, Tag tag) {
    const auto found = peer.posted.find(tag);
    if (found == peer.posted.end()) return std::nullopt;
    const Request request = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) peer.posted.erase(found);
    return request;
  }

  /// A message without a receive of its own: to the first that was posted meanwhile, or to be kept.
  void arrived(Peer& peer, Tag tag, std::vector<std::byte> message) {
    if (const auto request = take_posted(peer, tag)) return deliver(slots.at(*request), message);
    peer.kept[tag].push_back(std::move(message));
  }

  /// The header is here: finds a place for the bytes.
  void begin_message(Peer& peer) {
    Incoming& in = peer.in;
    in.receive = take_posted(peer, in.header.tag);
    if (in.receive) {
      const Unfinished& receive = slots.at(*in.receive);
      if (receive.bytes.size() != in.header.size)
        wrong_size(receive.peer, receive.tag, in.header.size, receive.bytes.size());
      in.target = receive.bytes;
    } else {
      in.kept.resize(in.header.size);
      in.target = in.kept;
    }
  }

  void end_message(Peer& peer) {
    Incoming in = std::exchange(peer.in, {});
    if (in.receive) {
      slots.at(*in.receive).done = true;
    } else {
      arrived(peer, in.header.tag, std::move(in.kept));
    }
  }

  void read_from(Peer& peer) {
    for (std::size_t most = std::size_t{8} << 20; most > 0;) {
      Incoming& in = peer.in;
      const bool header = in.got < sizeof in.header;
      const auto place = header ? std::as_writable_bytes(std::span(&in.header, 1)).subspan(in.got)
                                : in.target.subspan(in.got - sizeof in.header);
      const Moved moved = read_some(peer.socket, place);
      if (moved.closed) {
        peer.socket = Socket();
        peer.closed = Clock::now();
      }
      if (moved.bytes == 0) return;
      in.got += moved.bytes;
      most -= std::min(most, moved.bytes);
      if (header && in.got == sizeof in.header) begin_message(peer);
      if (in.got >= sizeof in.header && in.got == sizeof in.header + in.target.size()) end_message(peer);
    }
  }

  void write_to(Peer& peer) {
    while (!peer.out.empty() && peer.socket.open()) {
      Outgoing& out = peer.out.front();
      const auto header = std::as_bytes(std::span(&out.header, 1));
      const std::size_t of_header = std::min(out.gone, header.size());
      const Moved moved =
          write_some(peer.socket, header.subspan(of_header), out.bytes.subspan(out.gone - of_header));
      if (moved.bytes == 0) return;  // where the connection is broken, reading finds out
      out.gone += moved.bytes;
      if (out.gone < header.size() + out.bytes.size()) continue;
      slots.at(out.request).done = true;
      peer.out.pop_front();
    }
  }

  /// Moves what can be moved. @param milliseconds how long to wait for something that can.
  void progress(int milliseconds) {
    polled.clear();
    for (const Peer& peer : peers) {
      const short events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
      polled.push_back({peer.socket.open() ? peer.socket.get() : -1, events, 0});
    }
    if (poll(polled.data(), polled.size(), milliseconds) <= 0) return;
    for (std::size_t other = 0; other < peers.size(); ++other) {
      if ((polled[other].revents & POLLOUT) != 0) write_to(peers[other]);
      if ((polled[other].revents & ~POLLOUT) != 0) read_from(peers[other]);
    }
  }

  /// What is wrong when a peer has closed its connection: rank 0 knows better, so it is given time to say it.
  [[nodiscard]] std::optional<Failure> loss_of(std::size_t other, const Watch& watch) const {
    const Peer& peer = peers[other];
    if (!peer.closed) return std::nullopt;
    if (board[other].left) return watch.peer_has_left();
    if (Clock::now() < *peer.closed + options.grace) return std::nullopt;
    return Failure{other, board[other].task.read(),
                   concat(rank_text(board, other), " is gone: its connection with ", rank_text(board, rank),
                          " has closed")};
  }

  void wait(const Request& request) {
    const Unfinished transfer = slots.at(request);
    constexpr int quick_looks = 100;  // going to sleep takes longer than most messages
    for (int i = 0; i < quick_looks; ++i) {
      progress(0);
      if (slots.at(request).done) return;
      std::this_thread::yield();
    }
    Watch watch(board, {rank, transfer.peer, transfer.sends, transfer.tag}, options);
    const auto interval = std::chrono::ceil<milliseconds>(watch.interval()).count();
    while (true) {
      auto failure = watch.look();
      throw_if_failed();
      progress(static_cast<int>(std::min<std::int64_t>(interval, 10)));
      if (slots.at(request).done) return;
      if (!failure) failure = loss_of(transfer.peer, watch);
      if (failure) fail(*failure);
    }
  }

  TcpOptions options;
  std::size_t rank;
  std::vector<Member> members;
  Slots<Unfinished> slots;
  std::vector<Peer> peers;  ///< by rank
  std::vector<pollfd> polled;
  Control control;
  const Board& board;
};

TcpTransport::TcpTransport(const Launch& launch, const TcpOptions& options) {
  require_valid(options);
  state_ = std::make_unique<State>(launch, meet(launch, options.start_timeout), options);
}

TcpTransport::~TcpTransport() = default;

std::size_t TcpTransport::rank() const { return state_->rank; }

std::size_t TcpTransport::size() const { return state_->peers.size(); }

const std::vector<Member>& TcpTransport::members() const { return state_->members; }

Request TcpTransport::isend(std::size_t to, Tag tag, std::span<const std::byte> bytes) {
  State& self = *state_;
  self.require_rank(to);
  self.throw_if_failed();
  Peer& peer = self.peers[to];
  if (to == self.rank) {
    self.arrived(peer, tag, {bytes.begin(), bytes.end()});
    return {};
  }
  const Request request = self.slots.add({.sends = true, .done = false, .peer = to, .tag = tag, .bytes = {}});
  peer.out.push_back({{tag, bytes.size()}, bytes, 0, request});
  if (peer.out.size() == 1) self.write_to(peer);
  return request;
}

Request TcpTransport::irecv(std::size_t from, Tag tag, std::span<std::byte> bytes) {
  State& self = *state_;
  self.require_rank(from);
  self.throw_if_failed();
  Peer& peer = self.peers[from];
  Unfinished receive{.sends = false, .done = false, .peer = from, .tag = tag, .bytes = bytes};
  const auto kept = peer.kept.find(tag);
  if (kept == peer.kept.end()) {
    const Request request = self.slots.add(receive);
    peer.posted[tag].push_back(request);
    return request;
  }
  self.deliver(receive, kept->second.front());
  kept->second.pop_front();
  if (kept->second.empty()) peer.kept.erase(kept);
  return self.slots.add(receive);
}

bool TcpTransport::test(Request& request) {
  if (request.generation == 0) return true;
  const Unfinished& transfer = state_->slots.at(request);
  state_->throw_if_failed();
  if (!transfer.done) state_->progress(0);
  if (!transfer.done) return false;
  state_->slots.remove(request);
  return true;
}

void TcpTransport::wait(Request& request) {
  if (test(request)) return;
  state_->wait(request);
  state_->slots.remove(request);
}

void TcpTransport::set_task(std::string_view text) {
  state_->throw_if_failed();
  state_->board[state_->rank].task.write(text);
}

void TcpTransport::check() { state_->throw_if_failed(); }

void TcpTransport::abort(std::string_view reason) { state_->fail(state_->own_failure(reason)); }

bool TcpTransport::fail(std::string_view reason) {
  if (state_->board.failed()) return false;
  const Failure own = state_->own_failure(reason);
  state_->control.fail(own);
  return state_->board.failure() == own;
}

void TcpTransport::close() {
  State& self = *state_;
  self.throw_if_failed();
  if (const std::size_t unfinished = self.slots.used(); unfinished > 0) {
    abort(concat("its run ends with ", unfinished, " transfers that were not waited for"));
  }
  set_task("the end of the run");
  Group(*this).barrier();
  self.control.leave();
}

int run_tcp(const std::function<void(TcpTransport&)>& body, const Launch& launch, const TcpOptions& options) {
  std::optional<TcpTransport> transport;
  const auto failed = [&](const std::string& what) {
    std::cerr << concat("rank ", launch.rank, ": ", what, "\n") << std::flush;
    if (transport) transport->fail(what);
    return 2;
  };
  try {
    transport.emplace(launch, options);
    body(*transport);
    transport->close();
    return 0;
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("an exception of unknown type");
  }
}

}  // namespace slimpack::kernels
