#include "kernels/transport/mpi.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/backoff.hpp"
#include "kernels/transport/failures.hpp"
#include "kernels/transport/mpi_notices_private.hpp"
#include "kernels/transport/mpi_private.hpp"
#include "kernels/transport/process_rank_private.hpp"
#include "kernels/transport/slots.hpp"
#include "kernels/transport/watch.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

using Clock = std::chrono::steady_clock;

int error_class(int code) {
  int result = MPI_SUCCESS;
  MPI_Error_class(code, &result);
  return result;
}

struct Unfinished {
  MPI_Request request = MPI_REQUEST_NULL;
  bool sends = false;
  std::size_t peer = 0;
  Tag tag = 0;
  std::size_t size = 0;
};

std::size_t world_rank() {
  int rank = 0;
  check_call(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return static_cast<std::size_t>(rank);
}

std::size_t world_size() {
  int size = 0;
  check_call(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return static_cast<std::size_t>(size);
}

Tag largest_tag() {
  int* limit = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found);
  return found != 0 ? static_cast<Tag>(*limit) : 32767;
}

}  // namespace

struct MpiTransport::State {
  explicit State(const MpiOptions& chosen)
      : options(chosen),
        rank(world_rank()),
        ranks(world_size()),
        tag_limit(largest_tag()),
        notices(rank, ranks),
        machine(messages.get(), rank, ranks, chosen.shared_memory),
        board(machine.get()) {
    board[rank].here = true;
  }

  /// Throws if the run has failed. Without an MPI call if this rank knows already.
  void throw_if_failed() {
    if (failed) throw error_of(*failed);
    if (board.failed()) fail(*board.failure());
  }

  void poll() {
    throw_if_failed();
    notices.read(board);
    throw_if_failed();
  }

  /// Whether all other ranks know that the run has failed, or won't: the one at fault may be dead, and gets half of
  /// `grace`.
  [[nodiscard]] bool all_told(Clock::time_point since) const {
    const bool late = Clock::now() >= since + options.grace / 2;
    for (std::size_t other = 0; other < ranks; ++other) {
      const bool silent = other == failed->rank && (late || process_is_gone(board[other]));
      if (!silent && !notices.told(other) && !board[other].told) return false;
    }
    return true;
  }

  /// Ends the run: tells all others, waits until they know, and throws. Called only where the bytes of unfinished
  /// transfers still exist; afterwards there are no more MPI calls.
  [[noreturn]] void fail(const Failure& failure) {
    board.fail(failure);
    failed = board.failure().value_or(failure);
    board[rank].told = true;
    notices.spread(*failed, board, options.grace, [&, now = Clock::now()] { return all_told(now); });
    throw error_of(*failed);
  }

  /// Gives other ranks time to say what they were told, up to `grace`: as soon as one process ends, mpirun ends all.
  void leave_last() {
    board[rank].left = true;
    const auto speaks = [&](std::size_t other) {
      return board[other].here ? board[other].told && !board[other].left
                               : notices.told(other) && other != rank;
    };
    const auto now = Clock::now();
    Backoff backoff;
    for (std::size_t other = 0; other < ranks; ++other) {
      const auto end = now + (board[other].here ? options.grace : options.grace / 4);
      while (speaks(other) && Clock::now() < end) backoff.pause();
    }
  }

  void require_valid_transfer(std::size_t peer, Tag tag) const {
    require_rank(peer, ranks);
    require(tag <= tag_limit || tag >= first_collective_tag, "tag ", tag,
            " is too large for MPI; expected at most ", tag_limit);
  }

  [[nodiscard]] MPI_Comm communicator(Tag tag) const {
    return tag < first_collective_tag ? messages.get() : collectives.get();
  }

  static int mpi_tag(Tag tag) {
    return static_cast<int>(tag < first_collective_tag ? tag : tag - first_collective_tag);
  }

  Request started(int code, const char* call, const Unfinished& transfer) {
    if (code != MPI_SUCCESS) fail(own_failure(board, rank, concat(call, ": ", mpi_text(code))));
    return slots.add(transfer);
  }

  [[noreturn]] void refuse(const Unfinished& receive, const std::string& sent) {
    fail(wrong_size(board, {rank, receive.peer, false, receive.tag}, sent, receive.size));
  }

  /// Whether a transfer is complete.
  bool complete(Unfinished& transfer) {
    int done = 0;
    MPI_Status status{};
    const int code = MPI_Test(&transfer.request, &done, &status);
    if (code != MPI_SUCCESS) {
      if (error_class(code) == MPI_ERR_TRUNCATE) refuse(transfer, concat("more than ", transfer.size));
      fail(fault_of(board, transfer.peer,
                    concat(" can't be reached by ", rank_text(board, rank), " for ", tag_text(transfer.tag),
                           ": ", mpi_text(code))));
    }
    if (done == 0) return false;
    if (transfer.sends) return true;
    MPI_Count size = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &size);
    if (static_cast<std::size_t>(size) != transfer.size) refuse(transfer, std::to_string(size));
    return true;
  }

  void wait(Unfinished& transfer) {
    Watch watch(board, {rank, transfer.peer, transfer.sends, transfer.tag}, options);
    Backoff backoff;
    while (true) {
      const auto failure = watch.look();
      poll();
      for (int tries = failure ? 100 : 1; tries > 0;
           --tries) {  // what a dead rank has sent may be on its way
        if (complete(transfer)) return;
      }
      if (failure) fail(*failure);
      backoff.pause();
    }
  }

  MpiOptions options;
  std::size_t rank, ranks;
  Tag tag_limit;
  Communicator messages, collectives;
  Notices notices;
  MachineBoard machine;
  const Board& board;
  Slots<Unfinished> slots;
  std::optional<Failure> failed;
};

MpiTransport::MpiTransport(const MpiOptions& options) {
  require_valid(options);
  require(options.largest_count > 0 && options.largest_count <= INT_MAX, "largest count is ",
          options.largest_count, "; expected 1 to ", INT_MAX);
  state_ = std::make_unique<State>(options);
}

MpiTransport::~MpiTransport() {
  if (state_->failed) state_->leave_last();
}

std::size_t MpiTransport::rank() const { return state_->rank; }

std::size_t MpiTransport::size() const { return state_->ranks; }

Request MpiTransport::isend(std::size_t to, Tag tag, std::span<const std::byte> bytes) {
  State& self = *state_;
  self.require_valid_transfer(to, tag);
  self.throw_if_failed();
  const MessageType type(bytes.size(), self.options.largest_count);
  Unfinished transfer{.sends = true, .peer = to, .tag = tag, .size = bytes.size()};
  const int code = MPI_Isend(bytes.data(), type.count(), type.get(), static_cast<int>(to),
                             State::mpi_tag(tag), self.communicator(tag), &transfer.request);
  return self.started(code, "MPI_Isend", transfer);
}

Request MpiTransport::irecv(std::size_t from, Tag tag, std::span<std::byte> bytes) {
  State& self = *state_;
  self.require_valid_transfer(from, tag);
  self.throw_if_failed();
  const MessageType type(bytes.size(), self.options.largest_count);
  Unfinished transfer{.sends = false, .peer = from, .tag = tag, .size = bytes.size()};
  const int code = MPI_Irecv(bytes.data(), type.count(), type.get(), static_cast<int>(from),
                             State::mpi_tag(tag), self.communicator(tag), &transfer.request);
  return self.started(code, "MPI_Irecv", transfer);
}

bool MpiTransport::test(Request& request) {
  if (request.generation == 0) return true;
  Unfinished& transfer = state_->slots.at(request);
  state_->throw_if_failed();
  if (!state_->complete(transfer)) {
    state_->poll();
    return false;
  }
  state_->slots.remove(request);
  return true;
}

void MpiTransport::wait(Request& request) {
  if (test(request)) return;
  state_->wait(state_->slots.at(request));
  state_->slots.remove(request);
}

void MpiTransport::set_task(std::string_view text) {
  state_->poll();
  state_->board[state_->rank].task.write(text);
}

void MpiTransport::check() { state_->poll(); }

void MpiTransport::abort(std::string_view reason) {
  state_->fail(own_failure(state_->board, rank(), reason));
}

bool MpiTransport::fail(std::string_view reason) {
  State& self = *state_;
  if (self.failed) return false;
  const Failure own = own_failure(self.board, self.rank, reason);
  const bool first = self.board.fail(own);
  self.failed = self.board.failure().value_or(own);
  self.board[self.rank].told = true;
  const auto now = Clock::now();
  Backoff backoff;
  while (!self.all_told(now) && Clock::now() < now + self.options.grace) backoff.pause();
  return first;
}

void MpiTransport::close() {
  State& self = *state_;
  meet_at_end(*this, self.slots.used());
  self.board[self.rank].left = true;
  self.notices.close();
  self.machine.free();
  self.messages.free();
  self.collectives.free();
}

int run_mpi(const std::function<void(MpiTransport&)>& body, const MpiOptions& options) {
  int provided = 0;
  check_call(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  const auto finish = [] { check_call(MPI_Finalize(), "MPI_Finalize"); };
  return run_process(world_rank(), body, finish, options);
}

}  // namespace slimpack::kernels
