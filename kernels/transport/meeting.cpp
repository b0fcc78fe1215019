#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <thread>
#include <utility>

#include "kernels/transport/meeting_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

/// Does one thing with a socket, which is closed if the deadline comes first.
/// @param start is given what to call when it has ended.
template <class Start>
error_code finish(asio::io_context& io, tcp::socket& socket, Deadline deadline, Start&& start) {
  std::optional<error_code> result;
  const auto ended = [&] { return result.has_value(); };
  start([&](const error_code& code) { result = code; });
  if (run_until(io, deadline, ended)) return *result;
  error_code ignored;
  socket.close(ignored);
  run_until(io, Deadline::max(), ended);  // it still writes to what is here
  return asio::error::timed_out;
}

tcp::acceptor listen_on(asio::io_context& io, const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(io, endpoint.protocol());
  close_in_children(acceptor);
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  if (endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false));
  acceptor.bind(endpoint);
  acceptor.listen();
  return acceptor;
}

tcp::acceptor listen_on(asio::io_context& io, std::uint16_t port, bool loopback) {
  if (loopback) return listen_on(io, {asio::ip::address_v4::loopback(), port});
  try {
    return listen_on(io, {tcp::v6(), port});
  } catch (const boost::system::system_error& error) {  // a machine without IPv6
    if (error.code() == asio::error::address_in_use || error.code() == asio::error::access_denied) throw;
    return listen_on(io, {tcp::v4(), port});
  }
}

}  // namespace

error_code write_all(asio::io_context& io, tcp::socket& socket, asio::const_buffer bytes, Deadline deadline) {
  return finish(io, socket, deadline, [&](auto done) {
    asio::async_write(socket, bytes, [done](const error_code& code, std::size_t) { done(code); });
  });
}

error_code read_all(asio::io_context& io, tcp::socket& socket, asio::mutable_buffer bytes, Deadline deadline,
                    std::size_t& got) {
  return finish(io, socket, deadline, [&](auto done) {
    asio::async_read(socket, bytes, [done, &got](const error_code& code, std::size_t n) {
      got = n;
      done(code);
    });
  });
}

tcp::socket connect_to(asio::io_context& io, const std::string& host, std::uint16_t port, Deadline deadline,
                       std::string& error) {
  tcp::resolver resolver(io);
  for (auto pause = milliseconds(10);; pause = std::min(pause * 2, milliseconds(500))) {
    error_code code;
    const auto addresses = resolver.resolve(host, std::to_string(port), code);
    tcp::socket socket(io);
    if (!code) {
      code = finish(io, socket, deadline, [&](auto done) {
        asio::async_connect(socket, addresses,
                            [done](const error_code& ended, const tcp::endpoint&) { done(ended); });
      });
    }
    if (!code && socket.local_endpoint(code) != socket.remote_endpoint(code) && !code) {
      close_in_children(socket);
      return socket;
    }
    error = code ? code.message() : "it has met itself";
    if (steady_clock::now() + pause >= deadline) return tcp::socket(io);
    std::this_thread::sleep_for(pause);
  }
}

tcp::acceptor open_port(asio::io_context& io, const Launch& launch, std::uint16_t port) {
  try {
    return listen_on(io, port, launch.host == "localhost" || launch.host == "127.0.0.1");
  } catch (const boost::system::system_error& error) {
    throw meeting_error(launch.rank, concat("rank ", launch.rank, " can't listen on port ", port, ": ",
                                            error.code().message(), "; expected a free port"));
  }
}

Guest Door::take() {
  Guest guest = std::move(*ready_.front());
  ready_.pop_front();
  return guest;
}

void Door::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    accept();
    if (error) return;
    close_in_children(socket);
    const auto guest = std::make_shared<Guest>(Guest{std::move(socket)});
    hear(guest);
  });
}

void Door::hear(const std::shared_ptr<Guest>& guest) {
  const asio::mutable_buffer hello = buffer_of(guest->hello);
  constexpr std::size_t same = offsetof(Hello, rank);  // as long in every version
  asio::async_read(
      guest->socket, asio::buffer(hello, same), [this, guest, hello](const error_code& cut, std::size_t) {
        if (cut || guest->hello.magic != Hello::right_magic) return;
        if (guest->hello.version != Hello::right_version) return ready_.push_back(guest);
        asio::async_read(guest->socket, hello + same, [this, guest](const error_code& late, std::size_t) {
          if (!late) ready_.push_back(guest);
        });
      });
}

std::string address_text(const std::string& host, std::uint16_t port) {
  return host.find(':') == std::string::npos ? concat(host, ":", port) : concat("[", host, "]:", port);
}

std::string peer_address(const tcp::socket& socket) {
  error_code gone;
  const asio::ip::address address = socket.remote_endpoint(gone).address();
  if (gone) return {};
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
}

}  // namespace slimpack::kernels
