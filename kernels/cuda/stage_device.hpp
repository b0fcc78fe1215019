#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/device_links.hpp"
#include "kernels/math/gemm.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Work of a stage that runs in order, each kind concurrently with the others: tasks, what arrives at them,
/// what leaves to the host, the links between devices, and what members of merged packs pass around.
enum class Queue : std::uint8_t {
  compute,
  arrive,
  leave,
  from_before,
  to_next,
  from_next,
  to_before,
  members
};

inline constexpr std::size_t queue_count = 8;

[[nodiscard]] constexpr Queue queue_of(Way way) {
  return static_cast<Queue>(static_cast<std::size_t>(Queue::from_before) + static_cast<std::size_t>(way));
}

/// What a `DeviceStage` runs on. `CudaDevice` is a GPU; tests have one that does the same on the host, at any
/// time that an order of the queues allows.
///
/// - `product_workspace`: bytes that matrix products need; `set_product_workspace` gives them.
/// - `memory(bytes, what)`: the device's memory, aligned to `arena_alignment`; `bytes()` says where. Throws
///   InvalidInput saying how much is missing, and to whom. `host_memory(bytes)`: the host's, to and from
///   which copies run while other work does.
/// - `attention_rows()`: tokens of attention's blocks, 64 or 128: which of its kernels run.
/// - `tensor_map(matrix, rows)`: the matrix for the copy engine, with boxes of so many rows, as kernels with
///   blocks of 128 tokens take it.
/// - `try_products(scratch)`: between steps, may try how products that came before are made best, in memory that it
///   overwrites; the host waits.
/// - `launch(kernel, grid)`, `multiply(...)` (as `Gemm::run`): into the queue `compute`.
/// - `copy(queue, to, from, bytes)`, `fill(queue, bytes, value)`.
/// - `record(event, queue)`: the event becomes the point after everything that the queue has been given.
///   `wait(queue, event)`: what it is given from now on waits for the point that the event is now; for none,
///   if it was never recorded.
/// - `reached(event)`, `wait(event)`, `wait_all()`: of the host. `seconds(from, to)` between two points that
///   were reached.
/// - `capture(work)`: what `work()` gives to the queue `compute` is not done, but becomes a graph. Meanwhile
///   nothing else may be asked for: other queues, events, waits, memory, or what has not been used before.
///   `replay(graph)`: all of its work again, with the same arguments, into the queue `compute`.
/// - `set_waiter(waiter)`: `wait` and `wait_all` wait by it from now on; by themselves if it is empty.
/// - `stream(queue)`: for links between devices, a value.
template <class D>
concept StageDevice = std::default_initializable<D> && std::default_initializable<typename D::Memory> &&
    std::default_initializable<typename D::HostMemory> && std::default_initializable<typename D::Event> &&
    std::movable<typename D::Graph> &&
    requires(D& d, std::size_t bytes, std::string_view what, std::span<std::byte> memory, void* to,
             const void* from, Queue queue, typename D::Event& event, Product product,
             const MatrixView<const Bf16>& a, const MatrixView<Bf16>& c, const MatrixView<float>& sum,
             Update update, unsigned char value, DeviceWaiter waiter, void (*work)(),
             const typename D::Graph& graph) {
  { D::product_workspace } -> std::convertible_to<std::size_t>;
  d.set_product_workspace(memory);
  d.try_products(memory);
  { d.attention_rows() } -> std::same_as<std::int32_t>;
  { d.tensor_map(a, 0) } -> std::same_as<TensorMap>;
  { d.memory(bytes, what) } -> std::same_as<typename D::Memory>;
  { d.host_memory(bytes) } -> std::same_as<typename D::HostMemory>;
  d.multiply(product, a, a, c, update);
  d.multiply(product, a, a, sum, update);
  d.copy(queue, to, from, bytes);
  d.fill(queue, memory, value);
  d.record(event, queue);
  d.wait(queue, event);
  { d.reached(event) } -> std::same_as<bool>;
  d.wait(event);
  d.wait_all();
  { d.seconds(event, event) } -> std::same_as<double>;
  { d.capture(work) } -> std::same_as<typename D::Graph>;
  d.replay(graph);
  d.set_waiter(waiter);
  { d.stream(queue) } -> std::same_as<typename D::Stream>;
};

/// Starts kernels on a device, and describes matrices to them.
template <StageDevice D>
struct StageLauncher {
  D& device;

  template <class Kernel>
  void operator()(const Kernel& kernel, const Grid& grid) const {
    device.launch(kernel, grid);
  }
  [[nodiscard]] TensorMap tensor_map(const MatrixView<const Bf16>& matrix, int rows) const {
    return device.tensor_map(matrix, rows);
  }
};

}  // namespace slimpack::kernels::cuda
