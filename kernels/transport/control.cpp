#include "kernels/transport/control.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "kernels/transport/watch.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What travels on the star: a rank's status; or, followed by a reason, the failure that it is at fault for.
struct Frame {
  static constexpr std::uint32_t status = 1, failure = 2;

  std::uint32_t kind = status;
  std::uint32_t rank = 0;
  std::int32_t waits_for = RankStatus::nobody;
  std::uint32_t looked = 0;
  std::uint32_t left = 0;
  std::uint32_t reserved = 0;
  std::array<char, 64> task{};
};
using Reason = std::array<char, 1024>;

std::size_t size_of(std::uint32_t kind) {
  return kind == Frame::failure ? sizeof(Frame) + sizeof(Reason) : sizeof(Frame);
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return {from.data(), static_cast<std::size_t>(std::find(from.begin(), from.end(), '\0') - from.begin())};
}

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Wakes a thread that polls.
class Bell {
 public:
  Bell() {
    if (pipe(ends_.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    for (const int end : ends_) {
      fcntl(end, F_SETFL, O_NONBLOCK);
      fcntl(end, F_SETFD, FD_CLOEXEC);
    }
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() {
    for (const int end : ends_) close(end);
  }

  [[nodiscard]] int get() const { return ends_[0]; }
  void ring() const {
    const char any = 0;
    [[maybe_unused]] const ssize_t full_is_fine = write(ends_[1], &any, 1);
  }
  void silence() const {
    char any[64];
    while (read(ends_[0], any, sizeof any) > 0) continue;
  }

 private:
  std::array<int, 2> ends_{};
};

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

  [[nodiscard]] Frame status_of(std::size_t other) const {
    const RankStatus& shown = board[other];
    Frame frame;
    frame.rank = static_cast<std::uint32_t>(other);
    frame.waits_for = shown.waits_for;
    frame.looked = shown.looked;
    frame.left = shown.left ? 1 : 0;
    shown.task.read().copy(frame.task.data(), frame.task.size() - 1);
    return frame;
  }

  /// Queues what this rank knows for those who don't. Who does not take what was queued before, gets no more.
  void tell() {
    for (std::size_t other = 0; other < links.size(); ++other) {
      Link& link = links[other];
      if (!link.socket.open() || (!link.out.empty() && !stopping)) continue;
      for (std::size_t about = 0; about < links.size(); ++about) {
        const bool news = about == rank || (rank == 0 && about != other);
        if (news) append(link.out, status_of(about));
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
    Frame frame;
    frame.kind = Frame::failure;
    frame.rank = static_cast<std::uint32_t>(failure->rank);
    failure->task.copy(frame.task.data(), frame.task.size() - 1);
    Reason reason{};
    failure->reason.copy(reason.data(), reason.size() - 1);
    for (Link& link : links) {
      if (!link.socket.open()) continue;
      append(link.out, frame);
      append(link.out, reason);
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
    Frame frame;
    while (in.size() - begin >= sizeof frame) {
      std::memcpy(&frame, in.data() + begin, sizeof frame);
      const std::size_t size = size_of(frame.kind);
      if (in.size() - begin < size) break;
      Reason reason{};
      if (frame.kind == Frame::failure)
        std::memcpy(reason.data(), in.data() + begin + sizeof frame, sizeof reason);
      begin += size;
      take(frame, reason);
    }
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  void take(const Frame& frame, const Reason& reason) {
    if (frame.kind == Frame::failure) {
      board.fail({frame.rank, text_of(frame.task), text_of(reason)});
      return;
    }
    if (frame.rank >= links.size() || frame.rank == rank) return;
    RankStatus& shown = board[frame.rank];
    shown.task.write(text_of(frame.task));
    shown.waits_for = frame.waits_for;
    shown.looked = frame.looked;
    shown.left = frame.left != 0;
    shown.here = true;
  }

  void lose(std::size_t other, const std::string& how) {
    board.fail({other, board[other].task.read(), concat(rank_text(board, other), how)});
  }

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
