#include "kernels/transport/failures.hpp"

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

std::string rank_text(const Board& board, std::size_t rank) {
  const std::string task = board[rank].task.read();
  return task.empty() ? concat("rank ", rank) : concat("rank ", rank, " (", task, ")");
}

std::string tag_text(Tag tag) {
  return tag < first_collective_tag ? concat("message ", tag) : "a collective's message";
}

std::string seconds_text(std::chrono::nanoseconds time) {
  return concat(static_cast<double>(time / std::chrono::milliseconds(1)) / 1e3, " s");
}

Failure fault_of(const Board& board, std::size_t rank, std::string_view what) {
  return {rank, board[rank].task.read(), concat(rank_text(board, rank), what)};
}

Failure own_failure(const Board& board, std::size_t rank, std::string_view reason) {
  return fault_of(board, rank, concat(" failed: ", reason));
}

Failure wrong_size(const Board& board, const Transfer& receive, std::string_view sent, std::size_t expected) {
  return fault_of(board, receive.peer,
                  concat(" has sent ", sent, " bytes as ", tag_text(receive.tag), "; expected ", expected,
                         " by ", rank_text(board, receive.rank)));
}

void throw_if_failed(const Board& board) {
  if (board.failed()) throw error_of(*board.failure());
}

void require_rank(std::size_t rank, std::size_t ranks) {
  require(rank < ranks, "there is no rank ", rank, "; expected one below ", ranks);
}

}  // namespace slimpack::kernels
