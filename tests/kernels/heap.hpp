#pragma once

#include <cstddef>

// Counts what threads take with the alignment that all of the kernels' numbers have. The test binary's aligned
// operators new and delete do it (heap.cpp).
namespace slimpack::testing {

/// Bytes that this thread has taken and nobody has given back; and the most since `restart_heap_peak`. What another
/// thread gives back is not seen.
[[nodiscard]] double heap_in_use();
[[nodiscard]] double heap_peak();
void restart_heap_peak();

}  // namespace slimpack::testing
