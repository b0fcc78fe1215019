#include "kernels/transport/tcp.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "kernels/transport/backoff.hpp"
#include "kernels/transport/connections_private.hpp"
#include "kernels/transport/control_private.hpp"
#include "kernels/transport/failures.hpp"
#include "kernels/transport/process_rank_private.hpp"
#include "kernels/transport/rendezvous_private.hpp"
#include "kernels/transport/watch.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

struct TcpTransport::State {
  using Clock = std::chrono::steady_clock;
  using Unfinished = Connections::Unfinished;

  State(const Launch& launch, Meeting meeting, const TcpOptions& chosen)
      : options(chosen),
        rank(launch.rank),
        members(std::move(meeting.members)),
        connections(std::move(meeting.data),
                    [this](const Unfinished& receive, std::size_t sent) { refuse(receive, sent); }),
        control(std::move(meeting.control), launch.rank, chosen),
        board(control.board()) {}

  [[noreturn]] void fail(const Failure& failure) {
    control.fail(failure);
    throw error_of(*board.failure());
  }

  [[noreturn]] void refuse(const Unfinished& receive, std::size_t sent) {
    fail(wrong_size(board, {rank, receive.peer, false, receive.tag}, std::to_string(sent),
                    receive.bytes.size()));
  }

  /// What is wrong when a peer has closed its connection: rank 0 knows better, so it is given time to say it.
  [[nodiscard]] std::optional<Failure> loss_of(std::size_t other, const Watch& watch) const {
    const auto closed = connections.closed(other);
    if (!closed) return std::nullopt;
    if (board[other].left) return watch.peer_has_left();
    if (Clock::now() < *closed + options.grace) return std::nullopt;
    return fault_of(board, other,
                    concat(" is gone: its connection with ", rank_text(board, rank), " has closed"));
  }

  void wait(const Request& request) {
    const Unfinished transfer = connections.transfers().at(request);
    const auto done = [&] { return connections.transfers().at(request).done; };
    QuickLooks looks;
    do {
      connections.progress();
      if (done()) return;
    } while (looks.pause());
    Watch watch(board, {rank, transfer.peer, transfer.sends, transfer.tag}, options);
    const auto interval = std::min<Clock::duration>(watch.interval(), std::chrono::milliseconds(10));
    while (true) {
      auto failure = watch.look();
      throw_if_failed(board);
      connections.progress(interval);
      if (done()) return;
      if (!failure) failure = loss_of(transfer.peer, watch);
      if (failure) fail(*failure);
    }
  }

  TcpOptions options;
  std::size_t rank;
  std::vector<Member> members;
  Connections connections;
  Control control;
  const Board& board;
};

TcpTransport::TcpTransport(const Launch& launch, const TcpOptions& options) {
  require_valid(options);
  asio::io_context until_all_have_met;
  state_ = std::make_unique<State>(launch, meet(until_all_have_met, launch, options.start_timeout), options);
}

TcpTransport::~TcpTransport() = default;

std::size_t TcpTransport::rank() const { return state_->rank; }

std::size_t TcpTransport::size() const { return state_->connections.size(); }

const std::vector<Member>& TcpTransport::members() const { return state_->members; }

Request TcpTransport::isend(std::size_t to, Tag tag, std::span<const std::byte> bytes) {
  State& self = *state_;
  require_rank(to, size());
  throw_if_failed(self.board);
  if (to != self.rank) return self.connections.send(to, tag, bytes);
  self.connections.keep(to, tag, {bytes.begin(), bytes.end()});
  return {};
}

Request TcpTransport::irecv(std::size_t from, Tag tag, std::span<std::byte> bytes) {
  require_rank(from, size());
  throw_if_failed(state_->board);
  return state_->connections.receive(from, tag, bytes);
}

bool TcpTransport::test(Request& request) {
  if (request.generation == 0) return true;
  Connections& connections = state_->connections;
  const Connections::Unfinished& transfer = connections.transfers().at(request);
  throw_if_failed(state_->board);
  if (!transfer.done) connections.progress();
  if (!transfer.done) return false;
  connections.transfers().remove(request);
  return true;
}

void TcpTransport::wait(Request& request) {
  if (test(request)) return;
  state_->wait(request);
  state_->connections.transfers().remove(request);
}

void TcpTransport::set_task(std::string_view text) {
  throw_if_failed(state_->board);
  state_->board[state_->rank].task.write(text);
}

void TcpTransport::check() { throw_if_failed(state_->board); }

void TcpTransport::abort(std::string_view reason) {
  state_->fail(own_failure(state_->board, rank(), reason));
}

bool TcpTransport::fail(std::string_view reason) {
  if (state_->board.failed()) return false;
  const Failure own = own_failure(state_->board, rank(), reason);
  state_->control.fail(own);
  return state_->board.failure() == own;
}

void TcpTransport::close() {
  meet_at_end(*this, state_->connections.transfers().used());
  state_->control.leave();
}

int run_tcp(const std::function<void(TcpTransport&)>& body, const Launch& launch, const TcpOptions& options) {
  const auto finish = [] {};
  return run_process(launch.rank, body, finish, launch, options);
}

}  // namespace slimpack::kernels
