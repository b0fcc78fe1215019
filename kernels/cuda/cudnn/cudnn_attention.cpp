#include "kernels/cuda/cudnn/cudnn_attention.hpp"

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_batch.hpp"
#include "kernels/cuda/cudnn/cudnn_pack_private.hpp"
#include "kernels/cuda/runtime.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

namespace {

using cudnn::Handle, cudnn::PlannedPack, cudnn::Plans;

[[nodiscard]] CudnnBatch batch_of(const PackProblem& problem) {
  if (problem.gradients) require_one_slice_per_sample(problem.slices);
  return cudnn_batch(problem.slices, problem.tokens, problem.cache, problem.strides,
                     problem.gradients ? problem.gradient_pieces : std::span<const std::int32_t>());
}

/// For results in consecutive rows.
[[nodiscard]] PackProblem problem_of(const HeadShape& shape, std::span<const AttentionSlice> slices,
                                     const AttentionInput& in, bool gradients, std::size_t workspace) {
  detail::require_attention(shape, in);
  const auto width = static_cast<std::int64_t>(shape.query_width());
  return {.shape = shape,
          .slices = {slices.begin(), slices.end()},
          .tokens = in.q.rows,
          .cache = in.k.rows,
          .strides = {.q = static_cast<std::int64_t>(in.q.stride),
                      .k = static_cast<std::int64_t>(in.k.stride),
                      .v = static_cast<std::int64_t>(in.v.stride),
                      .out = width,
                      .dq = width},
          .gradients = gradients,
          .workspace = workspace};
}

/// A pack with its plans, and whether its gradients are added up in any order.
struct OrderedPack {
  PlannedPack pack;
  bool any_order = false;
};

/// @param plans_of gives plans for sizes
template <class PlansOf>
[[nodiscard]] OrderedPack make_pack(const PackProblem& problem, const CudnnOptions& options,
                                    const PlansOf& plans_of) {
  CudnnBatch batch = batch_of(problem);
  CudnnSizes sizes = cudnn_sizes(batch, problem);
  if (options.rounded) sizes = sizes.rounded();
  pad(batch, static_cast<std::size_t>(sizes.samples));
  PlannedPack pack{.shape = problem.shape,
                   .plans = {},
                   .lists = cudnn_lists(batch, problem.shape, problem.gradients),
                   .tokens = problem.tokens,
                   .gradient_rows = problem.gradients ? batch.gradient_rows.size() : 0,
                   .own_statistics = options.own_statistics};
  if (!problem.gradients) {
    pack.plans = plans_of(sizes);
    return {std::move(pack)};
  }
  const bool automatic = options.order == CudnnOrder::automatic;
  // No plan is made that can't fit.
  sizes.fixed_order =
      options.order == CudnnOrder::fixed ||
      (automatic && sizes.fixed_order_bytes() + 2 * pack.gradient_bytes() <= problem.workspace);
  pack.plans = plans_of(sizes);
  if (automatic && sizes.fixed_order && pack.workspace_bytes() > problem.workspace) {
    sizes.fixed_order = false;
    pack.plans = plans_of(sizes);
  }
  return {std::move(pack), !sizes.fixed_order};
}

/// @param out, lse are read alone.
[[nodiscard]] PackMatrices matrices(const AttentionInput& in, const MatrixView<const Bf16>& out,
                                    const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                                    const MatrixView<Bf16>& dq, const MatrixView<float>& dk,
                                    const MatrixView<float>& dv, const std::byte* lists,
                                    std::span<std::byte> workspace) {
  return {.in = in,
          .out = MatrixView<Bf16>(const_cast<Bf16*>(out.data), out.rows, out.cols),
          .lse = MatrixView<float>(const_cast<float*>(lse.data), lse.rows, lse.cols),
          .dout = dout,
          .dq = dq,
          .dk = dk,
          .dv = dv,
          .lists = lists,
          .workspace = workspace};
}

void require_rows(bool fits, const char* name) {
  require(fits, name,
          " has another shape or stride than cuDNN's plan was made for; expected the same, "
          "results in consecutive rows");
}

}  // namespace

struct CudnnAttention::State {
  PackProblem problem;
  Handle handle;
  PlannedPack pack;
  bool any_order = false;
  DeviceMemory lists;

  void require_input(const AttentionInput& in) const {
    const auto fits = [](const auto& m, std::size_t rows, std::size_t cols, std::int64_t stride) {
      return m.rows == rows && m.cols == cols && m.stride == static_cast<std::size_t>(stride);
    };
    const std::size_t qw = problem.shape.query_width(), kw = problem.shape.kv_width();
    require_rows(fits(in.q, problem.tokens, qw, problem.strides.q), "the queries' matrix");
    require_rows(fits(in.k, problem.cache, kw, problem.strides.k), "the keys' matrix");
    require_rows(fits(in.v, problem.cache, kw, problem.strides.v), "the values' matrix");
  }
  template <class T>
  static void require_result(const MatrixView<T>& m, std::size_t rows, std::size_t cols, const char* name) {
    require_rows(m.rows == rows && m.cols == cols && m.stride == cols, name);
  }
  void require_backward(const AttentionInput& in, const MatrixView<const Bf16>& out,
                        const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                        const MatrixView<const Bf16>& dq) const {
    require(problem.gradients, "cuDNN's plan is for the forward pass alone; expected one made for gradients");
    require_input(in);
    for (const auto& m : {out, dout, dq})
      require_result(m, problem.tokens, problem.shape.query_width(), "attention's output, or a gradient,");
    require_statistics(lse);
  }
  template <class T>
  void require_statistics(const MatrixView<T>& lse) const {
    const std::size_t heads = problem.shape.heads, tokens = problem.tokens;
    require_result(lse, pack.own_statistics ? tokens : heads, pack.own_statistics ? heads : tokens,
                   "the log-sum-exps' matrix");
  }
  void require_workspace(std::size_t bytes) const {
    require(bytes >= pack.workspace_bytes(), "the workspace has ", bytes, " bytes; expected ",
            pack.workspace_bytes());
  }
};

CudnnAttention::CudnnAttention(const HeadShape& shape, std::span<const AttentionSlice> slices,
                               const AttentionInput& in, bool gradients, const CudnnOptions& options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.handle = cudnn::make_handle();
  require(!slices.empty(), "there are no slices; expected at least one");
  s.problem = problem_of(shape, slices, in, gradients, options.workspace);
  auto [pack, any_order] = make_pack(
      s.problem, options, [&](const CudnnSizes& sizes) { return cudnn::make_plans(sizes, s.handle.get()); });
  s.pack = std::move(pack);
  s.any_order = any_order;
  const std::vector<std::byte>& lists = s.pack.lists.bytes;
  s.lists = DeviceMemory(lists.size());
  copy_bytes(s.lists.bytes().data(), lists.data(), lists.size(), nullptr);
  wait_for_device();
}

CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;
CudnnAttention& CudnnAttention::operator=(CudnnAttention&&) noexcept = default;

std::size_t CudnnAttention::workspace_bytes() const { return state_->pack.workspace_bytes(); }
bool CudnnAttention::any_order() const { return state_->any_order; }

void CudnnAttention::forward(const AttentionInput& in, const MatrixView<Bf16>& out,
                             const MatrixView<float>& lse, std::span<std::byte> workspace, Stream stream) {
  const State& s = *state_;
  s.require_input(in);
  State::require_result(out, s.problem.tokens, s.problem.shape.query_width(), "attention's output");
  s.require_statistics(lse);
  s.require_workspace(workspace.size());
  cudnn::run_forward(s.pack,
                     {.in = in,
                      .out = out,
                      .lse = lse,
                      .dout = {},
                      .dq = {},
                      .dk = {},
                      .dv = {},
                      .lists = s.lists.bytes().data(),
                      .workspace = workspace},
                     s.handle.get(), stream);
}

void CudnnAttention::backward(const AttentionInput& in, const MatrixView<const Bf16>& out,
                              const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                              const MatrixView<Bf16>& dq, const MatrixView<float>& dk,
                              const MatrixView<float>& dv, std::span<std::byte> workspace, Stream stream) {
  const State& s = *state_;
  s.require_backward(in, out, lse, dout, dq);
  s.require_workspace(workspace.size());
  cudnn::run_backward(s.pack, matrices(in, out, lse, dout, dq, dk, dv, s.lists.bytes().data(), workspace),
                      s.handle.get(), stream);
}

void CudnnAttention::backward_set(const AttentionInput& in, const MatrixView<const Bf16>& out,
                                  const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                                  const MatrixView<Bf16>& dq, const MatrixView<Bf16>& dk,
                                  const MatrixView<Bf16>& dv, std::span<std::byte> workspace, Stream stream) {
  const State& s = *state_;
  s.require_backward(in, out, lse, dout, dq);
  for (const auto& m : {dk, dv})
    State::require_result(m, s.pack.gradient_rows, s.problem.shape.kv_width(), "keys' gradient");
  const std::size_t bytes = s.pack.statistics_bytes() + s.pack.backward_bytes();
  require(workspace.size() >= bytes, "the workspace has ", workspace.size(), " bytes; expected ", bytes);
  cudnn::set_gradients(s.pack, matrices(in, out, lse, dout, dq, {}, {}, s.lists.bytes().data(), workspace),
                       dk.data, dv.data, workspace.data(), s.handle.get(), stream);
}

namespace {

/// A stage's packs by cuDNN: plans serve all packs of their sizes.
class CudnnLibrary {
 public:
  explicit CudnnLibrary(CudnnOrder order) : options_{.order = order, .rounded = true} {}

  [[nodiscard]] PlannedAttention<Stream> operator()(const PackProblem& problem) {
    PlannedAttention<Stream> out;
    if (!handle_) handle_ = cudnn::make_handle();
    try {
      OrderedPack made = make_pack(problem, options_, [&](const CudnnSizes& sizes) {
        return plans_.get(sizes.key(), [&] { return cudnn::make_plans(sizes, handle_.get()); });
      });
      const auto pack = std::make_shared<const PlannedPack>(std::move(made.pack));
      out.lists = pack->lists.bytes;
      out.workspace_bytes = pack->workspace_bytes();
      out.any_order = made.any_order;
      out.forward = [handle = handle_, pack](const PackMatrices& m, Stream stream) {
        cudnn::run_forward(*pack, m, handle.get(), stream);
      };
      out.backward = [handle = handle_, pack](const PackMatrices& m, Stream stream) {
        cudnn::run_backward(*pack, m, handle.get(), stream);
      };
    } catch (const std::exception& refusal) {
      out = {};
      out.refusal = refusal.what();
    }
    return out;
  }

 private:
  CudnnOptions options_;
  std::shared_ptr<cudnnContext> handle_;
  Recent<decltype(CudnnSizes{}.key()), std::shared_ptr<Plans>> plans_{most_cudnn_plans};
};

}  // namespace

AttentionLibrary<Stream> cudnn_library(CudnnOrder order) { return CudnnLibrary(order); }

std::optional<std::string> cudnn_refusal(const HeadShape& shape, std::span<const AttentionSlice> slices,
                                         const AttentionInput& in, bool gradients,
                                         const CudnnOptions& options) {
  return cudnn_refusal(problem_of(shape, slices, in, gradients, options.workspace), options);
}

std::optional<std::string> cudnn_refusal(const PackProblem& problem, const CudnnOptions& options) {
  constexpr int hopper = 90;
  std::optional<std::string> refusal;
  const auto ask = [&](const CudnnSizes& sizes) {
    refusal = cudnn::refusal_of(sizes, hopper);
    return cudnn::no_plans();
  };
  static_cast<void>(make_pack(problem, options, ask));
  return refusal;
}

}  // namespace slimpack::kernels::cuda
