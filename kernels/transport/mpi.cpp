#include "kernels/transport/mpi.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/transport/collectives.hpp"
#include "kernels/transport/mpi_private.hpp"
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

/// Sleeps longer the longer one waits, and not at all at first.
class Backoff {
 public:
  void pause() {
    if (++pauses_ < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min<std::int64_t>(pauses_ / 20, 100)));
    }
  }

 private:
  std::int64_t pauses_ = 0;
};

/// How ranks tell each other that the run has failed.
struct Notice {
  std::int32_t rank = 0;
  char task[64] = {};
  char reason[1024] = {};

  Notice() = default;
  explicit Notice(const Failure& failure) : rank(static_cast<std::int32_t>(failure.rank)) {
    failure.task.copy(task, sizeof task - 1);
    failure.reason.copy(reason, sizeof reason - 1);
  }
  [[nodiscard]] Failure failure() const { return {static_cast<std::size_t>(rank), task, reason}; }
};

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
        machine(messages.get(), rank, ranks, chosen.shared_memory),
        board(machine.get()),
        told(ranks) {
    told[rank] = true;
    board[rank].here = true;
    expect_notice();
  }

  void expect_notice() {
    check_call(MPI_Irecv(&incoming, sizeof incoming, MPI_BYTE, MPI_ANY_SOURCE, 0, notices.get(), &notice),
               "MPI_Irecv");
  }

  /// Takes in what other ranks say about the end of the run.
  void read_notices() {
    int arrived = 1;
    while (true) {
      MPI_Status status{};
      if (MPI_Test(&notice, &arrived, &status) != MPI_SUCCESS || arrived == 0) return;
      told[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
      board.fail(incoming.failure());
      expect_notice();
    }
  }

  /// Throws if the run has failed. Without an MPI call if this rank knows already.
  void throw_if_failed() {
    if (failed) throw error_of(*failed);
    if (board.failed()) fail(*board.failure());
  }

  void poll() {
    throw_if_failed();
    read_notices();
    throw_if_failed();
  }

  /// Whether all other ranks, but one at fault that says nothing itself, know that the run has failed.
  [[nodiscard]] bool all_told() const {
    for (std::size_t other = 0; other < ranks; ++other) {
      if (!told[other] && !board[other].told && other != failed->rank) return false;
    }
    return true;
  }

  /// Ends the run: tells all others, waits until they know, and throws. Called only where the bytes of unfinished
  /// transfers still exist; afterwards there are no more MPI calls.
  [[noreturn]] void fail(const Failure& failure) {
    board.fail(failure);
    failed = board.failure().value_or(failure);
    board[rank].told = true;
    const Notice outgoing(*failed);
    std::vector<MPI_Request> sends(ranks, MPI_REQUEST_NULL);
    for (std::size_t other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      MPI_Isend(&outgoing, sizeof outgoing, MPI_BYTE, static_cast<int>(other), 0, notices.get(),
                &sends[other]);
    }
    const auto end = Clock::now() + options.grace;
    Backoff backoff;
    do {
      for (MPI_Request& send : sends) {
        int done = 0;
        MPI_Test(&send, &done, MPI_STATUS_IGNORE);
      }
      read_notices();
      backoff.pause();
    } while (!all_told() && Clock::now() < end);
    throw error_of(*failed);
  }

  /// Gives other ranks time to say what they were told, up to `grace`: as soon as one process ends, mpirun ends all.
  void leave_last() {
    board[rank].left = true;
    const auto speaks = [&](std::size_t other) {
      return board[other].here ? board[other].told && !board[other].left : told[other] && other != rank;
    };
    const auto now = Clock::now();
    Backoff backoff;
    for (std::size_t other = 0; other < ranks; ++other) {
      const auto end = now + (board[other].here ? options.grace : options.grace / 4);
      while (speaks(other) && Clock::now() < end) backoff.pause();
    }
  }

  [[nodiscard]] Failure own_failure(std::string_view reason) const {
    return {rank, board[rank].task.read(), concat(rank_text(board, rank), " failed: ", reason)};
  }

  void require_valid_transfer(std::size_t peer, Tag tag) const {
    require(peer < ranks, "there is no rank ", peer, "; expected one below ", ranks);
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
    if (code != MPI_SUCCESS) fail(own_failure(concat(call, ": ", mpi_text(code))));
    return slots.add(transfer);
  }

  [[noreturn]] void wrong_size(const Unfinished& transfer, std::string_view more, std::size_t size) {
    fail({transfer.peer, board[transfer.peer].task.read(),
          concat(rank_text(board, transfer.peer), " has sent ", more, size, " bytes as ",
                 tag_text(transfer.tag), "; expected ", transfer.size, " by ", rank_text(board, rank))});
  }

  /// Whether a transfer is complete.
  bool complete(Unfinished& transfer) {
    int done = 0;
    MPI_Status status{};
    const int code = MPI_Test(&transfer.request, &done, &status);
    if (code != MPI_SUCCESS) {
      if (error_class(code) == MPI_ERR_TRUNCATE) wrong_size(transfer, "more than ", transfer.size);
      fail({transfer.peer, board[transfer.peer].task.read(),
            concat(rank_text(board, transfer.peer), " can't be reached by ", rank_text(board, rank), " for ",
                   tag_text(transfer.tag), ": ", mpi_text(code))});
    }
    if (done == 0) return false;
    if (transfer.sends) return true;
    MPI_Count size = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &size);
    if (static_cast<std::size_t>(size) != transfer.size)
      wrong_size(transfer, "", static_cast<std::size_t>(size));
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
  Communicator messages, collectives, notices;
  MachineBoard machine;
  const Board& board;
  Slots<Unfinished> slots;
  Notice incoming;
  MPI_Request notice = MPI_REQUEST_NULL;
  std::vector<bool> told;  ///< ranks that have said that the run has failed
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

void MpiTransport::abort(std::string_view reason) { state_->fail(state_->own_failure(reason)); }

bool MpiTransport::fail(std::string_view reason) {
  State& self = *state_;
  if (self.failed) return false;
  const bool first = self.board.fail(self.own_failure(reason));
  self.failed = self.board.failure().value_or(self.own_failure(reason));
  self.board[self.rank].told = true;
  const auto end = Clock::now() + self.options.grace;
  Backoff backoff;
  while (!self.all_told() && Clock::now() < end) backoff.pause();
  return first;
}

void MpiTransport::close() {
  State& self = *state_;
  self.throw_if_failed();
  if (const std::size_t unfinished = self.slots.used(); unfinished > 0) {
    abort(concat("its run ends with ", unfinished, " transfers that were not waited for"));
  }
  self.board[self.rank].task.write("the end of the run");
  Group(*this).barrier();
  self.board[self.rank].left = true;
  check_call(MPI_Cancel(&self.notice), "MPI_Cancel");
  check_call(MPI_Wait(&self.notice, MPI_STATUS_IGNORE), "MPI_Wait");
  self.machine.free();
  self.messages.free();
  self.collectives.free();
  self.notices.free();
}

int run_mpi(const std::function<void(MpiTransport&)>& body, const MpiOptions& options) {
  int provided = 0;
  check_call(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  const std::string name = concat("rank ", world_rank(), ": ");
  std::optional<MpiTransport> transport;
  const auto failed = [&](const std::string& what) {
    std::cerr << name + what + "\n" << std::flush;
    if (transport) transport->fail(what);
    transport.reset();
    return 2;
  };
  try {
    transport.emplace(options);
    body(*transport);
    transport->close();
    transport.reset();
    check_call(MPI_Finalize(), "MPI_Finalize");
    return 0;
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("an exception of unknown type");
  }
}

}  // namespace slimpack::kernels
