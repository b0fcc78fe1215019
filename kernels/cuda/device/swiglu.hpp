#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/cuda/device/block.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

template <int n>
struct SwigluKernel {
  MatrixView<const Bf16> gate_up;
  MatrixView<Bf16> out;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < out.rows; row += warp.blocks()) {
      const Bf16* gates = row_of(gate_up, row);
      for_each_in_block<n>(warp, out.cols, [&](int, std::size_t i) {
        Pack<n> gate = load<n>(gates + i);
        const Pack<n> up = load<n>(gates + out.cols + i);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) gate.at[j] *= up.at[j] / (1.0F + expf(-gate.at[j]));
        store(row_of(out, row) + i, gate);
      });
    }
  }
};

template <int n>
struct SwigluBackwardKernel {
  MatrixView<const Bf16> gate_up, dout;
  MatrixView<Bf16> dgate_up;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const std::size_t ffn = dout.cols;
    for (std::size_t row = warp.block(); row < dout.rows; row += warp.blocks()) {
      for_each_in_block<n>(warp, ffn, [&](int, std::size_t i) {
        Pack<n> gate = load<n>(row_of(gate_up, row) + i), up = load<n>(row_of(gate_up, row) + ffn + i);
        const Pack<n> d = load<n>(row_of(dout, row) + i);
        SLIMPACK_UNROLL
        for (int j = 0; j < n; ++j) {
          const float g = gate.at[j], s = 1.0F / (1.0F + expf(-g));
          gate.at[j] = d.at[j] * up.at[j] * s * (1.0F + g * (1.0F - s));
          up.at[j] = d.at[j] * g * s;
        }
        store(row_of(dgate_up, row) + i, gate);
        store(row_of(dgate_up, row) + ffn + i, up);
      });
    }
  }
};

/// `swiglu` by any launcher; see there.
template <class Launch>
void swiglu_by(Launch&& launch, const MatrixView<const Bf16>& gate_up, const MatrixView<Bf16>& out) {
  require(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols, "gate and up are ", gate_up.rows, " x ",
          gate_up.cols, "; expected ", out.rows, " x ", 2 * out.cols);
  if (out.rows == 0 || out.cols == 0) return;
  const Grid grid{.blocks = blocks_for(out.rows), .warps = 4};
  if (in_packs(gate_up) && in_packs(out)) {
    launch(SwigluKernel<8>{gate_up, out}, grid);
  } else {
    launch(SwigluKernel<1>{gate_up, out}, grid);
  }
}

/// `swiglu_backward` by any launcher; see there.
template <class Launch>
void swiglu_backward_by(Launch&& launch, const MatrixView<const Bf16>& gate_up,
                        const MatrixView<const Bf16>& dout, const MatrixView<Bf16>& dgate_up) {
  require(gate_up.rows == dout.rows && gate_up.cols == 2 * dout.cols && dgate_up.rows == dout.rows &&
              dgate_up.cols == gate_up.cols,
          "gate and up are ", gate_up.rows, " x ", gate_up.cols, " and their gradient ", dgate_up.rows, " x ",
          dgate_up.cols, "; expected ", dout.rows, " x ", 2 * dout.cols);
  if (dout.rows == 0 || dout.cols == 0) return;
  const Grid grid{.blocks = blocks_for(dout.rows), .warps = 4};
  if (in_packs(gate_up) && in_packs(dout) && in_packs(dgate_up)) {
    launch(SwigluBackwardKernel<8>{gate_up, dout, dgate_up}, grid);
  } else {
    launch(SwigluBackwardKernel<1>{gate_up, dout, dgate_up}, grid);
  }
}

}  // namespace slimpack::kernels::cuda
