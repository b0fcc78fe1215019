#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/cuda_stage.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/plan/plan.hpp"

// The stage that is timed, and the plans it runs.
namespace slimpack::bench {

/// Stages of two layers each, 16 of llama-13b's 40: what its first stage keeps of packs of 100K tokens grows
/// with the layers of the whole pipeline, and of all 40 it would be more than any GPU has. Tasks of a stage
/// take the same either way.
inline constexpr std::int32_t timed_stages = 8, timed_layers = 16;
inline constexpr std::size_t timed_stage = 4;  ///< in the middle: layers alone

/// llama-13b's shape with as many layers.
[[nodiscard]] Transformer timed_model();

/// The GPU's preset, by the name that its driver gives it; nullptr if there is none.
[[nodiscard]] const Device* preset_of(std::string_view gpu);

/// A plan, and the most memory that its stage has: as the simulator says, and as the stage will ask for,
/// which is known before it runs.
struct NamedPlan {
  std::string name;
  Plan plan;
  double simulated_bytes = 0.0, asked_bytes = 0.0;
};

/// A batch, and its plans.
struct StagePlans {
  std::vector<Tokens> lengths;
  Tokens context = 0;  ///< longer samples are cut
  std::vector<NamedPlan> plans;
};

/// Packs of whole samples and of slices for as many samples of the file that SLIMPACK_LENGTHS names, or of
/// examples/data, as asked for.
/// @throws InvalidInput if they do not fit.
[[nodiscard]] StagePlans plan_stage(const Device& device, std::size_t samples, Tokens context);

/// The same for a batch with the long tail: 768 samples of up to 102400 tokens, or the most of half, a
/// quarter, ... that fit.
[[nodiscard]] StagePlans plan_long_tail(const Device& device);

/// Prints the batch, and what each plan makes of it on the timed stage.
void print_plans(const StagePlans& plans);

}  // namespace slimpack::bench
