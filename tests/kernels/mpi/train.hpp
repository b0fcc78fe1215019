#pragma once

#include "kernels/transport/mpi.hpp"

namespace slimpack::testing {

/// This rank's, while tests run.
extern kernels::MpiTransport* own_rank;

}  // namespace slimpack::testing
