#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

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

/// Bytes at whose multiples an arena's pieces begin: a memory transaction's and more than any access needs.
inline constexpr std::size_t arena_alignment = 256;

/// What n numbers of a type take of an arena, in bytes.
template <class T>
[[nodiscard]] constexpr std::size_t arena_bytes(std::size_t n) {
  return (n * sizeof(T) + arena_alignment - 1) / arena_alignment * arena_alignment;
}

/// Deals out one piece of memory front to back, for a stage that takes all it needs at once. Pieces are given
/// back together. Touches no memory, so the memory may be a GPU's.
class Arena {
 public:
  Arena() = default;
  /// @param memory beginning at a multiple of `arena_alignment`, as the CUDA runtime's does
  /// @param what takes it, for messages: "stage 3"
  Arena(std::span<std::byte> memory, std::string what) : memory_(memory), what_(std::move(what)) {}

  /// The next n numbers. @throws InvalidInput saying how much is missing and to whom.
  template <class T>
  [[nodiscard]] std::span<T> take(std::size_t n) {
    const std::size_t left = memory_.size() - used_;
    // In this order, a size beyond all memory does not overflow.
    const bool fits = n <= left / sizeof(T) && arena_bytes<T>(n) <= left;
    require(fits, what_, " asks its arena for ", n, " numbers of ", sizeof(T), " bytes, but of ",
            memory_.size(), " bytes ", left, " are left; expected an arena of the plan's peak");
    T* begin = reinterpret_cast<T*>(memory_.data() + used_);
    used_ += arena_bytes<T>(n);
    if (used_ > peak_) peak_ = used_;
    return {begin, n};
  }

  /// Bytes that are dealt out; `rewind` takes it.
  [[nodiscard]] std::size_t used() const { return used_; }

  /// Most bytes that were ever dealt out at a time.
  [[nodiscard]] std::size_t peak() const { return peak_; }

  /// Takes back all that was dealt out since `used()` was this. @throws InvalidInput if it never was.
  void rewind(std::size_t used) {
    require(used <= used_, "an arena with ", used_, " bytes in use shall go back to ", used,
            "; expected what used() has said");
    used_ = used;
  }

 private:
  std::span<std::byte> memory_;
  std::string what_;
  std::size_t used_ = 0, peak_ = 0;
};

}  // namespace slimpack::kernels::cuda
