#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

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
