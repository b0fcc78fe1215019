#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/stage.hpp"
#include "kernels/cuda/stage_device.hpp"

namespace slimpack::kernels::cuda {

/// The calling thread's current GPU (`use_device` chooses it; the first one otherwise), as `StageDevice` says. One thread.
class CudaDevice {
 public:
  using Memory = DeviceMemory;
  using HostMemory = cuda::HostMemory;
  using Event = cuda::Event;
  using Stream = cuda::Stream;
  using Graph = cuda::Graph;

  static constexpr std::size_t product_workspace = std::size_t{32} << 20U;

  /// @throws InvalidInput as `use_device`.
  CudaDevice();

  void set_product_workspace(std::span<std::byte> memory) { gemm_.emplace(memory); }
  void try_products(std::span<std::byte> scratch) {
    static_cast<void>(gemm_->try_hot(scratch, stream(Queue::compute)));
  }
  [[nodiscard]] static Memory memory(std::size_t bytes, std::string_view what);
  [[nodiscard]] static HostMemory host_memory(std::size_t bytes) { return HostMemory(bytes); }

  [[nodiscard]] static std::int32_t attention_rows();  ///< `best_attention_rows`
  [[nodiscard]] static TensorMap tensor_map(const MatrixView<const Bf16>& matrix, int rows);

  /// Defined where the GPU's compiler sees the kernel.
  template <class Kernel>
  void launch(const Kernel& kernel, const Grid& grid) const;

  template <class Out>
  void multiply(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
                const MatrixView<Out>& c, Update update) {
    gemm_->run(product, a, b, c, update, stream(Queue::compute));
  }

  void copy(Queue queue, void* to, const void* from, std::size_t bytes) const {
    copy_bytes(to, from, bytes, stream(queue));
  }
  void fill(Queue queue, std::span<std::byte> bytes, unsigned char value) const {
    fill_bytes(bytes, value, stream(queue));
  }
  void record(const Event& event, Queue queue) const { event.record(stream(queue)); }
  void wait(Queue queue, const Event& event) const { event.make_wait(stream(queue)); }
  [[nodiscard]] static bool reached(const Event& event) { return event.reached(); }
  void wait(const Event& event) const {
    waiter_ ? waiter_([&] { return event.reached(); }) : event.wait();
  }
  void wait_all() const {
    for (const OwnedStream& stream : *streams_)
      waiter_ ? waiter_([&] { return stream.idle(); }) : stream.wait();
  }
  template <class F>
  [[nodiscard]] Graph capture(F&& work) const {
    return Graph(stream(Queue::compute), std::forward<F>(work));
  }
  void replay(const Graph& graph) const { graph.launch(stream(Queue::compute)); }
  void set_waiter(DeviceWaiter waiter) { waiter_ = std::move(waiter); }
  [[nodiscard]] static double seconds(const Event& from, const Event& to) { return to.seconds_since(from); }
  [[nodiscard]] Stream stream(Queue queue) const {
    return (*streams_)[static_cast<std::size_t>(queue)].get();
  }

 private:
  std::optional<std::array<OwnedStream, queue_count>> streams_;  ///< once there is a GPU
  DeviceWaiter waiter_;
  std::optional<Gemm> gemm_;
};

/// A stage on an NVIDIA GPU: the back end of `RankExecutor` in slimpack::kernels_cuda.
using CudaStage = DeviceStage<CudaDevice>;

extern template class DeviceStage<CudaDevice>;

}  // namespace slimpack::kernels::cuda
