#pragma once

#include <cstddef>
#include <memory>

#include "kernels/transport/asio_private.hpp"
#include "kernels/transport/board.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// Synchronises the boards of ranks that share no memory, over the star of a `Meeting`, in a thread of its
/// own. Each rank tells rank 0 what it does, and rank 0 tells all, every sixteenth of the timeout (at most
/// 0.25 s apart up to 64 ranks, then 4 ms per rank: it sends 76 ranks² + 1096 ranks bytes each time). A rank whose
/// connection closes, or of which nothing is heard for as long as the timeout, ends the run. Rank 0 decides
/// which failure was the first, so all say the same.
class Control {
 public:
  /// @param star as `Meeting::control`.
  Control(Sockets star, std::size_t rank, const TransportOptions& options);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  /// Sends what there is to send. Rank 0 stays until all others have gone, at most `grace`.
  ~Control();

  /// Of all ranks. Only this rank's own entry may be written.
  [[nodiscard]] const Board& board() const;

  /// Ends the run of all ranks. On return, which takes at most `grace`, the board shows what has ended it.
  void fail(const Failure& failure);

  /// Shows the others that this rank has ended well: from now on it may go.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slimpack::kernels
