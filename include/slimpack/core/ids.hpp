#pragma once

#include <cstdint>

namespace slimpack {

/// Index of a sample in the batch, in the order in which the lengths were given.
using SampleId = std::uint32_t;
/// Index of a pack among the packs of its pass.
using PackId = std::uint32_t;
/// Index of a pipeline (a data-parallel replica).
using PipelineId = std::uint32_t;
/// A count or position of tokens. 64 bits: a million samples of a million tokens must not overflow.
using Tokens = std::int64_t;

/// What a task does with its pack. `weight` is the weight-gradient half of a backward pass, where a
/// schedule splits it off (zero-bubble schedules).
enum class Pass : std::uint8_t { forward, backward, weight };

}  // namespace slimpack
