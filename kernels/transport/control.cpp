#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/transport/control_private.hpp"
#include "kernels/transport/failures.hpp"
#include "kernels/transport/wire_private.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What begins each message: why rank 0 says that the run has ended, or another rank asks it to end it.
struct End {
  std::uint32_t asked = 0, rank = 0;
  std::array<char, 64> task{};
  std::array<char, 1024> reason{};
};

/// Follows: a rank's `RankStatus`. Of all ranks from rank 0, else of the sender.
struct Status {
  std::int32_t waits_for = RankStatus::nobody;
  std::uint32_t looked = 0, left = 0;
  std::array<char, 64> task{};
};

struct Message {
  End end;
  std::vector<Status> statuses;

  [[nodiscard]] auto buffers() {
    return std::array<asio::mutable_buffer, 2>{buffer_of(end), asio::buffer(statuses)};
  }
};

/// One ray of the star.
struct Link {
  explicit Link(tcp::socket way) : socket(std::move(way)) {}

  tcp::socket socket;
  Message in, out;
  bool writing = false;  ///< what is in `out`
  bool news = false;     ///< since then
  Clock::time_point heard = Clock::now();
};

Clock::duration beat_of(const TransportOptions& options, std::size_t ranks) {
  const auto most = std::max<milliseconds>(milliseconds(250), milliseconds(4) * ranks);
  return std::min<Clock::duration>(options.timeout / 16, most);
}

}  // namespace

/// What others than its thread may use is atomic; for the rest they post what is to be done.
struct Control::State {
  State(Sockets star, std::size_t own, const TransportOptions& chosen)
      : options(chosen),
        rank(own),
        beat(beat_of(chosen, star.size())),
        memory(Board::bytes(star.size()) / sizeof(std::uint64_t) + 1),
        board(memory.data(), star.size(), true) {
    board[rank].here = true;
    for (tcp::socket& socket : moved_to(io, std::move(star))) links.emplace_back(std::move(socket));
    if (links.size() == 1) return;
    for (std::size_t other = 0; other < links.size(); ++other) listen(other);
    keep_telling();
    thread = std::thread([this] { io.run(); });
  }

  /// Tells the others, and looks for those that are silent, again and again.
  void keep_telling() {
    tell();
    look_for_silence();
    next_beat.expires_after(beat);
    next_beat.async_wait([this](const error_code&) { keep_telling(); });
  }

  void tell() {
    for (Link& link : links) tell(link);
  }

  /// Sends what this rank knows; where that is under way, what it knows afterwards.
  void tell(Link& link) {
    link.news = link.writing;
    if (link.writing || !link.socket.is_open()) return;
    link.writing = true;
    link.out = message();
    asio::async_write(link.socket, link.out.buffers(), [this, &link](const error_code& error, std::size_t) {
      link.writing = false;
      if (!error && link.news) tell(link);
      stop_if_done();
    });
  }

  [[nodiscard]] Message message() const {
    Message message;
    if (const auto failure = rank == 0 ? board.failure() : asked) {
      message.end.asked = 1;
      message.end.rank = static_cast<std::uint32_t>(failure->rank);
      put_text(message.end.task, failure->task);
      put_text(message.end.reason, failure->reason);
    }
    for (std::size_t about = 0; about < links.size(); ++about) {
      if (rank != 0 && about != rank) continue;
      const RankStatus& shown = board[about];
      message.statuses.push_back({shown.waits_for, shown.looked, shown.left ? 1U : 0U, {}});
      put_text(message.statuses.back().task, shown.task.read());
    }
    return message;
  }

  void listen(std::size_t other) {
    Link& link = links[other];
    if (!link.socket.is_open()) return;
    link.in.statuses.resize(other == 0 ? links.size() : 1);
    asio::async_read(link.socket, link.in.buffers(), [this, other](const error_code& error, std::size_t) {
      if (error) return lose(other);
      take(other, links[other].in);
      listen(other);
    });
  }

  void take(std::size_t from, const Message& message) {
    links[from].heard = Clock::now();
    for (std::size_t i = 0; i < message.statuses.size(); ++i) {
      const std::size_t about = from == 0 ? i : from;
      const Status& status = message.statuses[i];
      if (about == rank) continue;
      RankStatus& shown = board[about];
      shown.task.write(text_of(status.task));
      shown.waits_for = status.waits_for;
      shown.looked = status.looked;
      shown.left = status.left != 0;
      shown.here = true;
    }
    const End& end = message.end;
    if (end.asked != 0) end_run({end.rank, text_of(end.task), text_of(end.reason)});
  }

  void lose(std::size_t other) {
    error_code ignored;
    links[other].socket.close(ignored);
    if (other == 0) hub_open = false;
    if (!board[other].left && !board[rank].left)
      end_run(fault_of(board, other, " is gone: its connections have closed"));
    stop_if_done();
  }

  /// Rank 0's word goes for all. Others have heard it, or decide for themselves if rank 0 is at fault.
  void end_run(const Failure& failure) {
    if (board.fail(failure) && rank == 0) tell();
  }

  void look_for_silence() {
    for (std::size_t other = 0; other < links.size(); ++other) {
      const Link& link = links[other];
      if (!link.socket.is_open() || board[other].left || Clock::now() < link.heard + options.timeout)
        continue;
      end_run(fault_of(board, other,
                       concat(" does not answer: ", rank_text(board, rank), " has heard nothing of it for ",
                              static_cast<double>(options.timeout.count()) / 1e3, " s")));
    }
  }

  void stop() {
    stopping = true;
    tell();
    last_moment.expires_after(options.grace);
    last_moment.async_wait([this](const error_code&) { io.stop(); });
    stop_if_done();
  }

  /// Rank 0 stays until all others have gone, but for one that has ended the run; others until all is sent.
  void stop_if_done() {
    if (!stopping) return;
    const auto failure = board.failure();
    for (std::size_t other = 0; other < links.size(); ++other) {
      const Link& link = links[other];
      const bool done =
          !link.socket.is_open() || (rank != 0 && !link.writing) || (failure && failure->rank == other);
      if (!done) return;
    }
    io.stop();
  }

  TransportOptions options;
  std::size_t rank;
  Clock::duration beat;
  std::vector<std::uint64_t> memory;
  Board board;
  std::atomic<bool> hub_open = true;
  asio::io_context io{1};
  asio::steady_timer next_beat{io}, last_moment{io};
  std::vector<Link> links;       ///< by rank
  std::optional<Failure> asked;  ///< what this rank wants the run to end for
  bool stopping = false;
  std::thread thread;
};

Control::Control(Sockets star, std::size_t rank, const TransportOptions& options)
    : state_(std::make_unique<State>(std::move(star), rank, options)) {}

Control::~Control() {
  State& self = *state_;
  if (!self.thread.joinable()) return;
  asio::post(self.io, [&self] { self.stop(); });
  self.thread.join();
}

const Board& Control::board() const { return state_->board; }

void Control::fail(const Failure& failure) {
  State& self = *state_;
  if (self.rank != 0 && self.hub_open) {
    asio::post(self.io, [&self, failure] {
      if (!self.asked) self.asked = failure;
      self.tell();
    });
    const auto end = Clock::now() + self.options.grace;
    while (!self.board.failed() && self.hub_open && Clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
  }
  self.board.fail(failure);
  while (!self.board.failed()) std::this_thread::yield();  // another thread is writing it
  asio::post(self.io, [&self] { self.tell(); });
}

void Control::leave() {
  state_->board[state_->rank].left = true;
  asio::post(state_->io, [self = state_.get()] { self->tell(); });
}

}  // namespace slimpack::kernels
