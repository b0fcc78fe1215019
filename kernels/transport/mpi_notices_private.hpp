#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/transport/backoff.hpp"
#include "kernels/transport/board.hpp"
#include "kernels/transport/mpi_private.hpp"
#include "kernels/transport/wire_private.hpp"

namespace slimpack::kernels {

/// How ranks tell each other by messages that the run has failed: not all of them share a board.
class Notices {
 public:
  Notices(std::size_t rank, std::size_t ranks) : rank_(rank), told_(ranks) {
    told_[rank] = true;
    expect();
  }
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// Whether a rank has said that the run has failed; to itself it has.
  [[nodiscard]] bool told(std::size_t rank) const { return told_[rank]; }

  /// Takes in what other ranks say about the end of the run.
  void read(const Board& board) {
    int arrived = 1;
    while (true) {
      MPI_Status status{};
      if (MPI_Test(&request_, &arrived, &status) != MPI_SUCCESS || arrived == 0) return;
      told_[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
      board.fail(
          {static_cast<std::size_t>(incoming_.rank), text_of(incoming_.task), text_of(incoming_.reason)});
      expect();
    }
  }

  /// Tells all others of a failure, and reads what they say, until `done` is true or the time is up. Afterwards there may
  /// be no more MPI calls.
  template <class Done>
  void spread(const Failure& failure, const Board& board, std::chrono::milliseconds most, Done&& done) {
    Notice outgoing{.rank = static_cast<std::int32_t>(failure.rank), .task = {}, .reason = {}};
    put_text(outgoing.task, failure.task);
    put_text(outgoing.reason, failure.reason);
    std::vector<MPI_Request> sends(told_.size(), MPI_REQUEST_NULL);
    for (std::size_t other = 0; other < sends.size(); ++other) {
      if (other == rank_) continue;
      MPI_Isend(&outgoing, sizeof outgoing, MPI_BYTE, static_cast<int>(other), 0, ranks_.get(),
                &sends[other]);
    }
    const auto end = std::chrono::steady_clock::now() + most;
    Backoff backoff;
    do {
      for (MPI_Request& send : sends) {
        int gone = 0;
        MPI_Test(&send, &gone, MPI_STATUS_IGNORE);
      }
      read(board);
      backoff.pause();
    } while (!done() && std::chrono::steady_clock::now() < end);
  }

  /// The end of a run that went well.
  void close() {
    check_call(MPI_Cancel(&request_), "MPI_Cancel");
    check_call(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait");
    ranks_.free();
  }

 private:
  /// A failure as it travels.
  struct Notice {
    std::int32_t rank = 0;
    std::array<char, 64> task{};
    std::array<char, 1024> reason{};
  };

  void expect() {
    check_call(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, 0, ranks_.get(), &request_),
               "MPI_Irecv");
  }

  std::size_t rank_;
  std::vector<bool> told_;
  Communicator ranks_;
  Notice incoming_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace slimpack::kernels
