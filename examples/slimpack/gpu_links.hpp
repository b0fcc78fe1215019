#pragma once

#include <algorithm>

#include "kernels/cuda/device.hpp"
#include "kernels/transport/collectives.hpp"
#include "kernels/transport/nccl_links.hpp"
#include "train_options.hpp"

namespace slimpack::command {

/// Whether no two ranks have the same current GPU. All ranks have to call it, and get the same answer.
template <kernels::Transport T>
[[nodiscard]] bool have_own_gpus(T& transport) {
  const auto own = kernels::cuda::use_device({.index = kernels::cuda::current_device()}).uuid;
  auto all = kernels::Group<T>(transport).all_gather_value(own);
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

/// Whether NCCL moves what goes between ranks. All ranks have to call it, and get the same answer.
/// @throws InvalidInput if it was asked for, and ranks share a GPU.
template <kernels::Transport T>
[[nodiscard]] bool by_nccl(T& transport, const TrainOptions& options) {
  if (options.links == LinkKind::host || options.ranks == RankKind::threads || transport.size() == 1)
    return false;
  const bool own = have_own_gpus(transport);
  require(own || options.links != LinkKind::nccl,
          "--links is 'nccl', but ranks share a GPU; expected one for each rank, or --links host");
  return own;
}

}  // namespace slimpack::command
