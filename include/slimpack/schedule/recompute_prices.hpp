#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/schedule/checkpoint_windows.hpp"
#include "slimpack/schedule/offload_choice.hpp"
#include "slimpack/schedule/offload_seconds.hpp"
#include "slimpack/schedule/pack_pricer.hpp"
#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// What the packs of one schedule take with any recomputation and offloading. Layers are priced when they are first asked about.
/// Keeps its memory between calls.
class RecomputePrices {
 public:
  /// @param prices, memory of the pipelines' kind. Both have to outlive this.
  RecomputePrices(GroupPrices& prices, const Memory& memory)
      : prices_(prices), memory_(memory), pricer_(prices) {}

  /// Starts with the prices that a schedule has, nothing recomputed nor offloaded.
  void begin(const Schedule& packs) {
    base_ = packs.backward_times.seconds;
    base_forward_.clear();
    recompute_.clear();
    offload_.clear();
  }

  /// Forgets the prices of layers, but not those of packs.
  void forget_layers() {
    recompute_.clear();
    offload_.clear();
  }

  /// Sets the packs' seconds to those with this recomputation and offloading. @param fit has loaded the packs.
  void set(const Recompute& recompute, MemoryFit& fit, Schedule& out) {
    out.backward_times.seconds = base_;
    if (!base_forward_.empty()) out.forward_times.seconds = base_forward_;
    if (recompute.offloads()) {
      base_forward_ = out.forward_times.seconds;
      add_offload_seconds(prices_, recompute, fit.overlaps(), out);
    }
    if (!recompute.any()) return;
    const std::size_t stages = recompute.stages();
    const std::span<const double> layer = recompute_seconds(out);
    for (std::size_t k = 0; k < out.backward.packs.size(); ++k) {
      for (std::size_t s = 0; s < stages; ++s)
        out.backward_times.seconds[k * stages + s] += recompute(k, s) * layer[k * stages + s];
    }
  }

  /// Seconds of recomputing a layer, [backward pack * stages + stage]; empty if no layer may be.
  [[nodiscard]] std::span<const double> recompute_seconds(const Schedule& packs) {
    if (recompute_.empty() && memory_.recomputes())
      pricer_.price_recompute(packs.backward, packs.backward_times.sharing, recompute_);
    return recompute_;
  }

  /// From now on layers may wait in the host's memory as well.
  void allow_offload(const Schedule& packs) {
    price_offload(prices_, packs.backward, memory_.stages(), offload_);
  }
  [[nodiscard]] bool may_offload() const { return !offload_.empty(); }
  /// Seconds of a layer that waits in the host's memory, [backward pack * stages + stage]; empty if none may.
  [[nodiscard]] std::span<const double> offload_seconds() const { return offload_; }

  /// Turns tokens times layers that stages recompute at least into the seconds that this takes at least.
  /// @param tokens of the packs' rows. @param[in,out] least [pipeline * stages + stage]. O(pipelines * rows * stages).
  void to_least_seconds(const Schedule& packs, const RowTokens& tokens, std::span<double> least) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    const std::size_t stages = memory_.stages();
    const std::span<const double> layer = recompute_seconds(packs);
    rates_.assign(stages, infinite);
    for (std::size_t p = 0; p < tokens.pipelines(); ++p) {
      const PassRowTokens& rows = tokens.of(p, Pass::backward);
      for (std::size_t r = 0; r < rows.pack.size(); ++r) {
        if (rows.own[r] == 0) continue;
        for (std::size_t s = 0; s < stages; ++s)
          rates_[s] =
              std::min(rates_[s], layer[rows.pack[r] * stages + s] / static_cast<double>(rows.own[r]));
      }
    }
    for (std::size_t i = 0; i < least.size(); ++i)
      least[i] = least[i] > 0.0 ? least[i] * rates_[i % stages] : 0.0;
  }

 private:
  GroupPrices& prices_;
  const Memory& memory_;
  PackPricer pricer_;
  std::vector<double> base_;          // seconds of the backward packs without recomputation
  std::vector<double> base_forward_;  // of the forward packs without offloading; empty if none has any
  std::vector<double> recompute_;     // empty until it is needed
  std::vector<double> offload_;       // empty if no layer may wait in the host's memory
  std::vector<double> rates_;         // [stage] least seconds per token and layer
};

}  // namespace slimpack
