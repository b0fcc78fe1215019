#include <algorithm>
#include <array>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "kernels/transport/connections_private.hpp"

namespace slimpack::kernels {

namespace {

/// In as few calls of the system as it takes; Asio itself would cut messages into parts of 64 KiB.
struct Whole {
  std::size_t operator()(const error_code& error, std::size_t) const {
    return error ? 0 : std::size_t{8} << 20;
  }
};

/// Takes the first of a tag: those of one tag stand in their order.
template <class T>
std::optional<T> take_first(std::multimap<Tag, T>& from, Tag tag) {
  const auto first = from.lower_bound(tag);
  if (first == from.end() || first->first != tag) return std::nullopt;
  return std::move(from.extract(first).mapped());
}

}  // namespace

Connections::Connections(Sockets sockets, Refuse refuse) : refuse_(std::move(refuse)) {
  for (tcp::socket& socket : moved_to(io_, std::move(sockets))) peers_.emplace_back(std::move(socket));
  for (Peer& peer : peers_) {
    if (peer.socket.is_open()) read_header(peer);
  }
}

Request Connections::send(std::size_t to, Tag tag, std::span<const std::byte> bytes) {
  Peer& peer = peers_[to];
  const Request request = transfers_.add({.sends = true, .peer = to, .tag = tag});
  peer.out.push_back({{tag, bytes.size()}, bytes, request});
  if (peer.out.size() == 1) write(peer);
  return request;
}

Request Connections::receive(std::size_t from, Tag tag, std::span<std::byte> bytes) {
  Peer& peer = peers_[from];
  Unfinished receive{.peer = from, .tag = tag, .bytes = bytes};
  const auto kept = take_first(peer.kept, tag);
  if (kept) deliver(receive, *kept);
  const Request request = transfers_.add(receive);
  if (!kept) peer.posted.emplace(tag, request);
  return request;
}

void Connections::keep(std::size_t rank, Tag tag, std::vector<std::byte> message) {
  arrived(peers_[rank], tag, std::move(message));
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

void Connections::read_header(Peer& peer) {
  asio::async_read(peer.socket, buffer_of(peer.in.header),
                   [this, &peer](const error_code& error, std::size_t) {
                     if (!error) return read_message(peer);
                     error_code ignored;
                     peer.socket.close(ignored);
                     peer.closed = std::chrono::steady_clock::now();
                   });
}

/// The header is here: finds a place for the bytes.
void Connections::read_message(Peer& peer) {
  Incoming& in = peer.in;
  in.receive = take_first(peer.posted, in.header.tag);
  std::span<std::byte> target;
  if (in.receive) {
    const Unfinished& receive = transfers_.at(*in.receive);
    require_size(receive, in.header.size);
    target = receive.bytes;
  } else {
    in.kept.resize(in.header.size);
    target = in.kept;
  }
  if (target.empty()) return end_message(peer);
  const auto buffer = asio::buffer(target.data(), target.size());
  asio::async_read(peer.socket, buffer, Whole{}, [this, &peer](const error_code& error, std::size_t) {
    error ? read_header(peer) : end_message(peer);  // the former finds the connection closed
  });
}

void Connections::end_message(Peer& peer) {
  Incoming in = std::exchange(peer.in, {});
  if (in.receive) {
    transfers_.at(*in.receive).done = true;
  } else {
    arrived(peer, in.header.tag, std::move(in.kept));
  }
  read_header(peer);
}

/// A message without a receive of its own: to the first that was posted meanwhile, or to be kept.
void Connections::arrived(Peer& peer, Tag tag, std::vector<std::byte> message) {
  if (const auto request = take_first(peer.posted, tag)) return deliver(transfers_.at(*request), message);
  peer.kept.emplace(tag, std::move(message));
}

void Connections::write(Peer& peer) {
  const Outgoing& out = peer.out.front();
  const std::array<asio::const_buffer, 2> parts{asio::buffer(&out.header, sizeof out.header),
                                                asio::buffer(out.bytes.data(), out.bytes.size())};
  asio::async_write(peer.socket, parts, Whole{}, [this, &peer](const error_code& error, std::size_t) {
    if (error) return;  // where the connection is broken, reading finds out
    transfers_.at(peer.out.front().request).done = true;
    peer.out.pop_front();
    if (!peer.out.empty()) write(peer);
  });
}

}  // namespace slimpack::kernels
