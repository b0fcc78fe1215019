#pragma once

#include <array>

namespace slimpack {

/// Numbers of a plan file that do not follow from the others, so that `violations` can't find all wrong ones.
struct NotChecked {
  const char* field;  ///< as in the plan file
  const char* why;
};

/// All of them. Every other number of a plan file is recomputed and compared (docs/plan-format.md).
inline constexpr std::array<NotChecked, 18> not_checked{{
    {"version", "2 may stand where 1 would do"},
    {"model.vocab", "no FLOPs of layers depend on it"},
    {"device", "its constants are what a cost model is made of"},
    {"tokens", "lengths of deferred samples, of which no pack has any"},
    {"document_ids", "they come from the training data"},
    {"pipelines.tp", "where no devices are named"},
    {"pipelines.cp", "where no devices are named"},
    {"pipelines.devices", "any ids will do that no other stage has"},
    {"forward.transfer_seconds", "where no longest path goes through"},
    {"backward.transfer_seconds", "where no longest path goes through"},
    {"forward.block", "of a single pack"},
    {"backward.block", "of a single pack"},
    {"forward.per_document_slices", "where other slices of the pack could be meant"},
    {"backward.per_document_slices", "where other slices of the pack could be meant"},
    {"backward.recompute_layers", "up to the layers of the stage"},
    {"backward.offload_layers", "up to the layers of the stage"},
    {"step.lower_bound_seconds", "up to the step's seconds"},
    {"step.peak_bytes", "they follow from a memory model"},
}};

}  // namespace slimpack
