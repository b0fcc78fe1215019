#include "kernels/transport/rendezvous.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <span>
#include <system_error>
#include <utility>

#include "kernels/transport/door_private.hpp"
#include "kernels/transport/failures.hpp"
#include "kernels/transport/rendezvous_host_private.hpp"
#include "kernels/transport/rendezvous_private.hpp"
#include "kernels/transport/wire_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

std::string own_host() {
  std::array<char, 65> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

TransportError meeting_error(std::size_t rank, const std::string& what) { return {rank, "", what}; }

Socket open_port(const Launch& launch, std::uint16_t port) {
  try {
    return listen_on(port, is_loopback(launch.host));
  } catch (const std::system_error& error) {
    throw meeting_error(launch.rank, concat("rank ", launch.rank, " can't listen on port ", port, ": ",
                                            error.code().message(), "; expected a free port"));
  }
}

namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

Hello hello_of(const Launch& launch, std::uint16_t data_port) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(launch.rank);
  hello.size = static_cast<std::uint32_t>(launch.size);
  hello.local_rank = static_cast<std::uint32_t>(launch.local_rank);
  hello.port = data_port;
  put_text(hello.host, own_host());
  return hello;
}

/// What another rank than 0 learns from it.
struct Answer {
  std::vector<Member> members;
  Socket control;
  Socket listener;  ///< on which this rank lets others in
  std::uint64_t run = 0;
};

Answer join(const Launch& launch, milliseconds timeout) {
  const Deadline deadline = steady_clock::now() + timeout;
  const std::string where = address_text(launch.host, launch.port);
  const std::string who = concat("rank ", launch.rank);
  std::string error;
  Answer answer;
  answer.control = connect_to(launch.host, launch.port, deadline, error);
  if (!answer.control.open()) {
    throw meeting_error(0, concat(who, " could not reach rank 0 at ", where, " within ",
                                  seconds_text(timeout), ": ", error, "; expected rank 0 to listen there"));
  }
  answer.listener = open_port(launch, 0);  // now: before, it could have taken rank 0's port
  // Rank 0 listens already, so its own time is up before this.
  const Deadline answered = steady_clock::now() + timeout + milliseconds(500);
  Reply reply;
  std::size_t got = 0;
  const bool whole =
      write_all(answer.control, bytes_of(hello_of(launch, port_of(answer.listener))), answered) &&
      read_all(answer.control, writable_bytes_of(reply), answered, got);
  if (got >= sizeof reply.magic && reply.magic != Hello::right_magic) {
    throw meeting_error(
        0, concat(where, " has answered ", who, " in another protocol; expected slimpack's rank 0"));
  }
  if (got >= sizeof reply.magic + sizeof reply.version && reply.version != Hello::right_version) {
    throw meeting_error(0, concat("rank 0 at ", where, " speaks version ", reply.version,
                                  " of slimpack's protocol; expected ", Hello::right_version,
                                  ": the same slimpack everywhere"));
  }
  if (!whole) {
    throw meeting_error(
        0, concat(where, steady_clock::now() >= answered ? " has not answered " : " has left ", who,
                  " before all ranks had come; expected slimpack's rank 0"));
  }
  if (reply.refused != 0) throw meeting_error(reply.fault, text_of(reply.reason));
  answer.run = reply.run;
  std::vector<Entry> entries(launch.size);
  if (!read_all(answer.control, std::as_writable_bytes(std::span(entries)), answered, got)) {
    throw meeting_error(
        0, concat("rank 0 at ", where, " has gone before it had told ", who, " who the others are"));
  }
  for (const Entry& entry : entries) {
    answer.members.push_back({text_of(entry.host), text_of(entry.address),
                              static_cast<std::uint16_t>(entry.port), entry.local_rank});
  }
  answer.members[0].address = peer_address(answer.control);
  return answer;
}

/// Connects with all ranks below, then lets in all above.
std::vector<Socket> connect_all(const Launch& launch, milliseconds timeout, const Socket& listener,
                                const std::vector<Member>& members, std::uint64_t run) {
  const Deadline deadline = steady_clock::now() + timeout;
  std::vector<Socket> data(launch.size);
  Hello hello = hello_of(launch, 0);
  hello.for_data = 1;
  hello.run = run;
  for (std::size_t rank = 0; rank < launch.rank; ++rank) {
    const Member& member = members[rank];
    std::string error;
    data[rank] = connect_to(member.address, member.port, deadline, error);
    if (data[rank].open() && write_all(data[rank], bytes_of(hello), deadline)) continue;
    throw meeting_error(
        rank, concat("rank ", launch.rank, " could not reach rank ", rank, " (", member.host, ") at ",
                     address_text(member.address, member.port), " within ", seconds_text(timeout), ": ",
                     error, "; expected machines that let ranks connect on any port"));
  }
  Door door(listener);
  for (std::size_t missing = launch.size - launch.rank - 1; missing > 0;) {
    std::optional<Guest> guest = door.next(deadline);
    if (!guest) {
      std::size_t rank = launch.rank + 1;
      while (data[rank].open()) ++rank;
      throw meeting_error(
          rank, concat("rank ", rank, " (", members[rank].host, ") has not connected with rank ", launch.rank,
                       " (", members[launch.rank].host, ") within ", seconds_text(timeout)));
    }
    const Hello& said = guest->hello;
    const bool fits = said.version == Hello::right_version && said.for_data == 1 && said.run == run &&
                      said.rank > launch.rank && said.rank < launch.size && !data[said.rank].open();
    if (!fits) continue;  // of another run
    data[said.rank] = std::move(guest->socket);
    --missing;
  }
  return data;
}

}  // namespace

Meeting meet(const Launch& launch, std::chrono::milliseconds timeout) {
  require_valid(launch);
  require(timeout.count() >= 1, "timeout is ", timeout.count(), " ms; expected at least 1 ms");
  Meeting meeting;
  if (launch.size == 1) {
    meeting.members = {{own_host(), launch.host, launch.port, launch.local_rank}};
    meeting.control.resize(1);
    meeting.data.resize(1);
    return meeting;
  }
  if (launch.rank == 0) {
    const Deadline deadline = steady_clock::now() + timeout;
    std::random_device random;
    const std::uint64_t run = (std::uint64_t{random()} << 32) + random();
    Host host(launch, timeout);
    const Socket listener = open_port(launch, 0);
    host.gather(deadline, run, port_of(listener));
    meeting = host.take();
    meeting.data = connect_all(launch, timeout, listener, meeting.members, run);
  } else {
    Answer answer = join(launch, timeout);
    meeting.members = std::move(answer.members);
    meeting.control.resize(launch.size);
    meeting.control[0] = std::move(answer.control);
    meeting.data = connect_all(launch, timeout, answer.listener, meeting.members, answer.run);
  }
  return meeting;
}

}  // namespace slimpack::kernels
