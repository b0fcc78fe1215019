#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "slimpack/core/ids.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/exec/lifetime.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/schedule/task.hpp"

namespace slimpack {

/// One task of a stage with all that a trainer needs to run it. The lists belong to the plan and the program
/// that the task comes from.
struct StageTask {
  Pass pass = Pass::forward;
  PackId pack = 0;
  std::span<const Slice> slices;             ///< of the pack; all members together
  std::span<const PipelineId> members;       ///< that run the pack in lockstep; more than one = DP-Merge
  std::size_t member = 0;                    ///< place of this pipeline among them
  KeyExchange exchange = KeyExchange::none;  ///< how the members' keys and queries meet; none: not stated
  std::int32_t recompute_layers = 0;         ///< recomputed layers of this stage; backward only
  std::int32_t offload_layers = 0;           ///< layers that wait in the host's memory; backward only
  Tokens tokens = 0;                         ///< of the slices
  std::span<const Slice> owned;              ///< what this member holds of the slices, in their order
  Tokens owned_tokens = 0;
  /// Of these, tokens whose rows this rank sends and receives: all, or those of its `TensorShare`.
  Tokens rows = 0;
  std::span<const RecomputeRange>
      recompute;  ///< forward: the slices, by the layers that are recomputed and offloaded
  std::span<const Release> releases;  ///< what may be freed after the task, on all members

  [[nodiscard]] bool merged() const { return members.size() > 1; }
};

/// The task's name in the plan, such as `F12`.
[[nodiscard]] inline std::string to_string(const StageTask& task) {
  return to_string(Task{task.pass, task.pack});
}

/// Number that tells the transfers between two ranks apart: a pack moves once between two stages. Receivers
/// have to match it: stages may run packs in different orders, so messages need not be used in the order in
/// which they were sent.
[[nodiscard]] constexpr std::uint64_t message_tag(Pass pass, PackId pack) {
  return 2 * std::uint64_t{pack} + (pass == Pass::forward ? 0 : 1);
}

}  // namespace slimpack
