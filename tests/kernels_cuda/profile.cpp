#include "kernels/profile.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/profile_device.hpp"
#include "kernels/cuda/stage.hpp"
#include "kernels/task_record.hpp"
#include "slimpack/cost/measured.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/clocked_stage.hpp"
#include "tests/kernels_cuda/host_device.hpp"
#include "tests/kernels_cuda/host_stage.hpp"
#include "tests/kernels_cuda/plain_library.hpp"

#ifdef SLIMPACK_TEST_JSON
#include "slimpack/cost/profile_json.hpp"
#endif

// Profiles of a GPU's stage that runs on the host.
using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::ClockedStage, slimpack::testing::HostDevice;

namespace {

using Stage = slimpack::testing::HostStage;

Transformer small() { return {"small", 4, 64, 1, 1, 64, 64, 50}; }

/// The least that is measured.
ProfileOptions least() {
  ProfileOptions options{.seconds = 1e-3, .tokens = 64, .stage_layers = 2};
  options.stage.head_chunk_tokens = 40;
  return options;
}

}  // namespace

TEST_CASE("CUDA: a profile of the device's clock is found, written, read, and planned by") {
  // The tests below also run what it runs on the device.
  if (slimpack::testing::sanitized) return;
  using Clocked = ClockedStage<Stage>;
  Clocked::truth() = slimpack::testing::clocked_truth();
  Clocked::truth().model = small();
  constexpr double peak = 1e15;
  Profile found;
  found.model = small();
  // A library that refuses all packs is asked for, so that our kernels run.
  ProfileOptions options = least();
  options.stage.attention = AttentionChoice::cudnn;
  options.stage.attention_workspace = 100;
  const auto prepare = [](Stage& stage) {
    stage.set_attention(slimpack::testing::plain_library({.workspace = 101}));
  };
  const BackEndTimes times = cuda::profile_device<Clocked, cuda::DeviceRows<HostDevice>>(
      {.memory_bytes = 1e9, .peak_flops = peak, .memory_bandwidth = 1e12}, options, found, prepare);
  CHECK(times.rounds == 3);
  CHECK(found.real_bytes == 2);
  CHECK(found.device->attention == AttentionChoice::cudnn);
  CHECK(found.fit.worst < 1e-6);
  CHECK(found.held_out.worst < 1e-4);
  CHECK(found.optimiser_seconds_per_parameter > 0.0);
  CHECK(found.device->attention_forward == Approx(2.0 * 64 / 1e-9 / peak).epsilon(1e-3));
  CHECK(found.device->attention_backward == Approx(5.0 * 64 / 3e-9 / peak).epsilon(1e-3));
#ifdef SLIMPACK_TEST_JSON
  found = profile_from_json(to_json(found));
#endif
  const std::vector<Tokens> lengths{300, 40, 500, 20, 90};
  const std::vector<std::int32_t> layers{2, 2};
  const Job job{small(), device_preset("h100"), {.dp = 1, .pp = 2}};
  const MeasuredCost cost(found, small(), layers, {.exchange = KeyExchange::all_to_all});
  const Stage::Memory memory(small(), layers, sizeof(Stage::Weight), {.limit_bytes = 1e9});
  const Plan plan = plan_slimpack(lengths, job, cost, memory, {.tile = 16});
  CHECK_NOTHROW(validate(plan));
  const StageProgram program(plan, 0, 1);
  for (const StageTask& task : program.tasks()) {
    CHECK(plan.of(task.pass).seconds[task.pack][1] ==
          Approx(predicted_seconds(Clocked::truth(), measured_task(program, task))).epsilon(1e-3));
  }
}

TEST_CASE("CUDA: tasks of probes have the seconds of the stage's clock, and fit what is reckoned for them") {
  const std::vector<std::int32_t> layers = probe_layers(small(), 1);
  std::vector<Probe> probes = make_probes(small(), layers, 64, 1);
  ProfileOptions options = least();
  options.stage_layers = 1;
  options.stage.limit_bytes = probe_bytes<Stage>(small(), layers, options.stage, probes);
  kernels::detail::ProbeStages<Stage> stages(small(), options);
  ProbeTimes times(probes);
  for (const Probe& probe : probes) {
    for (std::size_t s = 0; s < stages.size(); ++s) stages.run(probe, s, times);
  }
  std::vector<MeasuredTask> fitted, held_out;
  times.medians(probes, fitted, held_out);
  CHECK(fitted.size() > 100);
  CHECK(held_out.size() > 20);
  for (const MeasuredTask& task : fitted) CHECK(task.seconds > 0.0);
  CHECK(stages.bytes() <= options.stage.limit_bytes);
  CHECK(stages.bytes() > 0.9 * options.stage.limit_bytes);
}

TEST_CASE("CUDA: rows leave a device and arrive on it") {
  cuda::DeviceRows<HostDevice> rows(1000);
  for (std::byte& b : rows.buffer()) b = std::byte{1};
  rows.leave();
  for (const std::byte b : rows.buffer()) CHECK(b == std::byte{0x3c});
  for (std::byte& b : rows.buffer()) b = std::byte{7};
  rows.arrive();
  for (const std::byte b : rows.rows()) CHECK(b == std::byte{7});
}

TEST_CASE("CUDA: an update's seconds count the moments' memory") {
  CHECK(measure_update<Stage>(small(), least()) > 0.0);
  ProfileOptions options = least();
  options.stage.limit_bytes = 1000.0;
  CHECK_THROWS_WITH(measure_update<Stage>(small(), options), Catch::Contains("but 1000 bytes are there"));
}

TEST_CASE("CUDA: probes and updates run the library's attention that is asked for") {
  ProfileOptions options = least();
  options.stage_layers = 1;
  options.stage.attention = AttentionChoice::cudnn;
  options.stage.attention_workspace = 100;
  const std::vector<Probe> probes = make_probes(small(), probe_layers(small(), 1), 64, 1);
  const auto use_of = [&](const slimpack::testing::LibraryOptions& library) {
    const auto use = std::make_shared<cuda::AttentionUse>();
    const auto prepare = [&](Stage& stage) {
      stage.set_attention(
          cuda::counted(slimpack::testing::plain_library(library), options.stage.attention_workspace, use));
    };
    kernels::detail::ProbeStages<Stage> stages(small(), options, prepare);
    ProbeTimes times(probes);
    stages.run(probes.front(), 0, times);
    CHECK(use->library + use->ours == probes.front().program(0).tasks().size());
    const std::size_t before = use->library + use->ours;
    CHECK(measure_update<Stage>(small(), options, prepare) > 0.0);
    CHECK(use->library + use->ours > before);
    return *use;
  };
  const cuda::AttentionUse all = use_of({});
  CHECK(all.ours == 0);
  CHECK(all.refusal.empty());
  const cuda::AttentionUse forward = use_of({.refuses_gradients = true});
  CHECK(forward.library > 0);
  CHECK(forward.ours > 0);
  CHECK(forward.refusal == "it has no gradients");
  const cuda::AttentionUse none = use_of({.workspace = 101});
  CHECK(none.library == 0);
  CHECK(none.refusal == "it needs a workspace of 101 bytes");
  CHECK_THROWS_WITH(measure_update<Stage>(small(), options), Catch::Contains("expected set_attention"));
}
