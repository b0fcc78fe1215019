#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <utility>

#include "kernels/transport/failures.hpp"
#include "kernels/transport/meeting_private.hpp"
#include "kernels/transport/wire_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

/// Rank 0 before all have come. What it still waits for afterwards ends with its own context.
class Host {
 public:
  Host(const Launch& launch, milliseconds timeout)
      : launch_(launch),
        timeout_(timeout),
        deadline_(steady_clock::now() + timeout),
        door_(open_port(io_, launch, launch.port)),
        members_(launch.size),
        control_(closed_sockets(io_, launch.size)) {}

  Meeting gather(asio::io_context& io, std::uint64_t run, std::uint16_t data_port) {
    members_[0] = {asio::ip::host_name(), launch_.host, data_port, launch_.local_rank};
    while (!missing().empty()) {
      run_until(io_, deadline_, [&] { return gone_ || !door_.empty(); });
      if (gone_) {
        control_[*gone_].close();
        refuse(*gone_, concat("rank ", *gone_, " (", place_text(*gone_), ") has gone before all ",
                              launch_.size, " ranks had come"));
      }
      if (door_.empty()) refuse(missing().front(), missing_text());
      admit(door_.take());
    }
    introduce(run);
    return {std::move(members_), moved_to(io, std::move(control_)), closed_sockets(io, launch_.size)};
  }

 private:
  /// Lets a guest in; one of another run is ignored.
  void admit(Guest guest) {
    const Hello& hello = guest.hello;
    const std::size_t rank = hello.rank;
    const std::string address = peer_address(guest.socket);
    const std::string who = concat("rank ", rank, " (", text_of(hello.host), ", ", address, ")");
    if (hello.version != Hello::right_version) {
      refuse(missing().front(),
             concat("a process of ", address, " speaks version ", hello.version,
                    " of slimpack's protocol; expected ", Hello::right_version,
                    ": the same slimpack everywhere"),
             &guest.socket);
    }
    if (hello.for_data != 0) return;
    if (hello.size != launch_.size) {
      refuse(rank, concat(who, " is of ", hello.size, " ranks; expected ", launch_.size, ", as rank 0"),
             &guest.socket);
    }
    if (rank >= launch_.size || rank == 0 || control_[rank].is_open()) {
      refuse(rank,
             concat("two processes have rank ", rank, ": ", who, " and one of ", place_text(rank),
                    "; expected each rank below ", launch_.size, " once"),
             &guest.socket);
    }
    members_[rank] = {text_of(hello.host), address, static_cast<std::uint16_t>(hello.port), hello.local_rank};
    control_[rank] = std::move(guest.socket);
    // A rank that has come says nothing until it is answered: readable means that it has gone.
    control_[rank].async_wait(tcp::socket::wait_read, [this, rank](const error_code& error) {
      if (error != asio::error::operation_aborted) gone_ = rank;
    });
  }

  /// Tells all others who is who.
  void introduce(std::uint64_t run) {
    Reply reply;
    reply.run = run;
    std::vector<Entry> entries(launch_.size);
    for (std::size_t rank = 0; rank < launch_.size; ++rank) {
      entries[rank].port = members_[rank].port;
      entries[rank].local_rank = static_cast<std::uint32_t>(members_[rank].local_rank);
      put_text(entries[rank].host, members_[rank].host);
      put_text(entries[rank].address, members_[rank].address);
    }
    for (std::size_t rank = 1; rank < launch_.size; ++rank) {
      if (!write_all(io_, control_[rank], buffer_of(reply), deadline_ + timeout_))
        write_all(io_, control_[rank], asio::buffer(entries), deadline_ + timeout_);
    }
  }

  /// Tells all that have come, and the guest, and ends.
  [[noreturn]] void refuse(std::size_t fault, const std::string& reason, tcp::socket* guest = nullptr) {
    Reply reply;
    reply.refused = 1;
    reply.fault = static_cast<std::uint32_t>(fault);
    put_text(reply.reason, reason);
    const Deadline soon = steady_clock::now() + milliseconds(200);
    for (tcp::socket& socket : control_) {
      if (socket.is_open()) write_all(io_, socket, buffer_of(reply), soon);
    }
    if (guest != nullptr) write_all(io_, *guest, buffer_of(reply), soon);
    throw meeting_error(fault, reason);
  }

  [[nodiscard]] std::vector<std::size_t> missing() const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 1; rank < launch_.size; ++rank) {
      if (!control_[rank].is_open()) ranks.push_back(rank);
    }
    return ranks;
  }

  [[nodiscard]] std::string missing_text() const {
    const std::vector<std::size_t> ranks = missing();
    const std::size_t named = std::min<std::size_t>(ranks.size(), 16);
    std::string text;
    for (std::size_t i = 0; i < named; ++i) text += concat(i == 0 ? "" : ", ", ranks[i]);
    if (ranks.size() > named) text += concat(" and ", ranks.size() - named, " more");
    return concat(ranks.size() == 1 ? "rank " : "ranks ", text, " did not come to ",
                  address_text(launch_.host, launch_.port), " within ", seconds_text(timeout_), "; expected ",
                  launch_.size, " ranks");
  }

  [[nodiscard]] std::string place_text(std::size_t rank) const {
    if (rank >= launch_.size) return "nobody";
    return rank == 0 ? members_[0].host : concat(members_[rank].host, ", ", members_[rank].address);
  }

  asio::io_context io_;
  const Launch& launch_;
  milliseconds timeout_;
  Deadline deadline_;
  Door door_;
  std::vector<Member> members_;
  Sockets control_;
  std::optional<std::size_t> gone_;  ///< a rank that has come and left
};

}  // namespace

Meeting gather_ranks(asio::io_context& io, const Launch& launch, milliseconds timeout, std::uint64_t run,
                     tcp::acceptor& data) {
  Host host(launch, timeout);
  data = open_port(io, launch, 0);
  return host.gather(io, run, data.local_endpoint().port());
}

}  // namespace slimpack::kernels
