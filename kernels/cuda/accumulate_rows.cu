#include "kernels/cuda/accumulate_rows.hpp"

#include "kernels/cuda/device/accumulate_rows.hpp"
#include "kernels/cuda/launcher_private.hpp"

namespace slimpack::kernels::cuda {

void accumulate_rows(const MatrixView<const Bf16>& from, const MatrixView<float>& to,
                     std::span<const std::int32_t> rows, Stream stream) {
  accumulate_rows_by(DeviceLauncher{stream}, from, to, rows);
}

}  // namespace slimpack::kernels::cuda
