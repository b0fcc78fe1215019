#include "kernels/cuda/cudnn/cudnn_attention.hpp"

#include <cstdint>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_batch.hpp"
#include "kernels/cuda/cudnn/cudnn_pack_private.hpp"
#include "kernels/cuda/runtime.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

namespace {

using cudnn::Handle, cudnn::PlannedPack, cudnn::Plans, cudnn::Sizes;

[[nodiscard]] CudnnBatch batch_of(const PackProblem& problem) {
  if (problem.gradients) require_one_slice_per_sample(problem.slices);
  return cudnn_batch(problem.slices, problem.tokens, problem.cache, problem.strides,
                     problem.gradients ? problem.gradient_pieces : std::span<const std::int32_t>());
}

[[nodiscard]] Sizes sizes_of(const PackProblem& p, const CudnnBatch& batch,
                             const CudnnOptions& options = {}) {
  return {.shape = p.shape,
          .strides = p.strides,
          .tokens = p.tokens,
          .samples = static_cast<std::int64_t>(batch.query_lengths.size()),
          .longest_queries = batch.longest_queries,
          .longest_keys = batch.longest_keys,
          .gradients = p.gradients,
          .deterministic = options.deterministic};
}

/// For results in consecutive rows.
[[nodiscard]] PackProblem problem_of(const HeadShape& shape, std::span<const AttentionSlice> slices,
                                     const AttentionInput& in, bool gradients) {
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
          .gradients = gradients};
}

[[nodiscard]] PlannedPack make_pack(const PackProblem& problem, const CudnnBatch& batch,
                                    std::shared_ptr<Plans> plans) {
  return {.shape = problem.shape,
          .plans = std::move(plans),
          .lists = cudnn_lists(batch, problem.shape.kv_width(), problem.gradients),
          .gradient_rows = problem.gradients ? batch.gradient_rows.size() : 0};
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
    require_result(lse, problem.shape.heads, problem.tokens, "the log-sum-exps' matrix");
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
  s.problem = problem_of(shape, slices, in, gradients);
  const CudnnBatch batch = batch_of(s.problem);
  s.pack =
      make_pack(s.problem, batch, cudnn::make_plans(sizes_of(s.problem, batch, options), s.handle.get()));
  const std::vector<std::byte>& lists = s.pack.lists.bytes;
  s.lists = DeviceMemory(lists.size());
  copy_bytes(s.lists.bytes().data(), lists.data(), lists.size(), nullptr);
  wait_for_device();
}

CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;
CudnnAttention& CudnnAttention::operator=(CudnnAttention&&) noexcept = default;

std::size_t CudnnAttention::workspace_bytes() const { return state_->pack.workspace_bytes(); }

void CudnnAttention::forward(const AttentionInput& in, const MatrixView<Bf16>& out,
                             const MatrixView<float>& lse, std::span<std::byte> workspace, Stream stream) {
  const State& s = *state_;
  s.require_input(in);
  State::require_result(out, s.problem.tokens, s.problem.shape.query_width(), "attention's output");
  State::require_result(lse, s.problem.shape.heads, s.problem.tokens, "the log-sum-exps' matrix");
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
  require(workspace.size() >= s.pack.backward_bytes(), "the workspace has ", workspace.size(),
          " bytes; expected ", s.pack.backward_bytes());
  cudnn::set_gradients(s.pack, matrices(in, out, lse, dout, dq, {}, {}, s.lists.bytes().data(), workspace),
                       dk.data, dv.data, workspace.data(), s.handle.get(), stream);
}

namespace {

/// A stage's packs by cuDNN: plans serve all packs of their sizes.
class CudnnLibrary {
 public:
  [[nodiscard]] PlannedAttention<Stream> operator()(const PackProblem& problem) {
    PlannedAttention<Stream> out;
    if (!handle_) handle_ = cudnn::make_handle();
    try {
      const CudnnBatch batch = batch_of(problem);
      const auto pack =
          std::make_shared<const PlannedPack>(make_pack(problem, batch, plans_of(sizes_of(problem, batch))));
      out.lists = pack->lists.bytes;
      out.workspace_bytes = pack->workspace_bytes();
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
  [[nodiscard]] std::shared_ptr<Plans> plans_of(const Sizes& sizes) {
    constexpr std::size_t most =
        512;  // plans take memory of the host, and packs of unequal lengths hardly come again
    if (plans_.size() >= most) plans_.clear();
    auto& plans = plans_[sizes.key()];
    if (!plans) plans = cudnn::make_plans(sizes, handle_.get());
    return plans;
  }

  std::shared_ptr<cudnnContext> handle_;
  std::map<decltype(Sizes{}.key()), std::shared_ptr<Plans>> plans_;
};

}  // namespace

AttentionLibrary<Stream> cudnn_library() { return CudnnLibrary(); }

std::optional<std::string> cudnn_refusal(const HeadShape& shape, std::span<const AttentionSlice> slices,
                                         const AttentionInput& in, bool gradients,
                                         const CudnnOptions& options) {
  return cudnn_refusal(problem_of(shape, slices, in, gradients), options);
}

std::optional<std::string> cudnn_refusal(const PackProblem& problem, const CudnnOptions& options) {
  const Sizes sizes = sizes_of(problem, batch_of(problem), options);
  constexpr int hopper = 90;
  return cudnn::refusal_of(sizes, hopper);
}

}  // namespace slimpack::kernels::cuda
