#include "tests/kernels/heap.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "kernels/math/aligned.hpp"

namespace {

thread_local double in_use = 0.0, peak = 0.0;

}  // namespace

void* operator new(std::size_t bytes, std::align_val_t boundary) {
  const auto multiple = static_cast<std::size_t>(boundary);
  void* p =
      std::aligned_alloc(multiple, std::max<std::size_t>(1, (bytes + multiple - 1) / multiple) * multiple);
  if (p == nullptr) throw std::bad_alloc();
  in_use += static_cast<double>(malloc_usable_size(p));
  peak = std::max(peak, in_use);
  return p;
}

void operator delete(void* p, std::align_val_t) noexcept {
  if (p == nullptr) return;
  in_use -= static_cast<double>(malloc_usable_size(p));
  std::free(p);
}

namespace slimpack::testing {

double heap_in_use() { return in_use; }
double heap_peak() { return peak; }
void restart_heap_peak() { peak = in_use; }

}  // namespace slimpack::testing
