#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/cuda/gemm_layout.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/gemm.hpp"
#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::cuda {

/// Matrix products by cuBLASLt: bf16 factors, sums in float, results in bf16 or float. All data lies in the
/// GPU's memory. Asks cuBLASLt for its choice once per shape and keeps it. One object serves one thread, on
/// one GPU, and work in one stream at a time, since products share the workspace.
class Gemm {
 public:
  /// @param workspace memory of the GPU, 32 MiB on Hopper for all of cuBLASLt's ways; none is allowed
  /// @throws InvalidInput without a GPU, as `require_reachable`; std::runtime_error if cuBLASLt can't start.
  explicit Gemm(std::span<std::byte> workspace);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  /// The product of a and b, or its sum with c: see `multiply` and its neighbours in kernels/math/gemm.hpp.
  /// @throws InvalidInput naming the shapes if they don't fit; std::runtime_error if cuBLASLt has no way
  /// for them. O(m n k).
  void run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
           const MatrixView<Bf16>& c, Update update, Stream stream);
  void run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
           const MatrixView<float>& c, Update update, Stream stream);

 private:
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace slimpack::kernels::cuda
