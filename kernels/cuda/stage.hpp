#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/arena_plan.hpp"
#include "kernels/cuda/device/head_exchange.hpp"
#include "kernels/cuda/library_attention.hpp"
#include "kernels/cuda/member_exchange.hpp"
#include "kernels/cuda/ring_plan.hpp"
#include "kernels/cuda/stage_device.hpp"
#include "kernels/cuda/stage_memory.hpp"
#include "kernels/cuda/step_graphs.hpp"
#include "kernels/cuda/task_io.hpp"
#include "kernels/math/adamw.hpp"
#include "kernels/model/pack_attention.hpp"
#include "kernels/model/replicas.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/stage_step.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/task_record.hpp"
#include "slimpack/exec/budget.hpp"

namespace slimpack::kernels::cuda {

/// A stage of a Llama-style transformer on a GPU: a back end as `CpuStage` is, with the same calls, the same
/// stores by sample and token, and the same model. Activations, keys and values are bf16; master weights,
/// gradients and the optimiser's moments are floats; products read a bf16 copy of the weights.
///
/// Calls put work into the device's queues and return; during a step the host waits for nothing. The loss
/// stays on the device until `loss()`. What the stage keeps during a step lies in one arena, taken before the
/// step's first task as large as `ArenaPlan` says, and again only for a later step that needs more. Weights
/// are taken when the stage is made, moments with `set_replicas`. `memory()` counts all three.
///
/// Members of a merged pack share attention by heads, or by tokens in a ring, as `MergedAttention` says. What
/// they exchange goes from device to device, once `set_device_exchange` was called; otherwise it passes
/// through the host, which waits for it: by heads twice a layer in each pass, and twice more where backward
/// recomputes; in a ring, while attention to what came before goes on.
///
/// Where a step repeats the one before, its tasks' work is captured before the first of them, and given to
/// the device as a graph for each task, in this step and in later ones that are the same: the same tasks of
/// the same slices in the same memory. What the host brings, ids and labels among it, may differ. Merged
/// tasks, within which the host may wait, are no graphs. Graphs take memory of the device that `memory()`
/// does not count.
///
/// Where options choose a library's attention, `set_attention` gives it. It is asked for each pack of a step
/// before the step's first task; packs that it refuses, merged ones, and those that need more workspace than
/// the options grant, run ours. Tasks that run the library's are no graphs.
///
/// Not supported: heads of other sizes than 64 and 128, widths that are no multiples of 8.
/// @tparam D what it runs on.
template <StageDevice D>
class DeviceStage {
 public:
  using Number = Bf16;
  using Weight = float;
  using Memory = BackEndMemory<DeviceSizes<D>>;
  using Port = RowSlots<D>;

  /// Weights are no numbers until initialised. @throws InvalidInput if the part or an option is impossible,
  /// there is no device, or weights and gradients alone exceed the limit or the device's memory.
  explicit DeviceStage(const StagePart& part, const StageOptions& options = {});
  DeviceStage(DeviceStage&&) = delete;
  DeviceStage& operator=(DeviceStage&&) = delete;
  /// Waits for the device.
  ~DeviceStage();

  [[nodiscard]] const StagePart& part() const { return part_; }
  [[nodiscard]] const HighWater& memory() const { return memory_; }
  [[nodiscard]] Port& port() { return slots_; }
  [[nodiscard]] const WeightLayout& weight_layout() const { return layout_; }

  /// As CpuStage's, of the same bits rounded to float. Waits for the device.
  void initialise(const InitOptions& options = {});

  /// Copies weights, or a step's gradients (this replica's, until `update`), to the host, or weights from it.
  /// All of `weight_layout().size()`. They wait for the device. @throws InvalidInput for another size.
  void read_weights(std::span<float> out);
  void read_gradients(std::span<float> out);
  void write_weights(std::span<const float> weights);

  /// As CpuStage's. @throws InvalidInput also if the device has not the memory.
  void set_replicas(Replicas<float> replicas);

  void set_ring_shift(const RingShift<Bf16>&) {
  }  // gradients go to their owners, not round: all-to-alls do both
  /// What merged tasks need, called between members in lockstep.
  void set_all_to_all(AllToAll<Bf16> exchange) { exchange_.set_through_host(std::move(exchange)); }
  /// The same from device to device: the host waits for nothing.
  void set_device_exchange(DeviceExchange<typename D::Stream> exchange) {
    exchange_.set_on_device(std::move(exchange));
  }

  /// The library whose attention `StageOptions::attention` chooses. Call it between steps.
  void set_attention(AttentionLibrary<typename D::Stream> library) { library_ = std::move(library); }
  /// Of the last step's tasks.
  [[nodiscard]] const AttentionUse& attention_use() const { return library_packs_.use(); }

  /// As CpuStage's; finds the step's places in the arena, and takes a larger one if it has to. Waits for the
  /// device.
  /// @throws InvalidInput also if members can't have equal shares of the heads, the arena would exceed the
  /// limit or the device's memory, or a library's attention is chosen and none was given.
  void begin_step(const StageProgram& program, const Ragged<std::int32_t>& ids);

  /// As CpuStage's. @param in in host memory of `port().buffer`, as consecutive rows.
  MatrixView<const Bf16> forward(const StageTask& task, const MatrixView<const Bf16>& in);
  MatrixView<const Bf16> backward(const StageTask& task, const MatrixView<const Bf16>& dout);
  void weight(const StageTask& task);
  /// Nothing is left to do: the arena's plan knows what goes when.
  void release(const StageTask& task) { step_.require_begun(task); }

  /// As CpuStage's; waits for the device. @throws InvalidInput if it is no number.
  [[nodiscard]] double loss();

  /// As CpuStage's; waits for the device.
  void update(std::int64_t step, const AdamWOptions& options);

  /// Tasks of the last step that the device was given as graphs.
  [[nodiscard]] std::size_t graph_tasks() const { return graphs_.launched(); }

  /// Sets the times of the step's tasks by the device's clock, once `loss()` was asked for.
  void read_times(std::span<TaskRecord> tasks) { clock_.read(tasks); }

 private:
  /// Factors of a matrix's gradient, a^T b.
  struct Pending {
    MatrixView<const Bf16> a, b;
    MatrixView<float> gradient;
  };

  void plan_attention(const StageProgram& program);
  [[nodiscard]] PlannedAttention<typename D::Stream> ask_library(const StageTask& task);
  [[nodiscard]] PackMatrices pack_matrices(std::size_t layer, const StageTask& task,
                                           const MatrixView<const Bf16>& q);
  void take_arena();
  void take_exchange(const StageProgram& program);
  void begin_graphs();
  void capture_tasks();
  void lay_out(const StageTask& task, const typename RowSlots<D>::Slot& slot);
  void begin_task(const StageTask& task, const MatrixView<const Bf16>& rows);
  void compute(const StageTask& task);
  void compute_forward(const StageTask& task);
  void compute_backward(const StageTask& task);
  void compute_weight(const StageTask& task);
  void end_task();
  [[nodiscard]] TaskTables tell(const StageTask& task, std::byte* device);
  void tell_rows(const StageTask& task, TaskTables& tables);
  void tell_pieces(const StageTask& task, TaskTables& tables);
  void tell_attention(const StageTask& task, TaskTables& tables);
  [[nodiscard]] std::vector<AttentionSlice> attention_slices_of(const StageTask& task) const;
  [[nodiscard]] AttentionItems tell_items(const StageTask& task, std::span<const AttentionSlice> slices,
                                          std::size_t queries, std::size_t keys,
                                          std::span<const std::int32_t> pieces = {});
  /// Where pieces of the gradients of a backward task's keys begin.
  [[nodiscard]] std::span<const std::int32_t> gradient_pieces(const StageTask& task) const {
    return task.pass == Pass::backward ? plan_.gradient_pieces() : std::span<const std::int32_t>();
  }
  void tell_rounds(const StageTask& task);
  void tell_tokens(const StageTask& task, TaskTables& tables);

  void head_forward();
  void head_backward();
  /// Calls f(normed rows, their logits, labels, states, first row) for chunks of the task's normed rows.
  template <class F>
  void for_each_chunk(F&& f);
  void store_keys(std::size_t layer, const StageTask& task, const MatrixView<Bf16>& q,
                  const MatrixView<Bf16>& keys_values);
  void attend(std::size_t layer, const StageTask& task, const MatrixView<Bf16>& q);
  void attend_backward(std::size_t layer, const StageTask& task);
  void heads_backward(std::size_t layer, const StageTask& task);
  /// Changes own tokens with all heads for all tokens with own heads, or back.
  template <class... T>
  void to_heads(const StageTask& task, const SharedMatrix<T>&... matrices);
  template <class... T>
  void to_tokens(const StageTask& task, const SharedMatrix<T>&... matrices);
  void begin_exchange(const StageTask& task, std::initializer_list<std::size_t> row_numbers,
                      bool tokens_to_heads);
  void exchange(const StageTask& task);
  void exchange_on_device(const StageTask& task);
  void ring_forward(std::size_t layer, const StageTask& task, const MatrixView<const Bf16>& q);
  void ring_backward(std::size_t layer, const StageTask& task);
  template <class F>
  void go_round(std::size_t layer, const StageTask& task, F&& f);
  void gather_window(std::size_t layer, const StageTask& task, std::size_t window, std::size_t buffer);
  void pass_keys(const StageTask& task, std::size_t round, std::size_t from, std::size_t to);
  void bring_home(std::size_t layer, const StageTask& task, std::size_t round);
  void move(const StageTask& task, std::size_t to, std::span<std::byte> out, std::size_t from,
            std::span<std::byte> in);
  void activate(std::size_t layer, const MatrixView<const Bf16>& middle);
  void layer_forward(std::size_t layer, const StageTask& task);
  void load_or_recompute(std::size_t layer, const StageTask& task);
  void mlp_backward(std::size_t layer, const StageTask& task);
  void attention_backward(std::size_t layer, const StageTask& task);
  void clear_gradients(const StageTask& task);
  void norm(const MatrixView<const Bf16>& x, std::span<const Bf16> weight);
  void norm_backward(const MatrixView<const Bf16>& x, std::span<const Bf16> weight, std::span<float> dweight);
  void weight_gradient(const StageTask& task, const MatrixView<const Bf16>& a,
                       const MatrixView<const Bf16>& b, const MatrixView<float>& gradient);
  [[nodiscard]] MatrixView<const Bf16> set_aside(const MatrixView<const Bf16>& rows);
  /// Saves or loads a field of the task's tokens.
  template <class T>
  void keep(Kept field, std::size_t layer, const MatrixView<T>& rows);
  [[nodiscard]] KeptField kept_field(Kept field, std::size_t layer) const;
  [[nodiscard]] KeptPages kept_pages() const;

  /// What the host tells the device of a task, at most.
  [[nodiscard]] std::size_t data_bytes() const {
    return plan_.data_bytes() + library_packs_.most_list_bytes();
  }
  /// What a library's attention works in.
  [[nodiscard]] std::size_t library_bytes() const { return attention_workspace_bytes(options_); }
  [[nodiscard]] std::size_t unit() const { return unit_numbers(part_); }
  [[nodiscard]] LayerWeights<const Bf16> weights(std::size_t layer) const {
    return layout_.layer(static_cast<const Bf16*>(copies_.data()), layer);
  }
  [[nodiscard]] LayerWeights<float> gradients(std::size_t layer) const {
    return layout_.layer(gradients_.data(), layer);
  }
  [[nodiscard]] EndWeights<const Bf16> ends() const {
    return layout_.ends(static_cast<const Bf16*>(copies_.data()));
  }
  [[nodiscard]] bool by_heads(const StageTask& task) const {
    return task.merged() && merged_attention(task, options_.merged) == MergedAttention::heads;
  }
  [[nodiscard]] bool in_ring(const StageTask& task) const {
    return task.merged() && merged_attention(task, options_.merged) == MergedAttention::ring;
  }
  /// Members among whom heads are shared.
  [[nodiscard]] std::size_t head_shares(const StageTask& task) const {
    return by_heads(task) ? task.members.size() : 1;
  }
  /// Heads that this member attends with.
  [[nodiscard]] HeadShape own_heads(const StageTask& task) const {
    const HeadShape heads = part_.heads();
    const std::size_t shares = head_shares(task);
    return {heads.heads / shares, heads.kv_heads / shares, heads.head_dim};
  }
  /// Rows of the arena's units: keys (0) or values (1) of a layer, or both (0, 2), or their gradients.
  template <class T>
  [[nodiscard]] MatrixView<T> key_rows(std::size_t layer, const StageTask& task, std::size_t which,
                                       std::size_t count) const;
  [[nodiscard]] AttentionInput attention_input(std::size_t layer, const StageTask& task,
                                               const MatrixView<const Bf16>& q) const;

  /// Numbers of each replica's part of n that go through the host at a time.
  [[nodiscard]] std::size_t share_numbers(std::size_t n) const;
  /// Host memory for numbers that the host waits for, until the next call. What steps need of it is taken when the
  /// stage is made, and with `set_replicas`.
  template <class T>
  [[nodiscard]] std::span<T> through(std::size_t n);
  void copy_now(void* to, const void* from, std::size_t bytes);
  void round_weights();
  /// Of one unit of weights.
  void exchange_gradients(std::size_t unit);
  void gather_weights(std::size_t unit);
  /// Calls f(chunk of the host's memory, first number of each replica's part of n, numbers of each) until all
  /// parts were met.
  template <class F>
  void for_each_share(std::size_t n, F&& f);
  template <class T>
  void move_shares(std::span<float> host, std::span<T> device, std::size_t first, std::size_t size,
                   bool to_host, bool own_only);
  [[nodiscard]] StageLauncher<D> launch() { return {device_}; }
  [[nodiscard]] std::string name() const;

  StagePart part_;
  StageOptions options_;
  HighWater memory_;
  WeightLayout layout_;
  D device_;
  typename D::Memory held_, moments_, arena_;
  typename D::HostMemory through_;
  std::span<float> weights_, gradients_, first_, second_;
  std::span<Bf16> copies_;
  std::span<double> loss_;
  Replicas<float> replicas_;
  std::vector<WeightUnit> units_held_;
  ArenaPlan plan_;
  RowSlots<D> slots_;
  Staging<D> staging_;
  TaskClock<D> clock_;
  StepGraphs<D> graphs_;
  StageStep step_;
  AttentionLibrary<typename D::Stream> library_;
  LibraryPacks<typename D::Stream> library_packs_;
  std::span<std::byte> library_memory_;
  MemberExchange<D> exchange_;
  /// A place of `StageWorkspace::ring_keys`.
  struct RingPlaceEvents {
    typename D::Event arrived, read;
  };
  std::array<RingPlaceEvents, 3> ring_;
  std::array<typename D::Event, 2> made_;  ///< of `ring_made`
  typename D::Event came_, added_;         ///< of `ring_came`
  double arena_bytes_ = 0.0;               ///< counted
  Bf16* units_ = nullptr;                  ///< of the arena, the task's workspace in the first ones
  std::unordered_map<PackId, std::vector<Pending>> pending_;

  // Of the task that is given to the device. Rows are its tokens.
  TaskTables tables_;
  TaskData data_;
  std::vector<std::int32_t> words_;
  std::vector<std::vector<std::size_t>> member_rows_;  ///< merged: rows that each member holds
  std::vector<MemberMessage> messages_;                ///< of the exchange that goes on
  std::vector<RingWindow> windows_;                    ///< in a ring
  std::vector<RingRound> rounds_;                      ///< in a ring: of all windows, consecutively
  StageWorkspace work_;
  MatrixView<Bf16> rows_;      ///< x forward, dx backward
  Bf16* set_aside_ = nullptr;  ///< where the next factors go
};

}  // namespace slimpack::kernels::cuda
