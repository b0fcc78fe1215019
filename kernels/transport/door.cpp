#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "kernels/transport/door_private.hpp"

namespace slimpack::kernels {

std::optional<Guest> Door::next(Deadline deadline, std::span<const pollfd> others) {
  while (true) {
    if (auto guest = take_ready()) return guest;
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::vector<pollfd> polled(others.begin(), others.end());
    polled.push_back({listener_.get(), POLLIN, 0});
    for (const Knock& knock : knocks_) polled.push_back({knock.socket.get(), POLLIN, 0});
    poll(polled.data(), polled.size(), poll_time(deadline));
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (polled[i].revents != 0) return std::nullopt;
    }
    take_knocks();
  }
}

void Door::take_knocks() {
  while (true) {
    const int descriptor = accept(listener_.get(), nullptr, nullptr);
    if (descriptor < 0) return;
    knocks_.push_back({Socket(descriptor), {}, 0});
  }
}

std::optional<Guest> Door::take_ready() {
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

}  // namespace slimpack::kernels
