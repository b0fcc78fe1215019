#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "bench/gpu/timed_stage.hpp"
#include "kernels/cuda/stage.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/kernels_cuda/host_stage.hpp"

// A stage by itself, as bench_gpu times it, on the host.
using namespace slimpack;
using namespace slimpack::bench;
using slimpack::testing::HostDevice;

TEST_CASE("a timed stage runs a small batch, then larger ones of either kind of packs", "[bench_gpu]") {
  using Stage = slimpack::testing::HostStage;
  constexpr std::int32_t stages = 3;
  constexpr std::size_t timed = 1;
  const Transformer model{"small", 2 * stages, 128, 2, 2, 64, 96, 100};
  const Job job{model, device_preset("h100"), {.dp = 1, .pp = stages}};
  const Stage::Memory memory(model, split_layers(model.layers, stages), sizeof(float), {});
  const auto sliced = [&](const std::vector<Tokens>& lengths) {
    return plan_slimpack(lengths, job, CalibratedCost(job), memory, {.tile = 32, .merge = false});
  };
  const Plan small = sliced({40, 30, 20}),
             whole = plan_megatron(std::vector<Tokens>{260, 90, 60, 30, 200, 10}, job, CalibratedCost(job),
                                   memory),
             slices = sliced({260, 90, 60, 30, 200, 10});
  for (const bool graphs : {false, true}) {
    TimedStage<Stage> stage(kernels::stage_part(model, small, 0, timed), {.graphs = graphs});
    const std::size_t before = HostDevice::products_tried();
    stage.warm_up(StageProgram(small, 0, timed), small);
    CHECK(HostDevice::products_tried() == before + 2);
    double last = 0.0;
    for (const Plan* plan : {&small, &small, &whole, &slices, &slices}) {
      const StageProgram program(*plan, 0, timed);
      const StageRun run = stage.step(program, *plan);
      REQUIRE(run.tasks.size() == program.tasks().size());
      for (std::size_t i = 0; i < run.tasks.size(); ++i) {
        CHECK(run.tasks[i].pass == program.tasks()[i].pass);
        CHECK(run.tasks[i].pack == program.tasks()[i].pack);
        CHECK(run.tasks[i].seconds >= 0.0);
      }
      CHECK(run.seconds > 0.0);
      CHECK(run.device_seconds() >= 0.0);
      last = static_cast<double>(run.graph_tasks);
    }
    // The last step repeats the one before.
    CHECK((last > 0.0) == graphs);
  }
}
