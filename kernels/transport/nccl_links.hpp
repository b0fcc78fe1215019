#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kernels/cuda/portable.hpp"
#include "kernels/device_links.hpp"
#include "kernels/transport/nccl.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/ranks.hpp"

namespace slimpack::kernels {

/// What a process has to set before it first uses a GPU, if its environment does not say something else: all
/// kernels are loaded at once, and streams have queues of their own. Otherwise a task could wait for a kernel
/// to be loaded, or in a queue after a receive that waits for other tasks.
void prepare_for_links();

/// @throws InvalidInput if the environment says something else than `prepare_for_links`, naming the variable.
void require_prepared_for_links();

/// Links between the GPUs of a run, one rank per process and GPU: the `DeviceLinks` of a `RankExecutor` on
/// CUDA's back end.
///
/// Hazards are those of `NcclGroup`. Receives wait on the GPU, and take some of its blocks meanwhile. All of
/// it is aborted when links are destroyed, so they go before streams and memory, as they do in an executor.
class NcclLinks {
 public:
  /// Links a rank to its neighbours and its stage's replicas. All ranks have to call it, each with a GPU of its own as its
  /// current one.
  /// @param host has to outlive the links. @param ranks of the run's plans.
  /// @param merged whether packs may be merged (DP-Merge): all replicas of a stage are then linked with each other, which
  /// takes some memory.
  /// @throws InvalidInput on all ranks if there are more or fewer than the plan has, or if a stage is of several
  /// tensor-parallel ranks, or pipelines have different numbers of stages; as `require_prepared_for_links`.
  /// @throws TransportError if a rank can't join.
  template <Transport T>
  NcclLinks(T& host, const PlanRanks& ranks, const TransportOptions& options = {}, bool merged = true)
      : NcclLinks(checked(host, ranks, options), ranks.place_of(host.rank()), merged) {}

  void send(Way way, std::span<const cuda::Bf16> rows, cuda::Stream stream) {
    link(way).send(other(way), rows, stream);
  }
  void receive(Way way, std::span<cuda::Bf16> rows, cuda::Stream stream) {
    link(way).receive(other(way), rows, stream);
  }
  void reduce_scatter(std::span<float> numbers, cuda::Stream stream) {
    replicas_.reduce_scatter(numbers, stream);
  }
  void all_reduce(std::span<float> numbers, cuda::Stream stream) { replicas_.all_reduce(numbers, stream); }
  void all_gather(std::span<float> numbers, cuda::Stream stream) { replicas_.all_gather(numbers, stream); }
  /// @throws InvalidInput for links that were made without `merged`.
  void exchange(std::span<const DeviceBlock> sends, std::span<const DeviceBlock> receives,
                cuda::Stream stream);

  [[nodiscard]] AsyncState state() const { return all_.state(); }
  void abort() { all_.abort(); }

 private:
  NcclLinks(NcclGroup all, const RankPlace& place, bool merged);

  template <Transport T>
  static NcclGroup checked(T& host, const PlanRanks& ranks, const TransportOptions& options) {
    static_cast<void>(ranks.place_in_run(host.rank(), host.size()));
    for (std::size_t p = 0; p < ranks.pipelines(); ++p) {
      require(ranks.tensor_ranks(p) == 1, "pipeline ", p, " has ", ranks.tensor_ranks(p),
              " tensor-parallel ranks; expected 1 with links between GPUs");
      require(ranks.stages(p) == ranks.stages(0), "pipeline ", p, " has ", ranks.stages(p),
              " stages and pipeline 0 ", ranks.stages(0), "; expected equally many with links between GPUs");
    }
    require_prepared_for_links();
    return NcclGroup(host, options);
  }

  /// Position of a way's other side: the earlier stage has 0.
  [[nodiscard]] static std::size_t other(Way way) {
    return way == Way::to_next || way == Way::from_next ? 1 : 0;
  }
  [[nodiscard]] NcclGroup& link(Way way) {
    auto& group = way == Way::from_before ? stages_.from_before
                  : way == Way::to_next   ? stages_.to_next
                  : way == Way::from_next ? stages_.from_next
                                          : stages_.to_before;
    return group.value();
  }

  NcclGroup all_, pipeline_, replicas_;
  StageLinks stages_;
  std::optional<NcclGroup> members_;
};

}  // namespace slimpack::kernels
