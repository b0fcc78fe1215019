#include "kernels/transport/control.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "kernels/transport/bell_private.hpp"
#include "kernels/transport/control_frames_private.hpp"
#include "kernels/transport/failures.hpp"
#include "kernels/transport/wire_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// One ray of the star.
struct Link {
  Socket socket;
  std::vector<std::byte> in, out;
  Clock::time_point heard;
};

Clock::duration beat_of(const TransportOptions& options, std::size_t ranks) {
  const auto most = std::max<milliseconds>(milliseconds(250), milliseconds(4) * ranks);
  return std::min<Clock::duration>(options.timeout / 16, most);
}

}  // namespace

struct Control::State {
  State(std::vector<Socket> star, std::size_t own, const TransportOptions& chosen)
      : options(chosen),
        rank(own),
        beat(beat_of(chosen, star.size())),
        memory(Board::bytes(star.size()) / sizeof(std::uint64_t) + 1),
        board(memory.data(), star.size(), true),
        links(star.size()) {
    for (std::size_t other = 0; other < links.size(); ++other) {
      links[other].socket = std::move(star[other]);
      links[other].heard = Clock::now();
    }
    board[rank].here = true;
    if (links.size() > 1) thread = std::thread([this] { run(); });
  }

  void run() {
    auto next_beat = Clock::now();
    while (true) {
      const bool last = stopping;
      const auto now = Clock::now();
      announce_failure();
      if (now >= next_beat || woken || (last && !told_last)) {
        tell();
        next_beat = now + beat;
        woken = false;
        told_last = last;
      }
      for (std::size_t other = 0; other < links.size(); ++other) flush(other);
      look_for_silence(now);
      if (last && may_stop(now)) return;
      wait_for_news(last ? std::min<Clock::time_point>(next_beat, now + milliseconds(5)) : next_beat);
      for (std::size_t other = 0; other < links.size(); ++other) read(other);
    }
  }

  void wait_for_news(Clock::time_point until) {
    std::vector<pollfd> polled{{bell.get(), POLLIN, 0}};
    for (const Link& link : links) {
      const short events = link.out.empty() ? POLLIN : POLLIN | POLLOUT;
      if (link.socket.open()) polled.push_back({link.socket.get(), events, 0});
    }
    poll(polled.data(), polled.size(), poll_time(until));
    if (polled[0].revents != 0) {
      bell.silence();
      woken = true;
    }
  }

  /// Queues what this rank knows for those who don't. Who does not take what was queued before, gets no more.
  void tell() {
    for (std::size_t other = 0; other < links.size(); ++other) {
      Link& link = links[other];
      if (!link.socket.open() || (!link.out.empty() && !stopping)) continue;
      for (std::size_t about = 0; about < links.size(); ++about) {
        const bool news = about == rank || (rank == 0 && about != other);
        if (news) append(link.out, status_frame(about, board[about]));
      }
    }
  }

  /// Queues a failure: rank 0's board decides, others ask it to.
  void announce_failure() {
    if (announced) return;
    std::optional<Failure> failure = rank == 0 ? board.failure() : std::nullopt;
    if (rank != 0) {
      const std::lock_guard lock(mutex);
      failure = asked;
    }
    if (!failure) return;
    announced = true;
    for (Link& link : links) {
      if (!link.socket.open()) continue;
      append(link.out, failure_frame(*failure));
      append(link.out, reason_of(*failure));
    }
  }

  void flush(std::size_t other) {
    Link& link = links[other];
    if (!link.socket.open() || link.out.empty()) return;
    const Moved moved = write_some(link.socket, link.out);
    link.out.erase(link.out.begin(), link.out.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
  }

  void read(std::size_t other) {
    Link& link = links[other];
    if (!link.socket.open()) return;
    std::array<std::byte, 4096> part;
    while (true) {
      const Moved moved = read_some(link.socket, part);
      link.in.insert(link.in.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
      if (moved.bytes > 0) link.heard = Clock::now();
      if (moved.closed) {
        take_frames(other);
        link.socket = Socket();
        hub_open = hub_open && other != 0;
        if (!board[other].left && !board[rank].left) lose(other, " is gone: its connections have closed");
        return;
      }
      if (moved.bytes == 0) break;
    }
    take_frames(other);
  }

  void take_frames(std::size_t from) {
    std::vector<std::byte>& in = links[from].in;
    std::size_t begin = 0;
    while (const auto news = next_news(std::span(in).subspan(begin))) {
      begin += news->bytes;
      take(*news);
    }
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  void take(const News& news) {
    const Frame& frame = news.frame;
    if (frame.kind == Frame::failure) {
      board.fail({frame.rank, text_of(frame.task), text_of(news.reason)});
    } else if (frame.rank < links.size() && frame.rank != rank) {
      show(frame, board[frame.rank]);
    }
  }

  void lose(std::size_t other, const std::string& how) { board.fail(fault_of(board, other, how)); }

  void look_for_silence(Clock::time_point now) {
    for (std::size_t other = 0; other < links.size(); ++other) {
      const Link& link = links[other];
      if (!link.socket.open() || board[other].left || now < link.heard + options.timeout) continue;
      lose(other, concat(" does not answer: ", rank_text(board, rank), " has heard nothing of it for ",
                         static_cast<double>(options.timeout.count()) / 1e3, " s"));
    }
  }

  [[nodiscard]] bool may_stop(Clock::time_point now) const {
    if (now >= stop_at) return true;
    const auto failure = board.failure();
    return std::all_of(links.begin(), links.end(), [&](const Link& link) {
      const auto other = static_cast<std::size_t>(&link - links.data());
      return !link.socket.open() || (link.out.empty() && rank != 0) || (failure && failure->rank == other);
    });
  }

  TransportOptions options;
  std::size_t rank;
  Clock::duration beat;
  std::vector<std::uint64_t> memory;
  Board board;
  std::vector<Link> links;
  Bell bell;
  std::mutex mutex;
  std::optional<Failure> asked;  ///< of this rank; under the mutex
  std::atomic<bool> stopping = false, hub_open = true;
  Clock::time_point stop_at;  ///< set before `stopping`
  bool announced = false, woken = false, told_last = false;
  std::thread thread;
};

Control::Control(std::vector<Socket> star, std::size_t rank, const TransportOptions& options)
    : state_(std::make_unique<State>(std::move(star), rank, options)) {}

Control::~Control() {
  if (!state_->thread.joinable()) return;
  state_->stop_at = Clock::now() + state_->options.grace;
  state_->stopping = true;
  state_->bell.ring();
  state_->thread.join();
}

const Board& Control::board() const { return state_->board; }

void Control::fail(const Failure& failure) {
  State& self = *state_;
  if (self.rank != 0 && self.hub_open) {
    {
      const std::lock_guard lock(self.mutex);
      if (!self.asked) self.asked = failure;
    }
    self.bell.ring();
    const auto end = Clock::now() + self.options.grace;
    while (!self.board.failed() && self.hub_open && Clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
  }
  self.board.fail(failure);
  while (!self.board.failed()) std::this_thread::yield();  // another thread is writing it
  self.bell.ring();
}

void Control::leave() {
  state_->board[state_->rank].left = true;
  state_->bell.ring();
}

}  // namespace slimpack::kernels
