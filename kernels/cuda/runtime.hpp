#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "kernels/cuda/portable.hpp"
#include "slimpack/core/error.hpp"

// The runtime's event and graph, which its headers define.
struct CUevent_st;
struct CUgraphExec_st;

namespace slimpack::kernels::cuda {

namespace detail {

struct FreeDeviceMemory {
  void operator()(std::byte* p) const;
};
struct FreeHostMemory {
  void operator()(std::byte* p) const;
};
struct DestroyStream {
  void operator()(CUstream_st* p) const;
};
struct DestroyEvent {
  void operator()(CUevent_st* p) const;
};
struct DestroyGraph {
  void operator()(CUgraphExec_st* p) const;
};

}  // namespace detail

/// A GPU that has not the memory that it is asked for.
struct OutOfMemory : InvalidInput {
  using InvalidInput::InvalidInput;
};

/// A piece of the current GPU's memory. Taking and freeing it makes the host wait, so it is done once.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// @throws OutOfMemory if there is not as much; std::runtime_error if the GPU fails.
  explicit DeviceMemory(std::size_t bytes);

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, detail::FreeDeviceMemory> data_;
  std::size_t size_ = 0;
};

/// Memory of the host that stays in place, so that the GPU can copy from and to it while other work runs.
class HostMemory {
 public:
  HostMemory() = default;
  /// @throws std::runtime_error if there is not as much.
  explicit HostMemory(std::size_t bytes);

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, detail::FreeHostMemory> data_;
  std::size_t size_ = 0;
};

/// A stream of the current GPU that waits for no other one. @throws std::runtime_error if the GPU refuses.
class OwnedStream {
 public:
  OwnedStream();

  [[nodiscard]] Stream get() const { return stream_.get(); }

  /// Makes the host wait until all work is done. @throws std::runtime_error if any of it failed.
  void wait() const;

  /// Whether all work is done. @throws std::runtime_error if any of it failed.
  [[nodiscard]] bool idle() const;

 private:
  std::unique_ptr<CUstream_st, detail::DestroyStream> stream_;
};

/// A point of a stream's work, with its time. @throws std::runtime_error if the GPU refuses.
class Event {
 public:
  Event();

  /// Becomes the point after all work that the stream has been given.
  void record(Stream stream) const;

  /// Makes a stream's later work wait for this point; the host goes on.
  void make_wait(Stream stream) const;

  /// Whether all that is before the point is done. @throws std::runtime_error if any of it failed.
  [[nodiscard]] bool reached() const;

  /// Makes the host wait for the point. @throws std::runtime_error if any work before it failed.
  void wait() const;

  /// Seconds from another point to this one; the host waits for this one.
  [[nodiscard]] double seconds_since(const Event& other) const;

 private:
  std::unique_ptr<CUevent_st, detail::DestroyEvent> event_;
};

/// Work that a stream can be given at once, again and again. One that holds none may only be assigned to.
class Graph {
 public:
  Graph() = default;
  /// Captures what `work` gives to the stream, instead of doing it, and brings it to the GPU. Meanwhile this
  /// thread may ask the GPU for nothing else: no memory, no waits, no points of other streams.
  /// @throws std::runtime_error if it does, or the GPU refuses; what `work` throws.
  Graph(Stream stream, const std::function<void()>& work);

  void launch(Stream stream) const;

 private:
  std::unique_ptr<CUgraphExec_st, detail::DestroyGraph> graph_;
};

/// Makes the host wait for all work of the current GPU. @throws std::runtime_error if any of it failed.
void wait_for_device();

/// Copies bytes within, to or from the GPU's memory, in the stream's order. Of memory that the host may page
/// out, the host waits.
void copy_bytes(void* to, const void* from, std::size_t bytes, Stream stream);

/// Sets bytes of the GPU's memory, in the stream's order.
void fill_bytes(std::span<std::byte> memory, unsigned char value, Stream stream);

/// Copies numbers to the GPU's memory. @param to at least as many as `from`
template <class T>
void upload(std::span<const T> from, std::span<T> to, Stream stream) {
  copy_bytes(to.data(), from.data(), from.size_bytes(), stream);
}

}  // namespace slimpack::kernels::cuda
