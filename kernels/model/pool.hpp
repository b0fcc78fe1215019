#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "kernels/math/aligned.hpp"
#include "slimpack/exec/budget.hpp"

namespace slimpack::kernels {

/// Memory of a pool; empty unless taken from one.
template <class Real>
struct Buffer {
  AlignedNumbers<Real> data;
  std::size_t size = 0;      ///< numbers asked for
  std::size_t capacity = 0;  ///< numbers there are

  explicit operator bool() const { return data != nullptr; }
};

/// Hands out memory and counts it. What comes back is used again, since the system's own way of handing out
/// large pieces, page by page at first touch, costs a fifth of a small layer's time. Memory in use and kept
/// together never exceed the most that was ever in use, but for what a buffer is larger than asked for (an
/// eighth at most).
template <class Real>
class BufferPool {
 public:
  /// @param memory counts what is in use; it has to outlive the pool.
  explicit BufferPool(HighWater& memory) : memory_(memory) {}

  /// Numbers that are whatever they were. @param where for the message, as in `HighWater::take`.
  /// @throws InvalidInput if the limit would be exceeded. O(log n) in the buffers kept.
  template <class... Where>
  [[nodiscard]] Buffer<Real> take(std::size_t size, const Where&... where) {
    return take_from(kept_.lower_bound(size), size, size + size / 8, where...);
  }

  /// The same, from a kept buffer of any size that is large enough, unless more would then be held than was ever in
  /// use. For memory of changing size that is taken last: what is taken while it is held may not find room in what is kept.
  template <class... Where>
  [[nodiscard]] Buffer<Real> take_any(std::size_t size, const Where&... where) {
    const std::size_t most = std::max(most_, in_use_ + size) - in_use_;
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the buffer owns it.
    return take_from(kept_.lower_bound(size), size, std::max(most, size + size / 8), where...);
  }

  /// Takes a buffer back; an empty one is none.
  void give_back(Buffer<Real>& buffer) {
    if (!buffer) return;
    memory_.give_back(bytes(buffer.size));
    in_use_ -= buffer.size;
    spare_ -= buffer.capacity - buffer.size;
    kept_size_ += buffer.capacity;
    kept_.emplace(buffer.capacity, std::move(buffer.data));
    buffer = {};
  }

 private:
  using Kept = std::multimap<std::size_t, AlignedNumbers<Real>>;

  /// From a kept buffer, unless it holds more than `most` numbers.
  template <class... Where>
  [[nodiscard]] Buffer<Real> take_from(typename Kept::iterator fit, std::size_t size, std::size_t most,
                                       const Where&... where) {
    memory_.take(bytes(size), where...);
    in_use_ += size;
    most_ = std::max(most_, in_use_);
    if (fit != kept_.end() && fit->first <= most) {
      Buffer<Real> out{std::move(fit->second), size, fit->first};
      kept_size_ -= fit->first;
      spare_ += fit->first - size;
      kept_.erase(fit);
      return out;
    }
    while (!kept_.empty() && in_use_ + spare_ + kept_size_ > most_) {
      const auto largest = std::prev(kept_.end());
      kept_size_ -= largest->first;
      kept_.erase(largest);
    }
    return {aligned_numbers<Real>(size), size, size};
  }

  [[nodiscard]] static double bytes(std::size_t size) {
    return static_cast<double>(sizeof(Real)) * static_cast<double>(size);
  }

  HighWater& memory_;
  std::size_t in_use_ = 0, most_ = 0, kept_size_ = 0;  ///< numbers
  std::size_t spare_ = 0;                              ///< of buffers in use, beyond what was asked for
  Kept kept_;                                          ///< by capacity
};

/// A buffer for as long as it lives.
template <class Real>
class Lease {
 public:
  /// As `BufferPool::take`. The pool has to outlive it.
  template <class... Where>
  Lease(BufferPool<Real>& pool, std::size_t size, const Where&... where)
      : pool_(pool), buffer_(pool.take(size, where...)) {}
  Lease(Lease&&) = delete;
  Lease& operator=(Lease&&) = delete;
  ~Lease() { pool_.give_back(buffer_); }

  [[nodiscard]] Real* data() const { return buffer_.data.get(); }

 private:
  BufferPool<Real>& pool_;
  Buffer<Real> buffer_;
};

}  // namespace slimpack::kernels
