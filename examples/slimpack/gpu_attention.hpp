#pragma once

#include <cstddef>
#include <iostream>

#include "slimpack/model/attention_choice.hpp"
#include "train_options.hpp"
#ifdef SLIMPACK_COMMAND_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention.hpp"
#endif

namespace slimpack::command {

/// Gives a stage on a GPU the attention that is asked for; of a CPU's there is one alone.
template <class Stage>
void give_attention([[maybe_unused]] Stage& stage, [[maybe_unused]] const TrainOptions& options) {
#ifdef SLIMPACK_COMMAND_CUDNN
  if constexpr (requires { stage.set_attention(kernels::cuda::cudnn_library()); }) {
    if (options.attention == AttentionChoice::cudnn) stage.set_attention(kernels::cuda::cudnn_library());
  }
#endif
}

/// Says in a line each if tasks of a rank's last step did not run the library's attention that was asked for, or run it
/// with gradients in any order.
/// @returns whether it did.
template <class Stage>
bool tell_attention(const Stage& stage, std::size_t rank) {
  if constexpr (requires { stage.attention_use(); }) {
    const auto& use = stage.attention_use();
    const std::size_t tasks = use.ours + use.library;
    if (!use.refusal.empty()) {
      std::clog << "rank " << rank << ": " << use.ours << " of a step's " << tasks
                << " tasks run slimpack's attention, not cuDNN's; the first is " << use.refusal << std::endl;
    }
    if (use.any_order > 0) {
      std::clog << "rank " << rank << ": in " << use.any_order << " of a step's " << tasks
                << " tasks cuDNN adds up gradients in any order, and steps differ in their last bits; in a "
                   "fixed one "
                   "it would need a workspace of more than --attention-workspace"
                << std::endl;
    }
    return !use.refusal.empty() || use.any_order > 0;
  }
  return false;
}

}  // namespace slimpack::command
