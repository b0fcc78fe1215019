#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/transport/board.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// A rank's unfinished transfer, for messages.
struct Transfer {
  std::size_t rank = 0, peer = 0;
  bool sends = false;
  Tag tag = 0;
};

/// `rank 2 (F3)`: a rank and the task that it last showed.
std::string rank_text(const Board& board, std::size_t rank);

/// `message 7` or `a collective's message`.
std::string tag_text(Tag tag);

/// `1.5 s`, in whole milliseconds.
std::string seconds_text(std::chrono::nanoseconds time);

/// A rank's fault: its `rank_text`, followed by what is wrong, which begins with a space.
Failure fault_of(const Board& board, std::size_t rank, std::string_view what);

/// The end of a rank by what happened to it alone.
Failure own_failure(const Board& board, std::size_t rank, std::string_view reason);

/// A message came that is not as large as its receive. @param sent its bytes: `7`, or `more than 7`.
Failure wrong_size(const Board& board, const Transfer& receive, std::string_view sent, std::size_t expected);

inline TransportError error_of(const Failure& failure) {
  return {failure.rank, failure.task, failure.reason};
}

/// @throws TransportError if the run has failed, the same on all ranks.
void throw_if_failed(const Board& board);

/// @throws InvalidInput if there is no such rank.
void require_rank(std::size_t rank, std::size_t ranks);

}  // namespace slimpack::kernels
