#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/math/attention.hpp"
#include "kernels/model/head_exchange.hpp"
#include "kernels/model/key_values.hpp"
#include "kernels/model/stage_options.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Sends numbers to the next member of a merged task and receives the ones of the member before it, in a
/// circle (member i to member i + 1, the last to the first). All members call it equally often in the same
/// order.
template <class Real>
using RingShift =
    std::function<void(const StageTask& task, std::span<const Real> send, std::span<Real> receive)>;

/// Attention of a pack: slice by slice, over the keys and values that the stage has stored of the sample.
/// Merged packs need one operation between members, `RingShift` or `AllToAll`.
template <class Real>
class PackAttention {
 public:
  /// @param merged how members share the attention of packs for which the plan says nothing.
  /// @param ring_tokens most rows of each member whose keys and values go round at a time. @param memory for what comes
  /// round; store and memory have to outlive it. @throws InvalidInput if ring_tokens is 0.
  PackAttention(const HeadShape& shape, MergedAttention merged, std::size_t ring_tokens,
                KeyValueStore<Real>& store, BufferPool<Real>& memory)
      : shape_(shape),
        merged_(merged),
        ring_tokens_(ring_tokens),
        attention_(shape),
        width_(shape.kv_width()),
        store_(store),
        memory_(memory),
        exchange_(memory) {
    require(ring_tokens > 0, "ring_tokens is ", ring_tokens, "; expected a positive number");
  }

  void set_ring_shift(RingShift<Real> shift) { shift_ = std::move(shift); }
  void set_all_to_all(AllToAll<Real> exchange) { exchange_.set_all_to_all(std::move(exchange)); }

  /// @param owners of the step's program; they have to outlive the step.
  void begin_step(const SampleOwners& owners) { owners_ = &owners; }

  /// Stores a forward task's keys and values. @param k, v [owned tokens x kv_heads * head_dim]
  /// @throws InvalidInput if the task is merged and the operation between members is missing.
  void store(const StageTask& task, std::size_t layer, const MatrixView<const Real>& k,
             const MatrixView<const Real>& v);

  /// @param q [owned tokens x heads * head_dim] @param state of as many rows; its `out` becomes the output
  /// @param lse [owned tokens x heads] gets the log-sum-exp; it may be `state.maximum`
  /// @throws InvalidInput if the task is merged and the operation between members is missing.
  void forward(const StageTask& task, std::size_t layer, const MatrixView<const Real>& q,
               const AttentionState<Real>& state, const MatrixView<Real>& lse);

  /// **Adds** gradients to `dq` and to the stored gradients of keys and values, which have to be there.
  /// @throws InvalidInput if the task is merged and the operation between members is missing.
  void backward(const StageTask& task, std::size_t layer, const MatrixView<const Real>& q,
                const typename Attention<Real>::Saved& saved, const MatrixView<Real>& dq);

  /// Gradients of a backward task's keys and values, once `backward` has run.
  /// @param dk, dv [owned tokens x kv_heads * head_dim], zero before
  void gradients(const StageTask& task, std::size_t layer, const MatrixView<Real>& dk,
                 const MatrixView<Real>& dv);

 private:
  using PieceGradients = typename Attention<Real>::PieceGradients;

  /// Calls f(slice, first row, rows) for each slice, with `positions_` set to what the member holds of it.
  template <class F>
  void for_each_slice(const StageTask& task, F&& f);
  void set_ranges(const Slice& slice, std::size_t member, std::vector<Positions>& out) const;
  [[nodiscard]] bool by_heads(const StageTask& task) const {
    return task.merged() && merged_attention(task, merged_) == MergedAttention::heads;
  }
  /// Makes attention one of all heads, or of this member's.
  void set_heads(const StageTask& task) {
    const std::size_t shares = by_heads(task) ? task.members.size() : 1;
    attention_.set_shape({shape_.heads / shares, shape_.kv_heads / shares, shape_.head_dim});
  }
  void heads_forward(const StageTask& task, std::size_t layer, const MatrixView<const Real>& q,
                     const AttentionState<Real>& state, const MatrixView<Real>& lse);
  void heads_backward(const StageTask& task, std::size_t layer, const MatrixView<const Real>& q,
                      const typename Attention<Real>::Saved& saved, const MatrixView<Real>& dq);
  template <class F>
  void for_each_window(const Slice& slice, const StageTask& task, F&& f);
  [[nodiscard]] std::size_t own_rows(const Slice& slice, std::size_t first) const;
  std::size_t set_others(const Slice& slice, std::size_t first, std::size_t member);
  void copy_own(std::size_t from, std::size_t rows, Real* to) const;
  void add_own(std::size_t to, std::size_t rows, const Real* from) const;
  void ring_forward(const StageTask& task, const Slice& slice, const QueryRows<Real>& queries,
                    const AttentionState<Real>& state);
  void ring_backward(const StageTask& task, const Slice& slice, const QueryRows<Real>& queries,
                     const typename Attention<Real>::Saved& saved, const MatrixView<Real>& dq);
  [[nodiscard]] MatrixView<Real> part(Real* numbers, std::size_t index, std::size_t rows) const {
    return {numbers + index * rows * width_, rows, width_};
  }

  HeadShape shape_;
  MergedAttention merged_;
  std::size_t ring_tokens_;
  Attention<Real> attention_;
  std::size_t width_;
  KeyValueStore<Real>& store_;
  BufferPool<Real>& memory_;
  const SampleOwners* owners_ = nullptr;
  RingShift<Real> shift_;
  HeadExchange<Real> exchange_;
  std::vector<Positions> positions_, others_;
  std::vector<KeyValuePiece<Real>> pieces_;
  std::vector<PieceGradients> gradients_;
};

}  // namespace slimpack::kernels
