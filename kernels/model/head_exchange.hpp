#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/math/matrix.hpp"
#include "kernels/model/pool.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Sends a part of `send` to each member of a merged task and receives one from each, the parts one after
/// another by member, this one's own included. All members call it equally often in the same order.
template <class Real>
using AllToAll = std::function<void(const StageTask& task, std::span<const Real> send,
                                    std::span<const std::size_t> send_sizes, std::span<Real> receive,
                                    std::span<const std::size_t> receive_sizes)>;

/// Changes what the members of a merged task have of its rows: some tokens with all heads, or all tokens with
/// some heads (Jacobs et al., DeepSpeed Ulysses). Members' shares of heads are equal and follow one another. One
/// matrix goes at a time, so that messages take no more memory than the largest.
template <class Real>
class HeadExchange {
 public:
  /// @param memory for messages; it has to outlive the exchange.
  explicit HeadExchange(BufferPool<Real>& memory) : memory_(memory) {}

  void set_all_to_all(AllToAll<Real> exchange) { exchange_ = std::move(exchange); }

  /// Finds which rows of a task's tokens each member holds.
  /// @param owners of the task's program. @throws InvalidInput if there is no all-to-all.
  void begin_task(const StageTask& task, const SampleOwners& owners);

  /// @param tokens [owned tokens x all heads' columns]
  /// @param heads [all tokens of the task x own heads' columns]; is set
  void to_heads(const StageTask& task, const MatrixView<const Real>& tokens, const MatrixView<Real>& heads);

  /// The way back. @param tokens as above; what comes is **added** to it.
  void to_tokens(const StageTask& task, const MatrixView<const Real>& heads, const MatrixView<Real>& tokens);

 private:
  /// Numbers that each member sends and receives, of `columns` for each row.
  void set_sizes(const StageTask& task, std::size_t columns, bool tokens_to_heads);

  BufferPool<Real>& memory_;
  AllToAll<Real> exchange_;
  std::vector<std::vector<std::size_t>> rows_;  ///< [member] rows of the task's tokens that it holds
  std::vector<std::size_t> send_sizes_, receive_sizes_;
};

}  // namespace slimpack::kernels
