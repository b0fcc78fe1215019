#include "kernels/cuda/cudnn/cudnn_attention.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
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
  uid_dq_offsets,
  uid_gradient_offsets,
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
struct Sizes {
  HeadShape shape;
  AttentionStrides strides;
  std::size_t tokens = 0;
  std::int64_t samples = 0, longest_queries = 0, longest_keys = 0;
  bool gradients = false, deterministic = true;

  /// The same for packs that the same graphs serve.
  [[nodiscard]] auto key() const {
    return std::tuple(shape.heads, shape.kv_heads, shape.head_dim, strides.q, strides.k, strides.v,
                      strides.out, strides.dq, tokens, samples, longest_queries, longest_keys, gradients,
                      deterministic);
  }
  [[nodiscard]] float scale() const {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  }
};

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

/// Of results whose rows stand one behind another.
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

/// A graph in the making.
class Builder {
 public:
  /// @param capability of the GPU, 10 * major + minor; 0 for the current one
  explicit Builder(const Sizes& sizes, int capability = 0) : p_(sizes) {
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

  [[nodiscard]] fe::graph::Graph backward() && {
    const TensorHandle out_offsets = offsets(uid_out_offsets),
                       gradient_offsets = offsets(uid_gradient_offsets);
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
                                                        .set_deterministic_algorithm(p_.deterministic)));
    const auto kv_width = static_cast<std::int64_t>(p_.shape.kv_width());
    output(dq, uid_dq, query_rows(p_.strides.dq), offsets(uid_dq_offsets));
    output(dk, uid_dk, key_rows(kv_width), gradient_offsets);
    output(dv, uid_dv, key_rows(kv_width), gradient_offsets);
    return std::move(graph_);
  }

 private:
  /// Samples, heads, tokens and numbers of a tensor, and how far apart they are.
  struct Extent {
    std::vector<std::int64_t> sizes, strides;
  };

  [[nodiscard]] Extent rows(std::size_t heads, std::int64_t tokens, std::int64_t stride) const {
    const auto dim = static_cast<std::int64_t>(p_.shape.head_dim);
    return {{p_.samples, static_cast<std::int64_t>(heads), tokens, dim}, {tokens * stride, dim, stride, 1}};
  }
  [[nodiscard]] Extent query_rows(std::int64_t stride) const {
    return rows(p_.shape.heads, p_.longest_queries, stride);
  }
  [[nodiscard]] Extent key_rows(std::int64_t stride) const {
    return rows(p_.shape.kv_heads, p_.longest_keys, stride);
  }
  [[nodiscard]] Extent lse_rows() const {
    const auto heads = static_cast<std::int64_t>(p_.shape.heads),
               tokens = static_cast<std::int64_t>(p_.tokens);
    return {{p_.samples, heads, p_.longest_queries, 1}, {heads * tokens, tokens, 1, 1}};
  }

  [[nodiscard]] TensorHandle list(Uid uid, std::int64_t size, fe::DataType_t type) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(concat("t", static_cast<int>(uid)))
                             .set_uid(uid)
                             .set_dim({size, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }
  [[nodiscard]] TensorHandle offsets(Uid uid) { return list(uid, p_.samples + 1, fe::DataType_t::INT64); }
  [[nodiscard]] TensorHandle lengths(Uid uid) { return list(uid, p_.samples, fe::DataType_t::INT32); }

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

  const Sizes& p_;
  fe::graph::Graph graph_;
  TensorHandle query_lengths_, key_lengths_;
};

struct DestroyHandle {
  void operator()(cudnnHandle_t handle) const { static_cast<void>(cudnnDestroy(handle)); }
};

using Handle = std::unique_ptr<cudnnContext, DestroyHandle>;

[[nodiscard]] Handle make_handle() {
  require_reachable(probe_devices(), 0);
  cudnnHandle_t handle = nullptr;
  check_cudnn(cudnnCreate(&handle), "starting cuDNN");
  return Handle(handle);
}

/// cuDNN's plans for packs of one size.
struct Plans {
  fe::graph::Graph forward, backward;
  std::size_t forward_bytes = 0, backward_bytes = 0;
};

[[nodiscard]] std::size_t plan(fe::graph::Graph& graph, cudnnHandle_t handle) {
  check_fe(graph.build(handle, {fe::HeurMode_t::A}), "planning attention");
  std::int64_t bytes = 0;
  check_fe(graph.get_workspace_size(bytes), "asking for attention's workspace");
  return static_cast<std::size_t>(bytes);
}

[[nodiscard]] std::shared_ptr<Plans> make_plans(const Sizes& sizes, cudnnHandle_t handle) {
  const auto plans = std::make_shared<Plans>();
  plans->forward = Builder(sizes).forward();
  plans->forward_bytes = plan(plans->forward, handle);
  if (!sizes.gradients) return plans;
  plans->backward = Builder(sizes).backward();
  plans->backward_bytes = plan(plans->backward, handle);
  return plans;
}

/// A pack's plans and lists: what its attention takes, beside matrices.
struct PlannedPack {
  HeadShape shape;
  std::shared_ptr<Plans> plans;
  CudnnLists lists;
  std::size_t gradient_rows = 0;  ///< of keys, or of values; 0 without a backward pass

  /// Bytes of these.
  [[nodiscard]] std::size_t gradient_bytes() const {
    return (gradient_rows * shape.kv_width() * sizeof(Bf16) + 255) / 256 * 256;
  }
  [[nodiscard]] std::size_t workspace_bytes() const {
    return std::max(plans->forward_bytes, 2 * gradient_bytes() + plans->backward_bytes);
  }
};

[[nodiscard]] PlannedPack make_pack(const PackProblem& problem, const CudnnBatch& batch,
                                    std::shared_ptr<Plans> plans) {
  return {.shape = problem.shape,
          .plans = std::move(plans),
          .lists = cudnn_lists(batch, problem.shape.kv_width(), problem.gradients),
          .gradient_rows = problem.gradients ? batch.gradient_rows.size() : 0};
}

/// Runs a graph with its own data and the lists.
void run(fe::graph::Graph& graph, const PlannedPack& pack, const std::byte* lists,
         std::unordered_map<std::int64_t, void*> data, std::byte* workspace, cudnnHandle_t handle,
         Stream stream) {
  constexpr std::pair<Uid, CudnnList> all[] = {{uid_q_offsets, CudnnList::q},
                                               {uid_k_offsets, CudnnList::k},
                                               {uid_v_offsets, CudnnList::v},
                                               {uid_out_offsets, CudnnList::out},
                                               {uid_lse_offsets, CudnnList::lse},
                                               {uid_dq_offsets, CudnnList::dq},
                                               {uid_gradient_offsets, CudnnList::gradients},
                                               {uid_query_lengths, CudnnList::query_lengths},
                                               {uid_key_lengths, CudnnList::key_lengths}};
  // cuDNN's interface has no place for data that is only read.
  for (const auto& [uid, list] : all) data[uid] = const_cast<std::byte*>(lists) + pack.lists.begin(list);
  check_cudnn(cudnnSetStream(handle, stream), "choosing a stream");
  check_fe(graph.execute(handle, data, workspace), "attention");
}

void run_forward(const PlannedPack& pack, const PackMatrices& m, cudnnHandle_t handle, Stream stream) {
  run(pack.plans->forward, pack, m.lists,
      {{uid_q, const_cast<Bf16*>(m.in.q.data)},
       {uid_k, const_cast<Bf16*>(m.in.k.data)},
       {uid_v, const_cast<Bf16*>(m.in.v.data)},
       {uid_out, m.out.data},
       {uid_lse, m.lse.data}},
      m.workspace.data(), handle, stream);
}

/// Gradients as cuDNN has them: those of keys and values are set, of the samples' rows one behind another.
void set_gradients(const PlannedPack& pack, const PackMatrices& m, Bf16* dk, Bf16* dv, std::byte* workspace,
                   cudnnHandle_t handle, Stream stream) {
  run(pack.plans->backward, pack, m.lists,
      {{uid_q, const_cast<Bf16*>(m.in.q.data)},
       {uid_k, const_cast<Bf16*>(m.in.k.data)},
       {uid_v, const_cast<Bf16*>(m.in.v.data)},
       {uid_out, m.out.data},
       {uid_dout, const_cast<Bf16*>(m.dout.data)},
       {uid_lse, m.lse.data},
       {uid_dq, m.dq.data},
       {uid_dk, dk},
       {uid_dv, dv}},
      workspace, handle, stream);
}

/// cuDNN sets the gradients of keys and values where ours adds.
void run_backward(const PlannedPack& pack, const PackMatrices& m, cudnnHandle_t handle, Stream stream) {
  const std::size_t bytes = pack.gradient_bytes();
  auto* set_dk = reinterpret_cast<Bf16*>(m.workspace.data());
  auto* set_dv = reinterpret_cast<Bf16*>(m.workspace.data() + bytes);
  set_gradients(pack, m, set_dk, set_dv, m.workspace.data() + 2 * bytes, handle, stream);
  const std::span<const std::int32_t> rows(
      reinterpret_cast<const std::int32_t*>(m.lists + pack.lists.begin(CudnnList::gradient_rows)),
      pack.gradient_rows);
  const std::size_t width = pack.shape.kv_width();
  accumulate_rows(MatrixView<const Bf16>(set_dk, rows.size(), width), m.dk, rows, stream);
  accumulate_rows(MatrixView<const Bf16>(set_dv, rows.size(), width), m.dv, rows, stream);
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
          "rows of results one behind another");
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
  s.handle = make_handle();
  require(!slices.empty(), "there are no slices; expected at least one");
  s.problem = problem_of(shape, slices, in, gradients);
  const CudnnBatch batch = batch_of(s.problem);
  s.pack = make_pack(s.problem, batch, make_plans(sizes_of(s.problem, batch, options), s.handle.get()));
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
  run_forward(s.pack,
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
  run_backward(s.pack, matrices(in, out, lse, dout, dq, dk, dv, s.lists.bytes().data(), workspace),
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
  require(workspace.size() >= s.pack.plans->backward_bytes, "the workspace has ", workspace.size(),
          " bytes; expected ", s.pack.plans->backward_bytes);
  set_gradients(s.pack, matrices(in, out, lse, dout, dq, {}, {}, s.lists.bytes().data(), workspace), dk.data,
                dv.data, workspace.data(), s.handle.get(), stream);
}

namespace {

/// A stage's packs by cuDNN: plans serve all packs of their sizes.
class CudnnLibrary {
 public:
  [[nodiscard]] PlannedAttention<Stream> operator()(const PackProblem& problem) {
    PlannedAttention<Stream> out;
    if (!handle_) handle_ = make_handle();
    try {
      const CudnnBatch batch = batch_of(problem);
      const auto pack =
          std::make_shared<const PlannedPack>(make_pack(problem, batch, plans_of(sizes_of(problem, batch))));
      out.lists = pack->lists.bytes;
      out.workspace_bytes = pack->workspace_bytes();
      out.forward = [handle = handle_, pack](const PackMatrices& m, Stream stream) {
        run_forward(*pack, m, handle.get(), stream);
      };
      out.backward = [handle = handle_, pack](const PackMatrices& m, Stream stream) {
        run_backward(*pack, m, handle.get(), stream);
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
    if (!plans) plans = make_plans(sizes, handle_.get());
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
  const auto refusal = [](fe::graph::Graph graph) -> std::optional<std::string> {
    fe::error_t error = graph.validate();
    if (error.is_good()) return std::nullopt;
    return error.get_message();
  };
  constexpr int hopper = 90;
  auto forward = refusal(Builder(sizes, hopper).forward());
  if (forward || !problem.gradients) return forward;
  return refusal(Builder(sizes, hopper).backward());
}

}  // namespace slimpack::kernels::cuda
