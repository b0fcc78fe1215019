#pragma once

#include "kernels/profile.hpp"
#include "slimpack/cost/profile.hpp"

namespace slimpack::command {

/// Measures this machine's first GPU: all of a profile but its model, which is given, and its date.
/// @throws InvalidInput saying what is missing: a GPU, or how much of its memory.
kernels::BackEndTimes measure_gpu(const kernels::ProfileOptions& options, Profile& profile);

}  // namespace slimpack::command
