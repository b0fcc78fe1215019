#include "kernels/transport/watch.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

bool process_is_gone(const RankStatus& status) {
  const auto process = static_cast<pid_t>(status.process.load(std::memory_order_relaxed));
  return process != 0 && kill(process, 0) != 0 && errno == ESRCH;
}

void require_valid(const TransportOptions& options) {
  require(options.timeout.count() >= 1, "timeout is ", options.timeout.count(),
          " ms; expected at least 1 ms");
  require(options.grace.count() >= 0, "grace is ", options.grace.count(), " ms; expected at least 0 ms");
}

Watch::Watch(const Board& board, const Transfer& transfer, const TransportOptions& options)
    : board_(board),
      transfer_(transfer),
      options_(options),
      begin_(Clock::now()),
      next_look_(begin_),
      interval_(std::min<Clock::duration>(options.timeout / 16, std::chrono::milliseconds(50))) {
  board_[transfer_.rank].waits_for = static_cast<std::int32_t>(transfer_.peer);
}

Watch::~Watch() { board_[transfer_.rank].waits_for = RankStatus::nobody; }

std::optional<Failure> Watch::look() {
  const auto now = Clock::now();
  if (now < next_look_) return std::nullopt;
  next_look_ = now + interval_ / 2;
  board_[transfer_.rank].looked.fetch_add(1, std::memory_order_relaxed);
  if (process_is_gone(board_[transfer_.peer])) {
    return fault_of(board_, transfer_.peer, concat(" is gone, its process has ended: ", waiting_text()));
  }
  if (looked_.empty() && now >= begin_ + options_.timeout / 4 * 3) {
    for (std::size_t rank = 0; rank < board_.size(); ++rank) looked_.push_back(board_[rank].looked);
  }
  if (now >= begin_ + options_.timeout) return timed_out();
  return std::nullopt;
}

Failure Watch::peer_has_left() const {
  return fault_of(board_, transfer_.peer, concat(" has ended: ", waiting_text()));
}

bool Watch::stands_still(std::size_t rank) const {
  return !looked_.empty() && board_[rank].looked == looked_[rank];
}

std::string Watch::waiting_text() const {
  return concat(rank_text(board_, transfer_.rank), " has waited ", seconds_text(Clock::now() - begin_),
                " for rank ", transfer_.peer, transfer_.sends ? " to receive " : " to send ",
                tag_text(transfer_.tag));
}

Failure Watch::timed_out() const {
  std::string chain = waiting_text();
  std::vector<bool> seen(board_.size());
  seen[transfer_.rank] = true;
  std::size_t rank = transfer_.peer;
  while (!seen[rank]) {
    const std::int32_t next = board_[rank].waits_for;
    if (next == RankStatus::nobody || stands_still(rank)) break;
    chain += concat(", ", rank_text(board_, rank), " for rank ", next);
    seen[rank] = true;
    rank = static_cast<std::size_t>(next);
  }
  const char* fault = seen[rank]          ? " waits in a circle: "
                      : board_[rank].left ? " has ended: "
                                          : " does not answer: ";
  return fault_of(board_, rank, concat(fault, chain));
}

}  // namespace slimpack::kernels
