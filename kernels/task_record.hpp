#pragma once

#include "slimpack/core/ids.hpp"

namespace slimpack::kernels {

/// When a task ran, in seconds since its step began. Transfers are not part of it.
struct TaskRecord {
  Pass pass = Pass::forward;
  PackId pack = 0;
  double start = 0.0;
  double seconds = 0.0;
};

}  // namespace slimpack::kernels
