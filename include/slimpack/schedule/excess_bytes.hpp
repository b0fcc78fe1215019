#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "slimpack/schedule/held_bytes.hpp"
#include "slimpack/schedule/leads.hpp"

namespace slimpack {

/// What backward packs are taken to do where their workspace counts.
enum class PackWorkspace : std::uint8_t {
  recomputing,  ///< all layers
  offloading,   ///< the same, and some layers of all packs are on their way from or to the host's memory
};

/// Bytes that a stage of one pipeline needs above its room if all it holds is kept from the beginning, and nothing is recomputed;
/// only the workspace is as `PackWorkspace` says.
class ExcessBytes {
 public:
  /// @param most_task no task of the stage needs more workspace; what is on its way is not in it.
  ExcessBytes(const Memory& memory, const StageBytes& held, std::size_t s, PackWorkspace workspace,
              double most_task)
      : memory_(memory), held_(held), stage_(s), workspace_(workspace), most_task_(most_task) {}

  /// From the end of backward row `k` - 1 to that of row `k`. Not positive if that fits. Tasks are priced only where the most that
  /// one needs would be too much. O(forward rows in between).
  [[nodiscard]] double operator()(const LeadTable& leads, std::size_t k) const {
    const double room = memory_.room_bytes(stage_);
    const std::size_t lead = leads(k, stage_);
    const double live = held_.activations(lead, k);
    double peak = 0.0;
    if (may_exceed(room, live + held_.kv_gradients(k, k))) {
      for (std::size_t r = k == 0 ? 0 : leads(k - 1, stage_); r < lead; ++r) {
        if (held_.forward().pack[r] != no_pack)
          peak = std::max(peak, live + held_.kv_gradients(k, k) + held_.forward_workspace(r) +
                                    transit(held_.forward().own[r]));
      }
    }
    if (held_.backward().pack[k] != no_pack && may_exceed(room, live + held_.kv_gradients(k + 1, k)))
      peak = std::max(peak, live + held_.kv_gradients(k + 1, k) +
                                held_.backward_workspace(k, memory_.recompute_limit(stage_)) +
                                transit(held_.backward().own[k]));
    return peak - room;
  }

 private:
  [[nodiscard]] bool may_exceed(double room, double bytes) const {
    return workspace_ == PackWorkspace::offloading || bytes + most_task_ > room;
  }
  [[nodiscard]] double transit(Tokens tokens) const {
    return workspace_ == PackWorkspace::offloading ? memory_.transit_bytes(stage_, tokens) : 0.0;
  }

  const Memory& memory_;
  StageBytes held_;
  std::size_t stage_;
  PackWorkspace workspace_;
  double most_task_;
};

}  // namespace slimpack
