#include <cudnn_frontend.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_pack_private.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/operators.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda::cudnn {

namespace fe = cudnn_frontend;

struct Plans {
  fe::graph::Graph forward, backward;
  std::size_t forward_bytes = 0, backward_bytes = 0;
};

namespace {

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

/// A graph in the making.
class Builder {
 public:
  /// @param capability of the GPU, 10 * major + minor; 0 for the current one
  explicit Builder(const CudnnSizes& sizes, int capability = 0) : p_(sizes) {
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
    auto attributes = masked(fe::graph::SDPA_backward_attributes()
                                 .set_name("attention_backward")
                                 .set_deterministic_algorithm(p_.fixed_order));
    // Or scratch would have the length of the batch's longest sequence for each of them.
    attributes.set_max_total_seq_len_q(p_.tokens);
    if (const auto most = p_.most_keys()) attributes.set_max_total_seq_len_kv(*most);
    auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, out, dout, lse, attributes);
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
  /// Statistics are [tokens x heads]: the front end divides its scratch by tokens, and takes their strides for it.
  [[nodiscard]] Extent lse_rows() const {
    const auto heads = static_cast<std::int64_t>(p_.shape.heads);
    return {{p_.samples, heads, p_.longest_queries, 1}, {p_.longest_queries * heads, 1, heads, 1}};
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

  const CudnnSizes& p_;
  fe::graph::Graph graph_;
  TensorHandle query_lengths_, key_lengths_;
};

[[nodiscard]] std::size_t plan(fe::graph::Graph& graph, cudnnHandle_t handle) {
  check_fe(graph.build(handle, {fe::HeurMode_t::A}), "planning attention");
  std::int64_t bytes = 0;
  check_fe(graph.get_workspace_size(bytes), "asking for attention's workspace");
  return static_cast<std::size_t>(bytes);
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

}  // namespace

Handle make_handle() {
  require_reachable(probe_devices(), 0);
  cudnnHandle_t handle = nullptr;
  check_cudnn(cudnnCreate(&handle), "starting cuDNN");
  return Handle(handle);
}

std::shared_ptr<Plans> make_plans(const CudnnSizes& sizes, cudnnHandle_t handle) {
  const auto plans = std::make_shared<Plans>();
  plans->forward = Builder(sizes).forward();
  plans->forward_bytes = plan(plans->forward, handle);
  if (!sizes.gradients) return plans;
  plans->backward = Builder(sizes).backward();
  plans->backward_bytes = plan(plans->backward, handle);
  return plans;
}

std::shared_ptr<Plans> no_plans() { return std::make_shared<Plans>(); }

std::optional<std::string> refusal_of(const CudnnSizes& sizes, int capability) {
  const auto refusal = [](fe::graph::Graph graph) -> std::optional<std::string> {
    fe::error_t error = graph.validate();
    if (error.is_good()) return std::nullopt;
    return error.get_message();
  };
  auto forward = refusal(Builder(sizes, capability).forward());
  if (forward || !sizes.gradients) return forward;
  return refusal(Builder(sizes, capability).backward());
}

std::size_t PlannedPack::backward_bytes() const { return plans->backward_bytes; }

std::size_t PlannedPack::workspace_bytes() const {
  return statistics_bytes() + std::max(plans->forward_bytes, 2 * gradient_bytes() + plans->backward_bytes);
}

void run_forward(const PlannedPack& pack, const PackMatrices& m, cudnnHandle_t handle, Stream stream) {
  auto* const statistics = pack.own_statistics ? m.lse.data : reinterpret_cast<float*>(m.workspace.data());
  run(pack.plans->forward, pack, m.lists,
      {{uid_q, const_cast<Bf16*>(m.in.q.data)},
       {uid_k, const_cast<Bf16*>(m.in.k.data)},
       {uid_v, const_cast<Bf16*>(m.in.v.data)},
       {uid_out, m.out.data},
       {uid_lse, statistics}},
      m.workspace.data() + pack.statistics_bytes(), handle, stream);
  if (!pack.own_statistics) from_token_order({statistics, pack.tokens * pack.shape.heads}, m.lse, stream);
}

void set_gradients(const PlannedPack& pack, const PackMatrices& m, Bf16* dk, Bf16* dv, std::byte* workspace,
                   cudnnHandle_t handle, Stream stream) {
  auto* const statistics = pack.own_statistics ? m.lse.data : reinterpret_cast<float*>(workspace);
  if (!pack.own_statistics) to_token_order(m.lse, {statistics, pack.tokens * pack.shape.heads}, stream);
  run(pack.plans->backward, pack, m.lists,
      {{uid_q, const_cast<Bf16*>(m.in.q.data)},
       {uid_k, const_cast<Bf16*>(m.in.k.data)},
       {uid_v, const_cast<Bf16*>(m.in.v.data)},
       {uid_out, m.out.data},
       {uid_dout, const_cast<Bf16*>(m.dout.data)},
       {uid_lse, statistics},
       {uid_dq, m.dq.data},
       {uid_dk, dk},
       {uid_dv, dv}},
      workspace + pack.statistics_bytes(), handle, stream);
}

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

}  // namespace slimpack::kernels::cuda::cudnn
