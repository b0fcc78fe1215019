#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/transport/board.hpp"
#include "kernels/transport/failures.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// Checks options. @throws InvalidInput for a timeout below 1 ms or a negative grace.
void require_valid(const TransportOptions& options);

/// Whether a rank on this machine is dead; false for others.
bool process_is_gone(const RankStatus& status);

/// Accompanies one wait of a rank: shows on the board that it waits, and finds out who is at fault when it
/// takes too long. That is often not the peer, which may itself be waiting for a third rank: the watch
/// follows who waits for whom to the rank that waits for no other, or that stands still in its wait. Ranks
/// whose entries on the board stay empty (on other machines) count as waiting for no other.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  Watch(const Board& board, const Transfer& transfer, const TransportOptions& options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// To be called at least every `interval()` while waiting. @returns what is wrong, if something is: the
  /// peer's process is gone, or the time is up.
  std::optional<Failure> look();

  /// How long one may sleep between two looks: a sixteenth of the timeout, at most 50 ms.
  [[nodiscard]] Clock::duration interval() const { return interval_; }

  /// The peer has ended, and its message will never come.
  [[nodiscard]] Failure peer_has_left() const;

 private:
  [[nodiscard]] Failure timed_out() const;
  [[nodiscard]] bool stands_still(std::size_t rank) const;
  [[nodiscard]] std::string waiting_text() const;

  const Board& board_;
  Transfer transfer_;
  TransportOptions options_;
  Clock::time_point begin_, next_look_;
  Clock::duration interval_;
  std::vector<std::uint32_t> looked_;  // by rank, at three quarters of the timeout
};

}  // namespace slimpack::kernels
