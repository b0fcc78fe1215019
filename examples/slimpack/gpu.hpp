#pragma once

#include <cstddef>
#include <string>

#include "slimpack/model/attention_choice.hpp"

namespace slimpack::command {

/// Checks that this slimpack was built for GPUs. @throws InvalidInput if not.
void require_cuda();

/// Checks that this machine has a GPU for `--device cuda`, and takes none. @throws InvalidInput saying what is missing.
///
/// Tests say in SLIMPACK_TEST_GPU what is found here and in `use_gpu` in the place of this machine's GPUs: none, driver (too
/// old a one), architecture (too old a GPU), code (a GPU that there is none for), or good.
void require_gpu();

/// Makes a GPU of this machine the calling thread's: the machine's ranks take its GPUs in turn.
/// @returns bytes of it that are free. @throws InvalidInput saying what is missing.
double use_gpu(std::size_t local_rank);

/// Reads `--attention`. @param cuda whether there is `--device cuda`. @throws InvalidInput for what it can't be; also if cuDNN's
/// is asked for, and was not built.
[[nodiscard]] AttentionChoice attention_from(const std::string& attention, bool cuda);

}  // namespace slimpack::command
