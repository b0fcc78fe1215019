#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <vector>

#include "kernels/cuda/arena_plan.hpp"
#include "kernels/cuda/arena_plan_walk.hpp"
#include "kernels/cuda/stage_memory.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

using namespace slimpack;
using namespace slimpack::kernels;

namespace {

/// As `CudaDevice`.
struct Device32 {
  static constexpr std::size_t product_workspace = std::size_t{32} << 20U;
};
using Sizes = cuda::DeviceSizes<Device32>;

struct Batch {
  std::size_t samples;
  Tokens context;
};

std::vector<Tokens> lengths_of(const Batch& batch) {
  std::ifstream file(SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
  std::vector<Tokens> lengths;
  for (Tokens n = 0; lengths.size() < batch.samples && file >> n;)
    lengths.push_back(std::min(n, batch.context));
  REQUIRE(lengths.size() == batch.samples);
  return lengths;
}

/// What a stage asks for, of what the simulator says that it needs at a time.
double asked_of_simulated(const Plan& plan, const BackEndMemory<Sizes>& memory, std::size_t stage) {
  const StageProgram program(plan, 0, stage);
  const StagePart part = stage_part(plan.model, plan, 0, stage);
  cuda::ArenaPlan arena(part, {});
  arena.begin_step(program);
  CHECK(arena.units() >= arena.used_units());
  const double simulated = memory_over_time(plan, time_plan(plan), memory).peak_bytes[0][stage];
  return (memory.static_bytes(stage) + static_cast<double>(arena.bytes())) / simulated;
}

}  // namespace

TEST_CASE("at real lengths, a stage asks for at most 3 % more than its simulated peak") {
  struct Case {
    Batch batch;
    std::int32_t stages;  // of two layers of llama-13b each
  };
  for (const auto& [batch, stages] : {Case{{768, 102400}, 8},
                                      {{768, 25600}, 8},
                                      {{768, 12800}, 8},
                                      {{512, 32768}, 8},
                                      {{256, 51200}, 8},
                                      {{1024, 32768}, 4},
                                      {{3000, 32768}, 2},
                                      {{1024, 32768}, 1}}) {
    Transformer model = transformer_preset("llama-13b");
    model.layers = 2 * stages;
    const Job job{model, device_preset("h200"), {.dp = 1, .pp = stages}};
    const BackEndMemory<Sizes> memory(model, split_layers(model.layers, stages), sizeof(float),
                                      {.limit_bytes = job.device.memory_bytes});
    const std::vector<Tokens> lengths = lengths_of(batch);
    for (const bool sliced : {false, true}) {
      const CalibratedCost cost(job);
      const Plan plan = sliced ? plan_slimpack(lengths, job, cost, memory, {.tile = 128, .merge = false})
                               : plan_megatron(lengths, job, cost, memory, {.context = batch.context});
      for (const std::int32_t stage : {0, stages / 2, stages - 1}) {
        INFO(batch.samples << " samples of up to " << batch.context << " tokens, "
                           << (sliced ? "sliced" : "whole") << ", stage " << stage << " of " << stages);
        const double ratio = asked_of_simulated(plan, memory, static_cast<std::size_t>(stage));
        CHECK(ratio <= 1.03);
        CHECK(ratio >= 0.999);  // the host's lists may be shorter than what is reckoned with
      }
    }
  }
}
