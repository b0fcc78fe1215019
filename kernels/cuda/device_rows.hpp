#pragma once

#include <cstddef>
#include <span>

#include "kernels/cuda/stage_device.hpp"

namespace slimpack::kernels::cuda {

/// Rows of a device's memory that a transport of the host sends: of `measure_transfers`. Copies go through the queues and
/// the host memory that a stage's port uses.
template <StageDevice D>
class DeviceRows {
 public:
  /// @throws InvalidInput if the device has not the memory.
  explicit DeviceRows(std::size_t bytes)
      : rows_(device_.memory(bytes, "a transfer")), buffer_(device_.host_memory(bytes)) {
    device_.fill(Queue::leave, rows_.bytes(), 0x3c);
    device_.wait_all();
  }

  [[nodiscard]] std::span<std::byte> buffer() { return buffer_.bytes(); }
  [[nodiscard]] std::span<std::byte> rows() { return rows_.bytes(); }
  void leave() { copy(Queue::leave, buffer_.bytes(), rows_.bytes()); }
  void arrive() { copy(Queue::arrive, rows_.bytes(), buffer_.bytes()); }

 private:
  void copy(Queue queue, std::span<std::byte> to, std::span<const std::byte> from) {
    device_.copy(queue, to.data(), from.data(), from.size());
    device_.wait_all();
  }

  D device_;
  typename D::Memory rows_;
  typename D::HostMemory buffer_;
};

}  // namespace slimpack::kernels::cuda
