#include "kernels/cuda/cudnn/cudnn_attention.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/accumulate_rows.hpp"
#include "kernels/cuda/check_private.hpp"
#include "kernels/cuda/cudnn/cudnn_batch.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/runtime.hpp"

namespace slimpack::kernels::cuda {

namespace {

namespace fe = cudnn_frontend;
using TensorHandle = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Names of a graph's tensors, by which data is given to it.
enum Uid : std::int64_t {
  uid_q = 1,
  uid_k,
  uid_v,
  uid_out,
  uid_lse,
  uid_dout,
  uid_dq,
  uid_dk,
  uid_dv,
  uid_q_offsets,
  uid_k_offsets,
  uid_v_offsets,
  uid_out_offsets,
  uid_lse_offsets,
  uid_dk_offsets,
  uid_query_lengths,
  uid_key_lengths
};

void check_fe(fe::error_t error, std::string_view what) {
  if (error.is_good()) return;
  throw std::runtime_error(concat("cuDNN error in ", what, ": ", error.get_message()));
}

void check_cudnn(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw std::runtime_error(
      concat("cuDNN error ", static_cast<int>(status), " (", cudnnGetErrorString(status), ") in ", what));
}

/// A pack's sizes, from which both graphs are made.
struct Problem {
  HeadShape shape;
  CudnnBatch batch;
  AttentionStrides strides;
  std::size_t tokens = 0, cache = 0;

  [[nodiscard]] std::int64_t samples() const { return static_cast<std::int64_t>(batch.query_lengths.size()); }
  [[nodiscard]] float scale() const {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  }
};

[[nodiscard]] Problem problem_of(const HeadShape& shape, std::span<const AttentionSlice> slices,
                                 const AttentionInput& in, bool gradients) {
  detail::require_attention(shape, in);
  if (gradients) require_one_slice_per_sample(slices);
  Problem p{.shape = shape,
            .batch = {},
            .strides = {.q = static_cast<std::int64_t>(in.q.stride),
                        .k = static_cast<std::int64_t>(in.k.stride),
                        .v = static_cast<std::int64_t>(in.v.stride),
                        .out = static_cast<std::int64_t>(shape.query_width())},
            .tokens = in.q.rows,
            .cache = in.k.rows};
  p.batch = cudnn_batch(slices, in.q.rows, in.k.rows, p.strides);
  return p;
}

/// A graph in the making.
class Builder {
 public:
  /// @param capability of the GPU, 10 * major + minor; 0 for the current one
  explicit Builder(const Problem& problem, int capability = 0) : p_(problem) {
    if (capability > 0) graph_.set_sm_version(capability);
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    query_lengths_ = lengths(uid_query_lengths);
    key_lengths_ = lengths(uid_key_lengths);
  }

  [[nodiscard]] fe::graph::Graph forward() && {
    const TensorHandle q = input(uid_q, query_rows(p_.strides.q), offsets(uid_q_offsets)),
                       k = input(uid_k, key_rows(p_.strides.k), offsets(uid_k_offsets)),
                       v = input(uid_v, key_rows(p_.strides.v), offsets(uid_v_offsets));
    auto [out, lse] = graph_.sdpa(
        q, k, v, masked(fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true)));
    output(out, uid_out, query_rows(p_.strides.out), offsets(uid_out_offsets));
    output(lse, uid_lse, lse_rows(), offsets(uid_lse_offsets));
    lse->set_data_type(fe::DataType_t::FLOAT);
    return std::move(graph_);
  }

  [[nodiscard]] fe::graph::Graph backward(bool deterministic) && {
    const TensorHandle out_offsets = offsets(uid_out_offsets), dk_offsets = offsets(uid_dk_offsets);
    const TensorHandle q = input(uid_q, query_rows(p_.strides.q), offsets(uid_q_offsets)),
                       k = input(uid_k, key_rows(p_.strides.k), offsets(uid_k_offsets)),
                       v = input(uid_v, key_rows(p_.strides.v), offsets(uid_v_offsets)),
                       out = input(uid_out, query_rows(p_.strides.out), out_offsets),
                       dout = input(uid_dout, query_rows(p_.strides.out), out_offsets),
                       lse = input(uid_lse, lse_rows(), offsets(uid_lse_offsets));
    lse->set_data_type(fe::DataType_t::FLOAT);
    auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, out, dout, lse,
                                             masked(fe::graph::SDPA_backward_attributes()
                                                        .set_name("attention_backward")
                                                        .set_deterministic_algorithm(deterministic)));
    const auto kv_width = static_cast<std::int64_t>(p_.shape.kv_width());
    output(dq, uid_dq, query_rows(p_.strides.out), out_offsets);
    output(dk, uid_dk, key_rows(kv_width), dk_offsets);
    output(dv, uid_dv, key_rows(kv_width), dk_offsets);
    return std::move(graph_);
  }

 private:
  /// Samples, heads, tokens and numbers of a tensor, and how far apart they are.
  struct Extent {
    std::vector<std::int64_t> sizes, strides;
  };

  [[nodiscard]] Extent rows(std::size_t heads, std::int64_t tokens, std::int64_t stride) const {
    const auto dim = static_cast<std::int64_t>(p_.shape.head_dim);
    return {{p_.samples(), static_cast<std::int64_t>(heads), tokens, dim}, {tokens * stride, dim, stride, 1}};
  }
  [[nodiscard]] Extent query_rows(std::int64_t stride) const {
    return rows(p_.shape.heads, p_.batch.longest_queries, stride);
  }
  [[nodiscard]] Extent key_rows(std::int64_t stride) const {
    return rows(p_.shape.kv_heads, p_.batch.longest_keys, stride);
  }
  [[nodiscard]] Extent lse_rows() const {
    const auto heads = static_cast<std::int64_t>(p_.shape.heads),
               tokens = static_cast<std::int64_t>(p_.tokens);
    return {{p_.samples(), heads, p_.batch.longest_queries, 1}, {heads * tokens, tokens, 1, 1}};
  }

  [[nodiscard]] TensorHandle list(Uid uid, std::int64_t size, fe::DataType_t type) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(concat("t", static_cast<int>(uid)))
                             .set_uid(uid)
                             .set_dim({size, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }
  [[nodiscard]] TensorHandle offsets(Uid uid) { return list(uid, p_.samples() + 1, fe::DataType_t::INT64); }
  [[nodiscard]] TensorHandle lengths(Uid uid) { return list(uid, p_.samples(), fe::DataType_t::INT32); }

  [[nodiscard]] TensorHandle input(Uid uid, const Extent& extent, const TensorHandle& offsets) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(concat("t", static_cast<int>(uid)))
                             .set_uid(uid)
                             .set_dim(extent.sizes)
                             .set_stride(extent.strides)
                             .set_ragged_offset(offsets));
  }
  static void output(const TensorHandle& tensor, Uid uid, const Extent& extent, const TensorHandle& offsets) {
    tensor->set_output(true)
        .set_uid(uid)
        .set_dim(extent.sizes)
        .set_stride(extent.strides)
        .set_ragged_offset(offsets);
  }

  /// The last query sees the last key, whatever stands before.
  template <class Attributes>
  [[nodiscard]] Attributes masked(Attributes attributes) const {
    attributes.set_causal_mask_bottom_right(true)
        .set_attn_scale(p_.scale())
        .set_padding_mask(true)
        .set_seq_len_q(query_lengths_)
        .set_seq_len_kv(key_lengths_);
    return attributes;
  }

  const Problem& p_;
  fe::graph::Graph graph_;
  TensorHandle query_lengths_, key_lengths_;
};

struct DestroyHandle {
  void operator()(cudnnHandle_t handle) const { static_cast<void>(cudnnDestroy(handle)); }
};

/// Lists one behind another in the GPU's memory, with each one's begin by name.
struct Lists {
  DeviceMemory memory;
  std::unordered_map<std::int64_t, void*> begins;
};

[[nodiscard]] Lists upload_lists(const Problem& p) {
  const CudnnBatch& b = p.batch;
  std::vector<std::int64_t> dk;
  const auto kv_width = static_cast<std::int64_t>(p.shape.kv_width());
  for (const std::int64_t offset : b.k) dk.push_back(offset / p.strides.k * kv_width);
  const std::pair<Uid, std::span<const std::byte>> all[] = {
      {uid_q_offsets, std::as_bytes(std::span(b.q))},
      {uid_k_offsets, std::as_bytes(std::span(b.k))},
      {uid_v_offsets, std::as_bytes(std::span(b.v))},
      {uid_out_offsets, std::as_bytes(std::span(b.out))},
      {uid_lse_offsets, std::as_bytes(std::span(b.lse))},
      {uid_dk_offsets, std::as_bytes(std::span<const std::int64_t>(dk))},
      {uid_query_lengths, std::as_bytes(std::span(b.query_lengths))},
      {uid_key_lengths, std::as_bytes(std::span(b.key_lengths))}};
  constexpr std::size_t line = 256;
  std::size_t bytes = 0;
  for (const auto& [uid, list] : all) bytes += (list.size() + line - 1) / line * line;
  Lists out{.memory = DeviceMemory(bytes), .begins = {}};
  std::byte* at = out.memory.bytes().data();
  for (const auto& [uid, list] : all) {
    copy_bytes(at, list.data(), list.size(), nullptr);
    out.begins[uid] = at;
    at += (list.size() + line - 1) / line * line;
  }
  wait_for_device();
  return out;
}

void require_rows(bool fits, const char* name) {
  require(fits, name,
          " has another shape or stride than cuDNN's plan was made for; expected the same, "
          "rows of results one behind another");
}

}  // namespace

struct CudnnAttention::State {
  Problem problem;
  std::unique_ptr<cudnnContext, DestroyHandle> handle;
  Lists lists;
  fe::graph::Graph forward, backward;
  bool has_backward = false;
  std::size_t forward_bytes = 0, backward_bytes = 0;

  /// Bytes of the gradients of keys, or of values.
  [[nodiscard]] std::size_t gradient_bytes() const {
    return has_backward ? (problem.cache * problem.shape.kv_width() * sizeof(Bf16) + 255) / 256 * 256 : 0;
  }

  [[nodiscard]] std::size_t plan(fe::graph::Graph& graph) const {
    check_fe(graph.build(handle.get(), {fe::HeurMode_t::A}), "planning attention");
    std::int64_t bytes = 0;
    check_fe(graph.get_workspace_size(bytes), "asking for attention's workspace");
    return static_cast<std::size_t>(bytes);
  }

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

  /// Runs a graph with its own data and the lists.
  void run(fe::graph::Graph& graph, std::unordered_map<std::int64_t, void*> data, void* workspace,
           Stream stream) const {
    data.insert(lists.begins.begin(), lists.begins.end());
    check_cudnn(cudnnSetStream(handle.get(), stream), "choosing a stream");
    check_fe(graph.execute(handle.get(), data, workspace), "attention");
  }
};

CudnnAttention::CudnnAttention(const HeadShape& shape, std::span<const AttentionSlice> slices,
                               const AttentionInput& in, bool gradients, const CudnnOptions& options)
    : state_(std::make_unique<State>()) {
  require_reachable(probe_devices(), 0);
  State& s = *state_;
  s.problem = problem_of(shape, slices, in, gradients);
  require(!slices.empty(), "there are no slices; expected at least one");
  cudnnHandle_t handle = nullptr;
  check_cudnn(cudnnCreate(&handle), "starting cuDNN");
  s.handle.reset(handle);
  s.lists = upload_lists(s.problem);
  s.forward = Builder(s.problem).forward();
  s.forward_bytes = s.plan(s.forward);
  if (!gradients) return;
  s.has_backward = true;
  s.backward = Builder(s.problem).backward(options.deterministic);
  s.backward_bytes = s.plan(s.backward);
}

CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;
CudnnAttention& CudnnAttention::operator=(CudnnAttention&&) noexcept = default;

std::size_t CudnnAttention::workspace_bytes() const {
  return std::max(state_->forward_bytes, 2 * state_->gradient_bytes() + state_->backward_bytes);
}

void CudnnAttention::forward(const AttentionInput& in, const MatrixView<Bf16>& out,
                             const MatrixView<float>& lse, std::span<std::byte> workspace, Stream stream) {
  State& s = *state_;
  s.require_input(in);
  State::require_result(out, s.problem.tokens, s.problem.shape.query_width(), "attention's output");
  State::require_result(lse, s.problem.shape.heads, s.problem.tokens, "the log-sum-exps' matrix");
  require(workspace.size() >= workspace_bytes(), "the workspace has ", workspace.size(), " bytes; expected ",
          workspace_bytes());
  // cuDNN's interface has no place for data that is only read.
  s.run(s.forward,
        {{uid_q, const_cast<Bf16*>(in.q.data)},
         {uid_k, const_cast<Bf16*>(in.k.data)},
         {uid_v, const_cast<Bf16*>(in.v.data)},
         {uid_out, out.data},
         {uid_lse, lse.data}},
        workspace.data(), stream);
}

void CudnnAttention::backward(const AttentionInput& in, const MatrixView<const Bf16>& out,
                              const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                              const MatrixView<Bf16>& dq, const MatrixView<float>& dk,
                              const MatrixView<float>& dv, std::span<std::byte> workspace, Stream stream) {
  const State& s = *state_;
  require(workspace.size() >= workspace_bytes(), "the workspace has ", workspace.size(), " bytes; expected ",
          workspace_bytes());
  // Rows that belong to no sample stay 0.
  const std::size_t bytes = s.gradient_bytes(), rows = s.problem.cache, cols = s.problem.shape.kv_width();
  fill_bytes(workspace.first(2 * bytes), 0, stream);
  const MatrixView<Bf16> set_dk(reinterpret_cast<Bf16*>(workspace.data()), rows, cols),
      set_dv(reinterpret_cast<Bf16*>(workspace.data() + bytes), rows, cols);
  backward_set(in, out, lse, dout, dq, set_dk, set_dv, workspace.subspan(2 * bytes), stream);
  accumulate_rows(MatrixView<const Bf16>(set_dk), dk, stream);
  accumulate_rows(MatrixView<const Bf16>(set_dv), dv, stream);
}

void CudnnAttention::backward_set(const AttentionInput& in, const MatrixView<const Bf16>& out,
                                  const MatrixView<const float>& lse, const MatrixView<const Bf16>& dout,
                                  const MatrixView<Bf16>& dq, const MatrixView<Bf16>& dk,
                                  const MatrixView<Bf16>& dv, std::span<std::byte> workspace, Stream stream) {
  State& s = *state_;
  const Problem& p = s.problem;
  require(s.has_backward, "cuDNN's plan is for the forward pass alone; expected one made for gradients");
  s.require_input(in);
  for (const auto& m : {out, dout, MatrixView<const Bf16>(dq)}) {
    State::require_result(m, p.tokens, p.shape.query_width(), "attention's output, or a gradient,");
  }
  for (const auto& m : {dk, dv}) State::require_result(m, p.cache, p.shape.kv_width(), "a key's gradient");
  State::require_result(lse, p.shape.heads, p.tokens, "the log-sum-exps' matrix");
  require(workspace.size() >= s.backward_bytes, "the workspace has ", workspace.size(), " bytes; expected ",
          s.backward_bytes);
  s.run(s.backward,
        {{uid_q, const_cast<Bf16*>(in.q.data)},
         {uid_k, const_cast<Bf16*>(in.k.data)},
         {uid_v, const_cast<Bf16*>(in.v.data)},
         {uid_out, const_cast<Bf16*>(out.data)},
         {uid_dout, const_cast<Bf16*>(dout.data)},
         {uid_lse, const_cast<float*>(lse.data)},
         {uid_dq, dq.data},
         {uid_dk, dk.data},
         {uid_dv, dv.data}},
        workspace.data(), stream);
}

std::optional<std::string> cudnn_refusal(const HeadShape& shape, std::span<const AttentionSlice> slices,
                                         const AttentionInput& in, bool gradients,
                                         const CudnnOptions& options) {
  const Problem p = problem_of(shape, slices, in, gradients);
  const auto refusal = [](fe::graph::Graph graph) -> std::optional<std::string> {
    fe::error_t error = graph.validate();
    if (error.is_good()) return std::nullopt;
    return error.get_message();
  };
  constexpr int hopper = 90;
  auto forward = refusal(Builder(p, hopper).forward());
  if (forward || !gradients) return forward;
  return refusal(Builder(p, hopper).backward(options.deterministic));
}

}  // namespace slimpack::kernels::cuda
