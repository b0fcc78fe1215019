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

/// Says in one line if tasks of a rank's last step did not run the library's attention that was asked for.
/// @returns whether it did.
template <class Stage>
bool tell_refusal(const Stage& stage, std::size_t rank) {
  if constexpr (requires { stage.attention_use(); }) {
    const auto& use = stage.attention_use();
    if (use.refusal.empty()) return false;
    std::clog << "rank " << rank << ": " << use.ours << " of a step's " << use.ours + use.library
              << " tasks run slimpack's attention, not cuDNN's; the first is " << use.refusal << std::endl;
    return true;
  }
  return false;
}

}  // namespace slimpack::command
