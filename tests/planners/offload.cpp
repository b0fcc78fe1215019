#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rules.hpp"
#include "short_memory_case.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/planners/chunk_pipelines.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"

using namespace slimpack;
using oracle::short_memory_case;
using oracle::ShortMemoryCase;

// Plans whose layers may wait in the host's memory in place of being recomputed.

namespace {

/// A job in little memory with so many layers that two of them on their way to the host are few.
ShortMemoryCase deep_case(unsigned seed) {
  ShortMemoryCase c = short_memory_case(seed);
  const auto fixed = [&] {
    const TransformerMemory memory(c.job, c.memory);
    double most = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(c.job.layout.pp); ++s)
      most = std::max(most, memory.static_bytes(s));
    return most;
  };
  const double room = c.job.device.memory_bytes - fixed();
  c.job.model.layers *= 8;
  c.job.device.memory_bytes = fixed() + 8.0 * room;
  c.job.device.host = {.bandwidth = seed % 3 == 0 ? 2e9 : seed % 3 == 1 ? 25e9 : 400e9, .latency = 0.0};
  return c;
}

Plan plan_offloading(const std::string& planner, const ShortMemoryCase& c, bool offload) {
  const CalibratedCost cost(c.job);
  const TransformerMemory memory(c.job, c.memory);
  if (planner == "megatron") {
    return plan_megatron(c.lengths, c.job, cost, memory,
                         {.recompute_each_pack = c.options.fill, .offload = offload, .choose_cp = false});
  }
  if (planner == "infinipipe") {
    ChunkPlanOptions options = infinipipe_options();
    options.tile = c.options.tile;
    options.slices = 3;
    options.schedule.offload = offload;
    return plan_chunks(planner, c.lengths, c.job, cost, memory, NoAttentionModel{}, options);
  }
  SlimPackOptions options = c.options;
  options.offload = offload;
  return plan_slimpack(c.lengths, c.job, cost, memory, options);
}

bool any_offloaded(const Plan& plan) {
  for (std::size_t k = 0; k < plan.backward.offload_layers.size(); ++k) {
    for (const std::int32_t layers : plan.backward.offload_layers[k]) {
      if (layers > 0) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("a host's memory never makes a step longer, nor refuses what fits without") {
  for (const std::string planner : {"slimpack", "infinipipe", "megatron"}) {
    int offloading = 0, faster = 0;
    for (unsigned seed = 1; seed <= slimpack::testing::seeds(60, 8); ++seed) {
      ShortMemoryCase c = deep_case(seed);
      if (planner == "infinipipe") c.job.layout.dp = 1;
      INFO(planner << ", seed " << seed);
      double without = std::numeric_limits<double>::infinity();
      try {
        const Plan plan = plan_offloading(planner, c, false);
        CHECK_FALSE(any_offloaded(plan));
        without = plan.step.seconds;
      } catch (const InvalidInput&) {
      }
      Plan plan;
      try {
        plan = plan_offloading(planner, c, true);
      } catch (const InvalidInput&) {
        CHECK(without == std::numeric_limits<double>::infinity());
        continue;
      }
      CHECK(plan.step.seconds <= without * (1.0 + 1e-12));
      CHECK(oracle::broken_rule(plan).empty());
      oracle::check_plan(plan, TransformerMemory(c.job, c.memory));
      CHECK(to_json(plan) == to_json(plan_offloading(planner, c, true)));
      offloading += any_offloaded(plan) ? 1 : 0;
      faster += plan.step.seconds < 0.999 * without ? 1 : 0;
    }
    INFO(planner);
    if (slimpack::testing::few) continue;
    CHECK(offloading > 5);
    CHECK(faster > 3);
  }
}

TEST_CASE("models that know of no host are refused by name, whether memory is short or not") {
  struct NoHost {
    CalibratedCost cost;
    std::size_t stages() const { return cost.stages(); }
    double slice_seconds(std::size_t s, Tokens begin, Tokens end, Pass pass) const {
      return cost.slice_seconds(s, begin, end, pass);
    }
    double pack_seconds(std::size_t s, Pass pass) const { return cost.pack_seconds(s, pass); }
    double transfer_seconds(std::size_t s, Tokens n, Pass pass) const {
      return cost.transfer_seconds(s, n, pass);
    }
  };
  struct DeviceOnly {
    double capacity_bytes() const { return 1e15; }
    double static_bytes(std::size_t) const { return 1.0; }
    double activation_bytes(std::size_t, int) const { return 1.0; }
    double kv_gradient_bytes(std::size_t) const { return 1.0; }
    double workspace_bytes(std::size_t, Pass, Tokens, int) const { return 1.0; }
  };
  const ShortMemoryCase c = short_memory_case(1);
  const CalibratedCost cost(c.job);
  const TransformerMemory memory(c.job, c.memory);
  const SlimPackOptions options{.offload = true};
  CHECK_THROWS_WITH(plan_slimpack(c.lengths, c.job, NoHost{cost}, memory, options),
                    Catch::Contains("expected offload_seconds"));
  CHECK_THROWS_WITH(plan_slimpack(c.lengths, c.job, cost, DeviceOnly{}, options),
                    Catch::Contains("host_bytes and transit_bytes"));
  CHECK_NOTHROW(plan_slimpack(c.lengths, c.job, cost, DeviceOnly{}));
}
