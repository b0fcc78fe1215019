#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/math/gemm.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Sends a block to each tensor-parallel rank of a stage and receives one from each, this one's own included. All call it
/// equally often in the same order.
template <class Real>
using TensorExchange = std::function<void(std::span<const std::span<const Real>> send,
                                          std::span<const std::span<Real>> receive)>;

/// Changes what the tensor-parallel ranks of a stage have of a task's rows: each some, or each all (Megatron-LM's sequence
/// parallelism: an all-gather before a product of which each rank has some columns, a reduce-scatter after one of which each
/// has some rows). A rank alone has all, and nothing moves.
template <class Real>
class TensorRows {
 public:
  void set_exchange(TensorExchange<Real> exchange) { exchange_ = std::move(exchange); }

  /// Finds which rows of a task's owned tokens each rank holds. @throws InvalidInput if there is no exchange. O(tokens).
  void begin_task(const StageTask& task, const TensorShare& share);

  /// All ranks' rows. @param own [rows x any] @param message of as many rows as `whole`, overwritten.
  /// @param whole [owned tokens x any], set. @returns it, or `own` of a rank alone.
  MatrixView<const Real> gather(const MatrixView<const Real>& own, const MatrixView<Real>& message,
                                const MatrixView<Real>& whole);

  /// Sums of all ranks' terms in the ranks' order. @param whole [owned tokens x any], overwritten; has room for
  /// `size * rows` rows. @param own [rows x any], set or added to.
  void reduce(const MatrixView<Real>& whole, const MatrixView<Real>& message, const MatrixView<Real>& own,
              Update update);

  /// Every rank's numbers, by rank. @param all as many numbers for each rank.
  void share(std::span<const Real> own, std::span<Real> all);

 private:
  /// The consecutive parts of `numbers` that hold so many rows of each rank.
  template <class T>
  [[nodiscard]] std::vector<std::span<T>> blocks(T* numbers, std::size_t cols, bool own_of_each) const;

  TensorShare share_;
  TensorExchange<Real> exchange_;
  std::vector<std::vector<std::size_t>> rows_;  ///< [rank] of the owned tokens, ascending
};

}  // namespace slimpack::kernels
