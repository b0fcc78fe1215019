#pragma once

namespace slimpack::kernels::cuda {

/// Whether the library was compiled for the current GPU, or for one whose code it can run.
[[nodiscard]] bool has_code_for_current_device();

}  // namespace slimpack::kernels::cuda
