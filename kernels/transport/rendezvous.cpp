#include "kernels/transport/rendezvous.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

/// What rank 0 answers once all have come, or one does not fit.
struct Reply {
  std::uint64_t magic = Hello::right_magic;
  std::uint32_t version = Hello::right_version;
  std::uint32_t refused = 0;
  std::uint64_t run = 0;
  std::uint32_t fault = 0, reserved = 0;  ///< rank at fault
  std::array<char, 1024> reason{};
};

/// A `Member` as it travels.
struct Entry {
  std::uint32_t port = 0, local_rank = 0;
  std::array<char, 64> host{}, address{};
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

template <std::size_t N>
void put(std::array<char, N>& to, std::string_view text) {
  to = {};
  text.copy(to.data(), N - 1);
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return {from.data(), static_cast<std::size_t>(std::find(from.begin(), from.end(), '\0') - from.begin())};
}

std::string seconds_text(milliseconds time) { return concat(static_cast<double>(time.count()) / 1e3, " s"); }

std::string own_host() {
  std::array<char, 65> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

TransportError fault_of(std::size_t rank, const std::string& what) { return {rank, "", what}; }

/// Somebody who has connected and said hello.
struct Guest {
  Socket socket;
  Hello hello;
};

/// Lets guests in. Who says no hello, or in another protocol, keeps nobody waiting.
class Door {
 public:
  explicit Door(const Socket& listener) : listener_(listener) {}

  /// The next guest with a hello, of whatever version. @param others sockets that end the wait when they become
  /// readable. @returns nothing after the deadline, or when one of the others is readable.
  std::optional<Guest> next(Deadline deadline, std::span<const pollfd> others = {}) {
    while (true) {
      if (auto guest = take_ready()) return guest;
      if (steady_clock::now() >= deadline) return std::nullopt;
      std::vector<pollfd> polled(others.begin(), others.end());
      polled.push_back({listener_.get(), POLLIN, 0});
      for (const Knock& knock : knocks_) polled.push_back({knock.socket.get(), POLLIN, 0});
      poll(polled.data(), polled.size(), poll_time(deadline));
      for (std::size_t i = 0; i < others.size(); ++i) {
        if (polled[i].revents != 0) return std::nullopt;
      }
      while (true) {
        const int descriptor = accept(listener_.get(), nullptr, nullptr);
        if (descriptor < 0) break;
        knocks_.push_back({Socket(descriptor), {}, 0});
      }
    }
  }

 private:
  struct Knock {
    Socket socket;
    std::array<std::byte, sizeof(Hello)> said{};
    std::size_t got = 0;
  };

  std::optional<Guest> take_ready() {
    for (std::size_t i = 0; i < knocks_.size(); ++i) {
      Knock& knock = knocks_[i];
      const Moved moved = read_some(knock.socket, std::span(knock.said).subspan(knock.got));
      knock.got += moved.bytes;
      const auto hello = std::bit_cast<Hello>(knock.said);
      const std::size_t known = std::min(knock.got, sizeof hello.magic);
      const bool stranger = std::memcmp(&hello.magic, &Hello::right_magic, known) != 0;
      const bool other_version =
          knock.got >= sizeof hello.magic + sizeof hello.version && hello.version != Hello::right_version;
      const bool complete = !stranger && (knock.got == sizeof(Hello) || other_version);
      if (!complete && !stranger && !moved.closed) continue;
      Socket socket = std::move(knock.socket);
      knocks_.erase(knocks_.begin() + static_cast<std::ptrdiff_t>(i--));
      if (complete) return Guest{std::move(socket), hello};
    }
    return std::nullopt;
  }

  const Socket& listener_;
  std::vector<Knock> knocks_;
};

Socket open_port(const Launch& launch, std::uint16_t port) {
  try {
    return listen_on(port, is_loopback(launch.host));
  } catch (const std::system_error& error) {
    throw fault_of(launch.rank, concat("rank ", launch.rank, " can't listen on port ", port, ": ",
                                       error.code().message(), "; expected a free port"));
  }
}

/// Rank 0 before all have come.
class Host {
 public:
  Host(const Launch& launch, milliseconds timeout)
      : launch_(launch),
        timeout_(timeout),
        listener_(open_port(launch, launch.port)),
        members_(launch.size),
        control_(launch.size) {}

  /// Waits for all, and tells them who is who.
  void gather(Deadline deadline, std::uint64_t run, std::uint16_t data_port) {
    members_[0] = {own_host(), launch_.host, data_port, launch_.local_rank};
    Door door(listener_);
    for (std::size_t missing = launch_.size - 1; missing > 0;) {
      std::optional<Guest> guest = door.next(deadline, watched());
      require_nobody_left();
      if (!guest) refuse(first_missing(), missing_text());
      if (admit(std::move(*guest))) --missing;
    }
    Reply reply;
    reply.run = run;
    std::vector<Entry> entries(launch_.size);
    for (std::size_t rank = 0; rank < launch_.size; ++rank) {
      const Member& member = members_[rank];
      entries[rank].port = member.port;
      entries[rank].local_rank = static_cast<std::uint32_t>(member.local_rank);
      put(entries[rank].host, member.host);
      put(entries[rank].address, member.address);
    }
    for (std::size_t rank = 1; rank < launch_.size; ++rank) {
      write_all(control_[rank], bytes_of(reply), deadline + timeout_);
      write_all(control_[rank], std::as_bytes(std::span(entries)), deadline + timeout_);
    }
  }

  /// The members and the ways to them, without those for data. To be called once.
  Meeting take() { return {std::move(members_), std::move(control_), {}}; }

 private:
  /// Lets a guest in. @returns whether it is one of the ranks; if it is none of this run, it is ignored.
  bool admit(Guest guest) {
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
      refuse(hello.rank,
             concat(who, " is of ", hello.size, " ranks; expected ", launch_.size, ", as rank 0"));
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

  /// Tells all that have come, and ends.
  [[noreturn]] void refuse(std::size_t fault, const std::string& reason) {
    Reply reply;
    reply.refused = 1;
    reply.fault = static_cast<std::uint32_t>(fault);
    put(reply.reason, reason);
    const Deadline soon = steady_clock::now() + milliseconds(200);
    for (const Socket& socket : control_) {
      if (socket.open()) write_all(socket, bytes_of(reply), soon);
    }
    if (guest_.open()) write_all(guest_, bytes_of(reply), soon);
    throw fault_of(fault, reason);
  }

  /// A rank that has come says nothing until it is answered: readable means that it has gone.
  [[nodiscard]] std::vector<pollfd> watched() const {
    std::vector<pollfd> result;
    for (const Socket& socket : control_) {
      if (socket.open()) result.push_back({socket.get(), POLLIN, 0});
    }
    return result;
  }

  void require_nobody_left() {
    for (std::size_t rank = 1; rank < launch_.size; ++rank) {
      std::byte byte{};
      if (!control_[rank].open() || !read_some(control_[rank], {&byte, 1}).closed) continue;
      control_[rank] = Socket();
      refuse(rank, concat("rank ", rank, " (", members_[rank].host, ", ", members_[rank].address,
                          ") has gone before all ", launch_.size, " ranks had come"));
    }
  }

  [[nodiscard]] std::size_t first_missing() const {
    std::size_t rank = 1;
    while (rank + 1 < launch_.size && control_[rank].open()) ++rank;
    return rank;
  }

  [[nodiscard]] std::string missing_text() const {
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

  const Launch& launch_;
  milliseconds timeout_;
  Socket listener_;
  std::vector<Member> members_;
  std::vector<Socket> control_;
  Socket guest_;  ///< who is being looked at
};

Hello hello_of(const Launch& launch, std::uint16_t data_port) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(launch.rank);
  hello.size = static_cast<std::uint32_t>(launch.size);
  hello.local_rank = static_cast<std::uint32_t>(launch.local_rank);
  hello.port = data_port;
  put(hello.host, own_host());
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
    throw fault_of(0, concat(who, " could not reach rank 0 at ", where, " within ", seconds_text(timeout),
                             ": ", error, "; expected rank 0 to listen there"));
  }
  answer.listener = open_port(launch, 0);  // now: before, it could have taken rank 0's port
  // Rank 0 listens already, so its own time is up before this.
  const Deadline answered = steady_clock::now() + timeout + milliseconds(500);
  Reply reply;
  std::size_t got = 0;
  const bool whole =
      write_all(answer.control, bytes_of(hello_of(launch, port_of(answer.listener))), answered) &&
      read_all(answer.control, std::as_writable_bytes(std::span(&reply, 1)), answered, got);
  if (got >= sizeof reply.magic && reply.magic != Hello::right_magic) {
    throw fault_of(0,
                   concat(where, " has answered ", who, " in another protocol; expected slimpack's rank 0"));
  }
  if (got >= sizeof reply.magic + sizeof reply.version && reply.version != Hello::right_version) {
    throw fault_of(0, concat("rank 0 at ", where, " speaks version ", reply.version,
                             " of slimpack's protocol; expected ", Hello::right_version,
                             ": the same slimpack everywhere"));
  }
  if (!whole) {
    throw fault_of(0, concat(where, steady_clock::now() >= answered ? " has not answered " : " has left ",
                             who, " before all ranks had come; expected slimpack's rank 0"));
  }
  if (reply.refused != 0) throw fault_of(reply.fault, text_of(reply.reason));
  answer.run = reply.run;
  std::vector<Entry> entries(launch.size);
  if (!read_all(answer.control, std::as_writable_bytes(std::span(entries)), answered, got)) {
    throw fault_of(0,
                   concat("rank 0 at ", where, " has gone before it had told ", who, " who the others are"));
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
    throw fault_of(rank,
                   concat("rank ", launch.rank, " could not reach rank ", rank, " (", member.host, ") at ",
                          address_text(member.address, member.port), " within ", seconds_text(timeout), ": ",
                          error, "; expected machines that let ranks connect on any port"));
  }
  Door door(listener);
  for (std::size_t missing = launch.size - launch.rank - 1; missing > 0;) {
    std::optional<Guest> guest = door.next(deadline);
    if (!guest) {
      std::size_t rank = launch.rank + 1;
      while (data[rank].open()) ++rank;
      throw fault_of(
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

Meeting meet(const Launch& launch, milliseconds timeout) {
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
