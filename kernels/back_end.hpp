#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device_links.hpp"
#include "kernels/math/adamw.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/model/replicas.hpp"
#include "kernels/model/stage.hpp"
#include "kernels/model/tensor_rows.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// How a host's transport gets at the rows of a back end, wherever they lie. What is queued is done in the order of the
/// calls, and after all that the stage was asked for before.
///
/// - `buffer(n)`: host memory of n numbers that the back end copies from and to at full speed. A value that has `data()` and
///   `size()`; an empty one has no memory.
/// - `fetch(rows, to)`: queues a copy of rows that a task has returned to host memory.
/// - `behind`: tasks, given to the back end and not done, whose rows the host keeps before it waits for the first of them.
/// - `mark()`: the point after all that has been queued. `reached(mark)`: whether it is done, for good. `wait(mark)`: until
///   it is. `wait_all()`: until the back end has nothing left to do.
template <class P, class Number>
concept RowPort = requires(P& port, std::size_t n, std::span<const Number> rows, std::span<Number> to,
                           typename P::Mark& mark, typename P::Buffer& buffer) {
  { P::behind } -> std::convertible_to<std::size_t>;
  { port.buffer(n) } -> std::same_as<typename P::Buffer>;
  { buffer.data() } -> std::convertible_to<Number*>;
  { buffer.size() } -> std::convertible_to<std::size_t>;
  port.fetch(rows, to);
  { port.mark() } -> std::same_as<typename P::Mark>;
  { port.reached(mark) } -> std::same_as<bool>;
  port.wait(mark);
  port.wait_all();
};

/// A back end: one stage of a model on some device, as `CpuStage` is on the CPU. It says there what each member does. All
/// numbers of the model are the back end's: whoever drives it moves rows between ranks, and touches nothing else.
///
/// - `Number`: what rows consist of, as they travel between ranks. `Weight`: what weights and gradients do.
/// - `Memory`: the MemoryModel that tells planners, and the executor, what a stage will hold; made of the model, the layers
///   of each stage, the bytes of a `Weight`, options, and the optimiser's moments kept for each parameter.
/// - `forward`, `backward`, `weight`, `release` may return before their work is done; the next ones are done after them.
///   The rows that `forward` and `backward` are given lie in the **host's** memory and stay as they are until the work is
///   done, which `port().mark()` after the call tells. If the port is a `DevicePort` as well, they may lie
///   in the **device's** memory: they are brought to the task after the point of `port().bring_behind`, and
///   stay as they are until the task is done. Those that they return lie where the
///   back end works, and are there until the next call; what was queued before it still finds them: a
///   transport of the host gets them by `port().fetch`, links between devices by `port().send`.
/// - What ring shifts and all-to-alls move lies in the host's memory. What replicas exchange lies where
///   `Replicas` says.
/// - `read_times(tasks)`, if there is one, sets when the step's tasks ran by the device's clock; without, the host's counts.
/// - `graph_tasks()`, if there is one, says how many of the step's tasks were given to a device as graphs.
/// - `loss()` and `update()` come after the step's last task and wait for what they need. `loss()` throws InvalidInput if it
///   is no number.
template <class S>
concept StageBackEnd = std::constructible_from<S, const StagePart&, const StageOptions&> &&
    MemoryModel<typename S::Memory> && RowPort<typename S::Port, typename S::Number> &&
    requires(S& s, const StageProgram& program, const StageTask& task, const Ragged<std::int32_t>& ids,
             const MatrixView<const typename S::Number>& rows, RingShift<typename S::Number> shift,
             AllToAll<typename S::Number> exchange, const InitOptions& init,
             Replicas<typename S::Weight> replicas, std::int64_t step, const AdamWOptions& adamw) {
  { s.part() } -> std::convertible_to<const StagePart&>;
  { s.memory() } -> std::convertible_to<const HighWater&>;
  { s.port() } -> std::same_as<typename S::Port&>;
  s.initialise(init);
  s.set_replicas(replicas);
  s.set_ring_shift(shift);
  s.set_all_to_all(exchange);
  s.begin_step(program, ids);
  { s.forward(task, rows) } -> std::convertible_to<MatrixView<const typename S::Number>>;
  { s.backward(task, rows) } -> std::convertible_to<MatrixView<const typename S::Number>>;
  s.weight(task);
  s.release(task);
  { s.loss() } -> std::convertible_to<double>;
  s.update(step, adamw);
};

/// A back end that runs a part of a stage together with others: what `TensorExchange` says.
template <class S>
concept TensorParallelBackEnd = StageBackEnd<S> &&
    requires(S& s, TensorExchange<typename S::Number> exchange) {
  s.set_tensor_exchange(exchange);
};

/// A back end that works on a device whose rows, gradients and weights links can move, and what members of
/// merged packs exchange: once `set_device_exchange` was called, ring shifts and all-to-alls are not.
template <class S>
concept LinkedBackEnd = StageBackEnd<S> && DevicePort<typename S::Port> &&
    requires(S& s, DeviceExchange<typename S::Port::Stream> exchange) {
  s.set_device_exchange(exchange);
};

}  // namespace slimpack::kernels
