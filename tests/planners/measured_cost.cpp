// Planners by a machine's profile.

#include <catch2/catch.hpp>
#include <random>

#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/cost/measured.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/cost/random_profile.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

void check(const Plan& plan, const TransformerMemory& memory) {
  for (const std::string& violation : violations(plan)) UNSCOPED_INFO(violation);
  CHECK(violations(plan).empty());
  CHECK(oracle::broken_rule(plan) == "");
  CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
  CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
  CHECK(plan.step.lower_bound_seconds > 0.0);
  for (const auto& stages : plan.step.peak_bytes) {
    for (const double bytes : stages) CHECK(bytes <= memory.capacity_bytes() * (1.0 + 1e-9));
  }
}

/// Seconds of each pack on each stage, from the profile's rates alone.
void check_seconds(const Plan& plan, const MeasuredCost& cost) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (std::size_t k = 0; k < plan.of(pass).packs.size(); ++k) {
      const auto members = static_cast<std::int32_t>(plan.of(pass).pipelines[k].size());
      const MeasuredCost own = cost.with_context_parallel(members);
      for (std::size_t s = 0; s < cost.stages(); ++s) {
        double recompute_layer = own.recompute_pack_seconds(s);
        for (const Slice& slice : plan.of(pass).packs[k])
          recompute_layer += own.recompute_seconds(s, slice.begin, slice.end);
        const double layers = pass == Pass::backward ? plan.backward.recompute_layers[k][s] : 0.0;
        CHECK(plan.of(pass).seconds[k][s] ==
              Approx(own.rates(s, pass).seconds(plan.of(pass).packs[k]) + layers * recompute_layer)
                  .epsilon(1e-9));
      }
    }
  }
}

}  // namespace

TEST_CASE("planners take a profile's times as they take any") {
  int planned = 0, merged = 0, recomputed = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto dp = static_cast<std::int32_t>(1 + seed % 4);
    Job job = oracle::random_job(random, dp, 1e9);
    job.layout.tp = job.layout.cp = 1;
    const auto lengths = oracle::random_lengths(random, 30, static_cast<int>(seed % 4), 900);
    double fixed = 0.0;
    const TransformerMemory roomy(job, {.reserve_bytes = 0.0});
    for (std::size_t s = 0; s < static_cast<std::size_t>(job.layout.pp); ++s)
      fixed = std::max(fixed, roomy.static_bytes(s));
    job.device.memory_bytes = fixed + 3e6 * std::exp(0.6 * (seed % 6));
    const TransformerMemory memory(job, {.reserve_bytes = 0.0});
    Profile profile = slimpack::testing::machine(seed, seed % 2 == 0);
    profile.model = job.model;
    if (seed % 3 == 0) profile.transfer = {.bandwidth = 1e12, .latency = 1e-8};
    const MeasuredCost cost(profile, job.model, split_layers(job.model.layers, job.layout.pp),
                            {.replicas = job.layout.dp});
    try {
      const Plan plan = plan_slimpack(lengths, job, cost, memory, {.tile = 16});
      ++planned;
      check(plan, memory);
      check_seconds(plan, cost);
      CHECK(plan.step.sync_seconds == cost.sync_seconds());
      for (const std::int32_t layers : plan.backward.recompute_layers.values()) recomputed += layers > 0;
      for (std::size_t k = 0; k < plan.forward.packs.size(); ++k)
        merged += plan.forward.pipelines[k].size() > 1;
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("expected"));
    }
    try {
      check(plan_megatron(lengths, job, cost, memory), memory);
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("do not fit"));
    }
  }
  CHECK(planned > 30);
  CHECK(merged > 0);
  CHECK(recomputed > 0);
}
