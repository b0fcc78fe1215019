#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace slimpack::kernels {

/// Memory begins at a multiple of this many bytes, the widest vector registers'. Loops over vectors start
/// where memory is aligned, so the order of their sums would otherwise depend on the addresses that the
/// system chooses.
inline constexpr std::align_val_t alignment{64};

template <class T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  [[nodiscard]] T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new(n * sizeof(T), alignment));
  }
  void deallocate(T* p, std::size_t) { ::operator delete(p, alignment); }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

struct AlignedDelete {
  void operator()(void* p) const { ::operator delete(p, alignment); }
};

/// Numbers that are not initialised.
template <class Real>
using AlignedNumbers = std::unique_ptr<Real[], AlignedDelete>;

template <class Real>
[[nodiscard]] AlignedNumbers<Real> aligned_numbers(std::size_t n) {
  return AlignedNumbers<Real>(static_cast<Real*>(::operator new(n * sizeof(Real), alignment)));
}

}  // namespace slimpack::kernels
