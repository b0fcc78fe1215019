#include <boost/asio/ip/host_name.hpp>
#include <random>
#include <utility>

#include "kernels/transport/failures.hpp"
#include "kernels/transport/meeting_private.hpp"
#include "kernels/transport/rendezvous_private.hpp"
#include "kernels/transport/wire_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

Hello hello_of(const Launch& launch) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(launch.rank);
  hello.size = static_cast<std::uint32_t>(launch.size);
  hello.local_rank = static_cast<std::uint32_t>(launch.local_rank);
  put_text(hello.host, asio::ip::host_name());
  return hello;
}

/// What rank 0 has answered. @throws TransportError if it is no yes.
Reply require_yes(const Reply& reply, std::size_t got, bool late, const std::string& where,
                  const std::string& who) {
  constexpr std::size_t magic = sizeof reply.magic, version = sizeof reply.version;
  if (got >= magic && reply.magic != Hello::right_magic) {
    throw meeting_error(
        0, concat(where, " has answered ", who, " in another protocol; expected slimpack's rank 0"));
  }
  if (got >= magic + version && reply.version != Hello::right_version) {
    throw meeting_error(0, concat("rank 0 at ", where, " speaks version ", reply.version,
                                  " of slimpack's protocol; expected ", Hello::right_version,
                                  ": the same slimpack everywhere"));
  }
  if (got < sizeof reply) {
    throw meeting_error(0, concat(where, late ? " has not answered " : " has left ", who,
                                  " before all ranks had come; expected slimpack's rank 0"));
  }
  if (reply.refused != 0) throw meeting_error(reply.fault, text_of(reply.reason));
  return reply;
}

/// Another rank than 0 learns from rank 0 who the others are. @param listener becomes what this rank lets others in by.
/// @param run becomes what this run is called. @returns members and control.
Meeting join(asio::io_context& io, const Launch& launch, milliseconds timeout, tcp::acceptor& listener,
             std::uint64_t& run) {
  const std::string where = address_text(launch.host, launch.port), who = concat("rank ", launch.rank);
  std::string error;
  tcp::socket control = connect_to(io, launch.host, launch.port, steady_clock::now() + timeout, error);
  if (!control.is_open()) {
    throw meeting_error(0, concat(who, " could not reach rank 0 at ", where, " within ",
                                  seconds_text(timeout), ": ", error, "; expected rank 0 to listen there"));
  }
  listener = open_port(io, launch, 0);  // now: before, it could have taken rank 0's port
  // Rank 0 listens already, so its own time is up before this.
  const Deadline answered = steady_clock::now() + timeout + milliseconds(500);
  Hello hello = hello_of(launch);
  hello.port = listener.local_endpoint().port();
  Reply reply;
  std::size_t got = 0;
  if (!write_all(io, control, buffer_of(hello), answered))
    static_cast<void>(read_all(io, control, buffer_of(reply), answered, got));
  run = require_yes(reply, got, steady_clock::now() >= answered, where, who).run;
  std::vector<Entry> entries(launch.size);
  if (read_all(io, control, asio::buffer(entries), answered, got)) {
    throw meeting_error(
        0, concat("rank 0 at ", where, " has gone before it had told ", who, " who the others are"));
  }
  Meeting meeting{{}, closed_sockets(io, launch.size), closed_sockets(io, launch.size)};
  for (const Entry& entry : entries) {
    meeting.members.push_back({text_of(entry.host), text_of(entry.address),
                               static_cast<std::uint16_t>(entry.port), entry.local_rank});
  }
  meeting.members[0].address = peer_address(control);
  meeting.control[0] = std::move(control);
  return meeting;
}

/// Connects with all ranks below, and lets in all above.
void connect_all(asio::io_context& io, const Launch& launch, milliseconds timeout, tcp::acceptor listener,
                 std::uint64_t run, Meeting& meeting) {
  const Deadline deadline = steady_clock::now() + timeout;
  const std::vector<Member>& members = meeting.members;
  Door door(std::move(listener));
  Hello hello = hello_of(launch);
  hello.for_data = 1;
  hello.run = run;
  for (std::size_t rank = 0; rank < launch.rank; ++rank) {
    const Member& member = members[rank];
    std::string error;
    meeting.data[rank] = connect_to(io, member.address, member.port, deadline, error);
    if (meeting.data[rank].is_open()) {
      const error_code code = write_all(io, meeting.data[rank], buffer_of(hello), deadline);
      if (!code) continue;
      error = code.message();
    }
    throw meeting_error(
        rank, concat("rank ", launch.rank, " could not reach rank ", rank, " (", member.host, ") at ",
                     address_text(member.address, member.port), " within ", seconds_text(timeout), ": ",
                     error, "; expected machines that let ranks connect on any port"));
  }
  for (std::size_t missing = launch.size - launch.rank - 1; missing > 0;) {
    if (!run_until(io, deadline, [&] { return !door.empty(); })) {
      std::size_t rank = launch.rank + 1;
      while (meeting.data[rank].is_open()) ++rank;
      throw meeting_error(
          rank, concat("rank ", rank, " (", members[rank].host, ") has not connected with rank ", launch.rank,
                       " (", members[launch.rank].host, ") within ", seconds_text(timeout)));
    }
    Guest guest = door.take();
    const Hello& said = guest.hello;
    const bool fits = said.version == Hello::right_version && said.for_data == 1 && said.run == run &&
                      said.rank > launch.rank && said.rank < launch.size &&
                      !meeting.data[said.rank].is_open();
    if (!fits) continue;  // of another run
    meeting.data[said.rank] = std::move(guest.socket);
    --missing;
  }
}

}  // namespace

Meeting meet(asio::io_context& io, const Launch& launch, milliseconds timeout) {
  require_valid(launch);
  require(timeout.count() >= 1, "timeout is ", timeout.count(), " ms; expected at least 1 ms");
  if (launch.size == 1) {
    return {{{asio::ip::host_name(), launch.host, launch.port, launch.local_rank}},
            closed_sockets(io, 1),
            closed_sockets(io, 1)};
  }
  asio::io_context own;  // ends the connections of guests that come late
  tcp::acceptor listener(own);
  std::uint64_t run = 0;
  Meeting meeting;
  if (launch.rank == 0) {
    std::random_device random;
    run = (std::uint64_t{random()} << 32) + random();
    meeting = gather_ranks(own, launch, timeout, run, listener);
  } else {
    meeting = join(own, launch, timeout, listener, run);
  }
  connect_all(own, launch, timeout, std::move(listener), run, meeting);
  return {std::move(meeting.members), moved_to(io, std::move(meeting.control)),
          moved_to(io, std::move(meeting.data))};
}

}  // namespace slimpack::kernels
