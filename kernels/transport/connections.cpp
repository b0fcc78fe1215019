#include <algorithm>
#include <utility>

#include "kernels/transport/connections_private.hpp"
#include "kernels/transport/wire_private.hpp"

namespace slimpack::kernels {

Connections::Connections(std::vector<Socket> sockets, Refuse refuse)
    : peers_(sockets.size()), refuse_(std::move(refuse)) {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) peers_[rank].socket = std::move(sockets[rank]);
}

Request Connections::send(std::size_t to, Tag tag, std::span<const std::byte> bytes) {
  Peer& peer = peers_[to];
  const Request request = transfers_.add({.sends = true, .peer = to, .tag = tag});
  peer.out.push_back({{tag, bytes.size()}, bytes, 0, request});
  if (peer.out.size() == 1) write_to(peer);
  return request;
}

Request Connections::receive(std::size_t from, Tag tag, std::span<std::byte> bytes) {
  Peer& peer = peers_[from];
  Unfinished receive{.peer = from, .tag = tag, .bytes = bytes};
  const auto kept = peer.kept.find(tag);
  if (kept == peer.kept.end()) {
    const Request request = transfers_.add(receive);
    peer.posted[tag].push_back(request);
    return request;
  }
  deliver(receive, kept->second.front());
  kept->second.pop_front();
  if (kept->second.empty()) peer.kept.erase(kept);
  return transfers_.add(receive);
}

void Connections::keep(std::size_t rank, Tag tag, std::vector<std::byte> message) {
  arrived(peers_[rank], tag, std::move(message));
}

void Connections::progress(int milliseconds) {
  polled_.clear();
  for (const Peer& peer : peers_) {
    const short events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
    polled_.push_back({peer.socket.open() ? peer.socket.get() : -1, events, 0});
  }
  if (poll(polled_.data(), polled_.size(), milliseconds) <= 0) return;
  for (std::size_t other = 0; other < peers_.size(); ++other) {
    if ((polled_[other].revents & POLLOUT) != 0) write_to(peers_[other]);
    if ((polled_[other].revents & ~POLLOUT) != 0) read_from(peers_[other]);
  }
}

std::optional<Request> Connections::take_posted(Peer& peer, Tag tag) {
  const auto found = peer.posted.find(tag);
  if (found == peer.posted.end()) return std::nullopt;
  const Request request = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) peer.posted.erase(found);
  return request;
}

void Connections::require_size(const Unfinished& receive, std::size_t sent) const {
  if (receive.bytes.size() != sent) refuse_(receive, sent);
}

/// A receive meets a message that was kept.
void Connections::deliver(Unfinished& receive, const std::vector<std::byte>& message) const {
  require_size(receive, message.size());
  std::copy(message.begin(), message.end(), receive.bytes.begin());
  receive.done = true;
}

/// The header is here: finds a place for the bytes.
void Connections::begin_message(Peer& peer) {
  Incoming& in = peer.in;
  in.receive = take_posted(peer, in.header.tag);
  if (in.receive) {
    const Unfinished& receive = transfers_.at(*in.receive);
    require_size(receive, in.header.size);
    in.target = receive.bytes;
  } else {
    in.kept.resize(in.header.size);
    in.target = in.kept;
  }
}

void Connections::end_message(Peer& peer) {
  Incoming in = std::exchange(peer.in, {});
  if (in.receive) {
    transfers_.at(*in.receive).done = true;
  } else {
    arrived(peer, in.header.tag, std::move(in.kept));
  }
}

/// A message without a receive of its own: to the first that was posted meanwhile, or to be kept.
void Connections::arrived(Peer& peer, Tag tag, std::vector<std::byte> message) {
  if (const auto request = take_posted(peer, tag)) return deliver(transfers_.at(*request), message);
  peer.kept[tag].push_back(std::move(message));
}

void Connections::read_from(Peer& peer) {
  for (std::size_t most = std::size_t{8} << 20; most > 0;) {
    Incoming& in = peer.in;
    const bool header = in.got < sizeof in.header;
    const auto place =
        header ? writable_bytes_of(in.header).subspan(in.got) : in.target.subspan(in.got - sizeof in.header);
    const Moved moved = read_some(peer.socket, place);
    if (moved.closed) {
      peer.socket = Socket();
      peer.closed = std::chrono::steady_clock::now();
    }
    if (moved.bytes == 0) return;
    in.got += moved.bytes;
    most -= std::min(most, moved.bytes);
    if (header && in.got == sizeof in.header) begin_message(peer);
    if (in.got >= sizeof in.header && in.got == sizeof in.header + in.target.size()) end_message(peer);
  }
}

void Connections::write_to(Peer& peer) {
  while (!peer.out.empty() && peer.socket.open()) {
    Outgoing& out = peer.out.front();
    const auto header = bytes_of(out.header);
    const std::size_t of_header = std::min(out.gone, header.size());
    const Moved moved =
        write_some(peer.socket, header.subspan(of_header), out.bytes.subspan(out.gone - of_header));
    if (moved.bytes == 0) return;  // where the connection is broken, reading finds out
    out.gone += moved.bytes;
    if (out.gone < header.size() + out.bytes.size()) continue;
    transfers_.at(out.request).done = true;
    peer.out.pop_front();
  }
}

}  // namespace slimpack::kernels
