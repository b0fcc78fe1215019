#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "kernels/transport/failures.hpp"
#include "kernels/transport/rendezvous_host_private.hpp"
#include "kernels/transport/rendezvous_private.hpp"
#include "kernels/transport/wire_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

Host::Host(const Launch& launch, std::chrono::milliseconds timeout)
    : launch_(launch),
      timeout_(timeout),
      listener_(open_port(launch, launch.port)),
      members_(launch.size),
      control_(launch.size) {}

void Host::gather(Deadline deadline, std::uint64_t run, std::uint16_t data_port) {
  members_[0] = {own_host(), launch_.host, data_port, launch_.local_rank};
  Door door(listener_);
  for (std::size_t missing = launch_.size - 1; missing > 0;) {
    std::optional<Guest> guest = door.next(deadline, watched());
    require_nobody_left();
    if (!guest) refuse(first_missing(), missing_text());
    if (admit(std::move(*guest))) --missing;
  }
  introduce(run, deadline + timeout_);
}

Meeting Host::take() { return {std::move(members_), std::move(control_), {}}; }

bool Host::admit(Guest guest) {
  const Hello& hello = guest.hello;
  const std::string address = peer_address(guest.socket);
  if (hello.version != Hello::right_version) {
    guest_ = std::move(guest.socket);
    refuse(first_missing(), concat("a process of ", address, " speaks version ", hello.version,
                                   " of slimpack's protocol; expected ", Hello::right_version,
                                   ": the same slimpack everywhere"));
  }
  if (hello.for_data != 0) return false;
  const std::string who = concat("rank ", hello.rank, " (", text_of(hello.host), ", ", address, ")");
  guest_ = std::move(guest.socket);
  if (hello.size != launch_.size) {
    refuse(hello.rank, concat(who, " is of ", hello.size, " ranks; expected ", launch_.size, ", as rank 0"));
  }
  if (hello.rank >= launch_.size || hello.rank == 0 || control_[hello.rank].open()) {
    const std::string first = hello.rank == 0 ? members_[0].host
                              : hello.rank < launch_.size
                                  ? concat(members_[hello.rank].host, ", ", members_[hello.rank].address)
                                  : "nobody";
    refuse(hello.rank, concat("two processes have rank ", hello.rank, ": ", who, " and one of ", first,
                              "; expected each rank below ", launch_.size, " once"));
  }
  members_[hello.rank] = {text_of(hello.host), address, static_cast<std::uint16_t>(hello.port),
                          hello.local_rank};
  control_[hello.rank] = std::move(guest_);
  return true;
}

void Host::introduce(std::uint64_t run, Deadline deadline) const {
  Reply reply;
  reply.run = run;
  std::vector<Entry> entries(launch_.size);
  for (std::size_t rank = 0; rank < launch_.size; ++rank) {
    const Member& member = members_[rank];
    entries[rank].port = member.port;
    entries[rank].local_rank = static_cast<std::uint32_t>(member.local_rank);
    put_text(entries[rank].host, member.host);
    put_text(entries[rank].address, member.address);
  }
  for (std::size_t rank = 1; rank < launch_.size; ++rank) {
    write_all(control_[rank], bytes_of(reply), deadline);
    write_all(control_[rank], std::as_bytes(std::span(entries)), deadline);
  }
}

void Host::refuse(std::size_t fault, const std::string& reason) {
  Reply reply;
  reply.refused = 1;
  reply.fault = static_cast<std::uint32_t>(fault);
  put_text(reply.reason, reason);
  const Deadline soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  for (const Socket& socket : control_) {
    if (socket.open()) write_all(socket, bytes_of(reply), soon);
  }
  if (guest_.open()) write_all(guest_, bytes_of(reply), soon);
  throw meeting_error(fault, reason);
}

std::vector<pollfd> Host::watched() const {
  std::vector<pollfd> result;
  for (const Socket& socket : control_) {
    if (socket.open()) result.push_back({socket.get(), POLLIN, 0});
  }
  return result;
}

void Host::require_nobody_left() {
  for (std::size_t rank = 1; rank < launch_.size; ++rank) {
    std::byte byte{};
    if (!control_[rank].open() || !read_some(control_[rank], {&byte, 1}).closed) continue;
    control_[rank] = Socket();
    refuse(rank, concat("rank ", rank, " (", members_[rank].host, ", ", members_[rank].address,
                        ") has gone before all ", launch_.size, " ranks had come"));
  }
}

std::size_t Host::first_missing() const {
  std::size_t rank = 1;
  while (rank + 1 < launch_.size && control_[rank].open()) ++rank;
  return rank;
}

std::string Host::missing_text() const {
  std::string missing;
  std::size_t count = 0;
  for (std::size_t rank = 1; rank < launch_.size; ++rank) {
    if (control_[rank].open() || ++count > 16) continue;
    missing += concat(count == 1 ? "" : ", ", rank);
  }
  if (count > 16) missing += concat(" and ", count - 16, " more");
  return concat(count == 1 ? "rank " : "ranks ", missing, " did not come to ",
                address_text(launch_.host, launch_.port), " within ", seconds_text(timeout_), "; expected ",
                launch_.size, " ranks");
}

}  // namespace slimpack::kernels
