#include "kernels/cuda/operators.hpp"

#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/device/adamw.hpp"
#include "kernels/cuda/device/embedding.hpp"
#include "kernels/cuda/device/head_exchange.hpp"
#include "kernels/cuda/device/rms_norm.hpp"
#include "kernels/cuda/device/rope.hpp"
#include "kernels/cuda/device/swiglu.hpp"
#include "kernels/cuda/launcher_private.hpp"

namespace slimpack::kernels::cuda {

void rms_norm(const MatrixView<const Bf16>& x, const MatrixView<const Bf16>& residual,
              const MatrixView<Bf16>& sum, std::span<const Bf16> weight, double epsilon,
              const MatrixView<Bf16>& y, Stream stream) {
  rms_norm_by(DeviceLauncher{stream}, x, residual, sum, weight, epsilon, y);
}

void rms_norm_backward(const MatrixView<const Bf16>& x, std::span<const Bf16> weight, double epsilon,
                       const MatrixView<const Bf16>& dy, const MatrixView<Bf16>& dx, std::span<float> dweight,
                       std::span<float> workspace, Stream stream) {
  rms_norm_backward_by(DeviceLauncher{stream}, x, weight, epsilon, dy, dx, dweight, workspace);
}

void rope_table(std::span<const std::int32_t> positions, std::size_t head_dim, double theta,
                std::span<float> table, Stream stream) {
  rope_table_by(DeviceLauncher{stream}, positions, head_dim, theta, table);
}

void rope(std::span<const float> table, std::size_t head_dim, const MatrixView<Bf16>& x, Stream stream) {
  rope_by(DeviceLauncher{stream}, table, head_dim, x, 1.0F);
}

void rope_backward(std::span<const float> table, std::size_t head_dim, const MatrixView<Bf16>& x,
                   Stream stream) {
  rope_by(DeviceLauncher{stream}, table, head_dim, x, -1.0F);
}

void swiglu(const MatrixView<const Bf16>& gate_up, const MatrixView<Bf16>& out, Stream stream) {
  swiglu_by(DeviceLauncher{stream}, gate_up, out);
}

void swiglu_backward(const MatrixView<const Bf16>& gate_up, const MatrixView<const Bf16>& dout,
                     const MatrixView<Bf16>& dgate_up, Stream stream) {
  swiglu_backward_by(DeviceLauncher{stream}, gate_up, dout, dgate_up);
}

void cross_entropy_part(const MatrixView<const Bf16>& logits, std::size_t first,
                        std::span<const std::int32_t> labels, std::span<LogitState> states, Stream stream) {
  cross_entropy_part_by(DeviceLauncher{stream}, logits, first, labels, states);
}

void cross_entropy_loss(std::span<const std::int32_t> labels, std::span<const LogitState> states, double* loss,
                        Stream stream) {
  cross_entropy_loss_by(DeviceLauncher{stream}, labels, states, loss);
}

void cross_entropy_backward(const MatrixView<Bf16>& logits, std::size_t first,
                            std::span<const std::int32_t> labels, std::span<const LogitState> states,
                            double scale, Stream stream) {
  cross_entropy_backward_by(DeviceLauncher{stream}, logits, first, labels, states, scale);
}

void adamw(std::span<float> weights, std::span<Bf16> copies, std::span<const float> gradients,
           std::span<float> first, std::span<float> second, std::int64_t step, const AdamWOptions& options,
           Stream stream) {
  adamw_by(DeviceLauncher{stream}, weights, copies, gradients, first, second, step, options);
}

void embedding(const MatrixView<const Bf16>& table, std::span<const std::int32_t> ids,
               const MatrixView<Bf16>& out, Stream stream) {
  embedding_by(DeviceLauncher{stream}, table, ids, out);
}

void embedding_backward(std::span<const std::int32_t> ids, std::span<const std::int32_t> begins,
                        std::span<const std::int32_t> tokens, const MatrixView<const Bf16>& dout,
                        const MatrixView<float>& dtable, Stream stream) {
  embedding_backward_by(DeviceLauncher{stream}, ids, begins, tokens, dout, dtable);
}

void accumulate_rows(const MatrixView<const Bf16>& from, const MatrixView<float>& to,
                     std::span<const std::int32_t> rows, Stream stream) {
  accumulate_rows_by(DeviceLauncher{stream}, from, to, rows);
}

void to_token_order(const MatrixView<float>& from, std::span<float> to, Stream stream) {
  token_order_by(DeviceLauncher{stream}, from, to, true);
}

void from_token_order(std::span<float> from, const MatrixView<float>& to, Stream stream) {
  token_order_by(DeviceLauncher{stream}, to, from, false);
}

}  // namespace slimpack::kernels::cuda
