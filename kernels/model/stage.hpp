#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/math/gemm.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/math/rope.hpp"
#include "kernels/model/activations.hpp"
#include "kernels/model/cpu_optimiser.hpp"
#include "kernels/model/host_port.hpp"
#include "kernels/model/key_values.hpp"
#include "kernels/model/memory.hpp"
#include "kernels/model/pack_attention.hpp"
#include "kernels/model/pool.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/stage_step.hpp"
#include "kernels/model/tensor_rows.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/model/workspace.hpp"
#include "slimpack/exec/budget.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// A stage of a Llama-style transformer on the CPU: runs a plan's tasks on rows of tokens. Embedding on the
/// first stage; final norm, head and cross-entropy on the last; the label of a token is the next token of its
/// sample.
///
///     stage.begin_step(program, ids);
///     for each task in the program's order
///       forward     out = stage.forward(task, in);      send out to the next stage
///       backward    din = stage.backward(task, dout);   send din to the stage before
///       weight      stage.weight(task);
///       after it    stage.release(task);
///
/// What a token leaves behind is addressed by sample and token, so that the two passes may cut samples
/// differently. Rows are those of `task.owned`, in its order; of a stage with several tensor-parallel ranks, each gets and
/// returns those of its `TensorShare`. Layers are recomputed one by one within
/// `backward`: nothing is to be done in a loop's `recompute` callback. With weight tasks, `backward` keeps
/// the factors of the layers' matrix gradients for `weight`; the others (norms, embedding, head) are done at
/// once.
///
/// `memory()` counts bytes as they are taken and given back: weights and gradients, stores, and a task's
/// workspace while it runs. Offloaded layers are in memory of their own, which `host_memory()` counts. One thread at a time.
template <class Real>
class CpuStage {
 public:
  using Number = Real;
  using Weight = Real;
  using Memory = CpuMemory;
  using Port = HostPort<Real>;

  /// Weights are zero until initialised. @throws InvalidInput if the part or an option is impossible, or
  /// weights and gradients alone exceed the limit.
  explicit CpuStage(const StagePart& part, const StageOptions& options = {});

  CpuStage(CpuStage&&) = delete;
  CpuStage& operator=(CpuStage&&) = delete;
  ~CpuStage() = default;

  [[nodiscard]] const StagePart& part() const { return part_; }
  [[nodiscard]] StageWeights<Real>& weights() { return weights_; }
  [[nodiscard]] const StageWeights<Real>& weights() const { return weights_; }
  [[nodiscard]] const HighWater& memory() const { return memory_; }
  /// What offloaded layers take: the host's memory, were this a device of its own.
  [[nodiscard]] const HighWater& host_memory() const { return host_memory_; }
  [[nodiscard]] Port& port() { return port_; }

  void initialise(const InitOptions& options = {}) { weights_.initialise(options); }

  /// Who else holds this stage, for `update`; takes memory for the optimiser's moments.
  /// @throws InvalidInput if that exceeds the limit.
  void set_replicas(Replicas<Real> replicas) {
    std::vector<WeightPiece> pieces = weights_.layout().pieces(replicas.shares);
    optimiser_.begin(std::move(replicas), std::move(pieces), memory_);
  }

  /// What merged tasks need, by `StageOptions::merged`; called between members in lockstep.
  void set_ring_shift(RingShift<Real> shift) { attention_.set_ring_shift(std::move(shift)); }
  void set_all_to_all(AllToAll<Real> exchange) { attention_.set_all_to_all(std::move(exchange)); }
  /// What stages of several tensor-parallel ranks need; called between these in lockstep.
  void set_tensor_exchange(TensorExchange<Real> exchange) { tensor_rows_.set_exchange(std::move(exchange)); }

  /// Prepares a step: gradients and loss become zero, what an interrupted step left is freed.
  /// @param program of this stage. @param ids token ids, one row per sample. Both have to outlive the step.
  /// @throws InvalidInput if the program is for a stage with other layers, or ids are not those of its
  /// samples.
  void begin_step(const StageProgram& program, const Ragged<std::int32_t>& ids);

  /// @param in [rows x hidden] from the stage before; not looked at on the first stage.
  /// @returns rows for the next stage, valid until the next call; none on the last stage.
  /// @throws InvalidInput if shapes don't fit, the limit would be exceeded, or the loss is no number.
  MatrixView<const Real> forward(const StageTask& task, const MatrixView<const Real>& in);

  /// @param dout [rows x hidden] from the next stage; not looked at on the last stage.
  /// @returns the gradient of the task's input, valid until the next call; none on the first stage.
  /// @throws InvalidInput if shapes don't fit or the limit would be exceeded.
  MatrixView<const Real> backward(const StageTask& task, const MatrixView<const Real>& dout);

  /// The rest of the weights' gradients of a backward pack whose weight task comes later.
  void weight(const StageTask& task);

  /// Frees what the task lists.
  void release(const StageTask& task);

  /// Of the last stage: sum over its tokens so far of -log p(label), divided by the labels of the whole
  /// batch. Zero on others, and on all tensor-parallel ranks but the first. The batch's loss is the sum over all pipelines (and members).
  [[nodiscard]] double loss() const { return loss_; }

  /// Sums the step's gradients over the replicas that `set_replicas` named, and makes a step of AdamW. Weights are then
  /// the same on all replicas, bit by bit. @param step from 1.
  void update(std::int64_t step, const AdamWOptions& options) {
    optimiser_.update(weights_.parameters(), weights_.gradients(), step, options);
  }

 private:
  /// Factors of a matrix's gradient, a^T b.
  struct Pending {
    Matrix<Real> a, b;
    MatrixView<Real> gradient;
  };

  [[nodiscard]] static const StagePart& counted(const StagePart& part, HighWater& memory);
  void end_task(const StageTask& task);
  void begin_task(const StageTask& task);
  void embed(const StageTask& task);
  void embed_backward(const StageTask& task);
  void set_labels(const StageTask& task);
  void head_forward(const StageTask& task);
  void head_backward(const StageTask& task);
  /// Calls f(first row, normed rows, their logits, labels) for chunks of all tokens' normed rows.
  template <class F>
  void for_each_chunk(const MatrixView<const Real>& normed, F&& f);
  [[nodiscard]] double shared_cross_entropy(const MatrixView<const Real>& logits,
                                            std::span<const std::int32_t> labels);

  void attend(std::size_t layer, const StageTask& task, const MatrixView<const Real>& q);
  void activate(std::size_t layer, const MatrixView<const Real>& middle);
  void layer_forward(std::size_t layer, const StageTask& task);
  void load_or_recompute(std::size_t layer, const StageTask& task);
  void mlp_backward(std::size_t layer, const StageTask& task);
  void attention_backward(std::size_t layer, const StageTask& task);
  MatrixView<const Real> gathered(const MatrixView<const Real>& own);
  void add_product(const MatrixView<const Real>& a, const MatrixView<const Real>& w,
                   const MatrixView<Real>& to);
  void set_dnormed(const MatrixView<const Real>& a, const MatrixView<const Real>& w);
  void norm(const MatrixView<const Real>& x, std::span<const Real> weight);
  void norm_backward(const MatrixView<const Real>& x, std::span<const Real> weight, std::span<Real> dweight);
  void weight_gradient(const StageTask& task, const MatrixView<const Real>& a,
                       const MatrixView<const Real>& b, const MatrixView<Real>& gradient);
  [[nodiscard]] static double pending_bytes(const MatrixView<const Real>& a, const MatrixView<const Real>& b);
  void free_pending(PackId pack);

  StagePart part_;
  StageOptions options_;
  HighWater memory_, host_memory_;
  Port port_;
  StageWeights<Real> weights_;
  CpuOptimiser<Real> optimiser_;
  BufferPool<Real> pool_, host_pool_;
  ActivationStore<Real> activations_;
  KeyValueStore<Real> key_values_;
  PackAttention<Real> attention_;
  TensorRows<Real> tensor_rows_;

  StageStep step_;
  double loss_ = 0.0;
  std::unordered_map<PackId, std::vector<Pending>> pending_;

  // Of the task that runs. Rows are its tokens.
  RopeTable<Real> rope_;
  std::vector<Positions> positions_;
  std::vector<std::int32_t> labels_;
  Buffer<Real> workspace_;
  Workspace<Real> work_;  ///< in there
};

}  // namespace slimpack::kernels
