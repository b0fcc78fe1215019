#pragma once

#include <cstddef>

namespace slimpack::command {

/// Checks that this machine has a GPU for `--device cuda`. @throws InvalidInput saying what is missing.
void require_gpu();

/// Makes a GPU of this machine the calling thread's: the machine's ranks take its GPUs in turn.
/// @returns bytes of it that are free. @throws InvalidInput saying what is missing.
double use_gpu(std::size_t local_rank);

}  // namespace slimpack::command
