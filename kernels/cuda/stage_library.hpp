#pragma once

// How a `DeviceStage` asks a library for its tasks' attention: included where one is instantiated.
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

/// Asks for the attention of all tasks of a step, once their keys' places are known.
template <StageDevice D>
void DeviceStage<D>::plan_attention(const StageProgram& program) {
  library_packs_.clear();
  require(options_.attention == AttentionChoice::ours || library_, "a library's attention is chosen for ",
          name(), ", but none was given; expected set_attention before its first step");
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::weight || part_.layers == 0) continue;
    if (options_.attention == AttentionChoice::ours) {
      library_packs_.add_ours();
    } else {
      library_packs_.add(task, ask_library(task));
    }
  }
}

template <StageDevice D>
PlannedAttention<typename D::Stream> DeviceStage<D>::ask_library(const StageTask& task) {
  PlannedAttention<typename D::Stream> attention;
  if (task.merged()) {
    attention.refusal = "members of a merged pack share its attention";
    return attention;
  }
  const HeadShape heads = part_.heads();
  const auto query = static_cast<std::int64_t>(heads.query_width()),
             all = query + 2 * static_cast<std::int64_t>(heads.kv_width()),
             unit = static_cast<std::int64_t>(this->unit());
  const bool backward = task.pass == Pass::backward;
  attention =
      library_({.shape = heads,
                .slices = attention_slices_of(task),
                .tokens = static_cast<std::size_t>(task.owned_tokens),
                .cache = plan_.units(),
                .strides = {.q = backward ? query : all, .k = unit, .v = unit, .out = query, .dq = all},
                .gradients = backward,
                .workspace = library_memory_.size(),
                .gradient_pieces = gradient_pieces(task)});
  if (attention.refusal.empty() && attention.workspace_bytes > library_memory_.size()) {
    attention.refusal =
        concat("it needs a workspace of ", attention.workspace_bytes, " bytes, of ", library_memory_.size());
  }
  return attention;
}

template <StageDevice D>
PackMatrices DeviceStage<D>::pack_matrices(std::size_t layer, const StageTask& task,
                                           const MatrixView<const Bf16>& q) {
  PackMatrices m{.in = attention_input(layer, task, q),
                 .out = work_.attention,
                 .lse = work_.lse,
                 .dout = work_.dattention,
                 .dq = {},
                 .dk = {},
                 .dv = {},
                 .lists = tables_.lists.data(),
                 .workspace = library_memory_};
  if (task.pass == Pass::forward) return m;
  m.dq = work_.dqkv.middle_cols(0, part_.heads().query_width());
  m.dk = key_rows<float>(layer, task, 0, 1);
  m.dv = key_rows<float>(layer, task, 1, 1);
  return m;
}

}  // namespace slimpack::kernels::cuda
