#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "oracle.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/plan/naive_memory.hpp"

using namespace slimpack;

// The options of the memory model, seen in the plans that are made with them.

namespace {

Job small_job(std::int32_t cp) {
  std::mt19937 random(1);
  Job job = oracle::random_job(random, 3, 1e11);
  job.model.layers = 12;
  job.layout = {.dp = 3, .tp = 2, .cp = cp, .pp = 3};
  return job;
}

std::vector<Tokens> small_lengths() {
  std::mt19937 random(5);
  return oracle::random_lengths(random, 40, 0, 2000);
}

Plan plan_with(bool slimpack, const Job& job, const MemoryOptions& options, double cost_offload = 0.0) {
  const CalibratedCost cost(job, {.offload = cost_offload});
  const TransformerMemory memory(job, options);
  return slimpack ? plan_slimpack(small_lengths(), job, cost, memory)
                  : plan_megatron(small_lengths(), job, cost, memory);
}

/// Parameters of the small job's stages per device, counted here.
double parameters(const Job& job, std::size_t stage) {
  const double h = job.model.hidden, heads = double(job.model.heads) * job.model.head_dim;
  const double keys = double(job.model.kv_heads) * job.model.head_dim, f = job.model.ffn;
  double count = 4.0 * (h * heads + 2 * h * keys + heads * h + 3 * h * f + 2 * h);
  if (stage == 0) count += job.model.vocab * h;
  if (stage == 2) count += job.model.vocab * h + h;
  return count / job.layout.tp;
}

void check_same_schedule(const Plan& a, const Plan& b) {
  CHECK(a.forward.packs == b.forward.packs);
  CHECK(a.backward.packs == b.backward.packs);
  REQUIRE(a.pipelines.size() == b.pipelines.size());
  for (std::size_t p = 0; p < a.pipelines.size(); ++p) CHECK(a.pipelines[p].order == b.pipelines[p].order);
}

std::int64_t recomputed_layers(const Plan& plan) {
  const auto layers = plan.backward.recompute_layers.values();
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE(
    "each ZeRO stage shards what it says: peaks fall by that, and nothing else changes where memory is "
    "ample") {
  for (const bool slimpack : {true, false}) {
    for (const std::int32_t cp : {1, 2}) {
      const Job job = small_job(cp);
      const double bytes[] = {12.0, 4.0, 2.0};  // of the optimiser, the gradients, the parameters
      for (int zero = 0; zero < 3; ++zero) {
        INFO("slimpack " << slimpack << ", cp " << cp << ", from ZeRO-" << zero);
        const Plan before = plan_with(slimpack, job, {.zero_stage = zero});
        const Plan after = plan_with(slimpack, job, {.zero_stage = zero + 1});
        check_same_schedule(before, after);
        for (std::size_t p = 0; p < before.pipelines.size(); ++p) {
          for (std::size_t s = 0; s < 3; ++s) {
            const double saved = parameters(job, s) * bytes[zero] * (1.0 - 1.0 / (3.0 * cp));
            CHECK(before.step.peak_bytes[p][s] - after.step.peak_bytes[p][s] == Approx(saved).epsilon(1e-6));
          }
        }
      }
    }
  }
}

TEST_CASE("offloading lowers every stage's peak, and takes time where the link to the host is slow") {
  for (const bool slimpack : {true, false}) {
    Job job = small_job(1);
    job.device.host.bandwidth = 1e8;
    const Plan none = plan_with(slimpack, job, {.reserve_bytes = 0.0});
    Plan before = none;
    for (const double share : {0.25, 0.5, 1.0}) {
      INFO("slimpack " << slimpack << ", share " << share);
      const MemoryOptions options{.reserve_bytes = 0.0, .offload = share};
      const Plan plan = plan_with(slimpack, job, options);
      check_same_schedule(before, plan);
      Job used = job;  // the baseline may have chosen another context parallelism
      used.layout.cp = plan.pipelines.front().cp;
      used.layout.dp = static_cast<std::int32_t>(plan.pipelines.size());
      const TransformerMemory memory(used, options);
      const auto naive = slimpack::testing::naive_peak_bytes(plan, memory);
      for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
        for (std::size_t s = 0; s < 3; ++s) {
          CHECK(plan.step.peak_bytes[p][s] < before.step.peak_bytes[p][s]);
          // The baseline rounds a rank's share of a pack up to a token.
          CHECK(plan.step.peak_bytes[p][s] == Approx(naive[p][s]).epsilon(1e-3));
        }
      }
      CHECK(plan_with(slimpack, job, options, share).step.seconds > 1.05 * none.step.seconds);
      before = plan;
    }
  }
}

TEST_CASE("what ZeRO and offloading free is used: the baseline recomputes no layer, and steps are shorter") {
  Job job{
      .model = transformer_preset("llama-7b"), .device = device_preset("h100"), .layout = {.dp = 8, .pp = 4}};
  std::mt19937 random(3);
  const std::vector<Tokens> lengths = oracle::random_lengths(random, 100, 3, 16384);
  for (const bool slimpack : {true, false}) {
    job.device.memory_bytes = slimpack ? 24e9 : 22e9;  // the baseline cuts packs over more devices
    std::vector<Plan> plans;
    for (const MemoryOptions& options :
         {MemoryOptions{.zero_stage = 1}, MemoryOptions{.zero_stage = 2}, MemoryOptions{.zero_stage = 3},
          MemoryOptions{.zero_stage = 3, .offload = 0.6}}) {
      const TransformerMemory memory(job, options);
      plans.push_back(slimpack ? plan_slimpack(lengths, job, CalibratedCost(job), memory)
                               : plan_megatron(lengths, job, CalibratedCost(job), memory));
      CHECK(violations(plans.back()).empty());
      for (const auto& row : plans.back().step.peak_bytes) {
        for (const double bytes : row) CHECK(bytes <= job.device.memory_bytes);
      }
    }
    if (!slimpack) CHECK(recomputed_layers(plans.front()) > 0);  // slimpack may merge more instead
    for (std::size_t i = 1; i < plans.size(); ++i) {
      INFO("slimpack " << slimpack << ", options " << i);
      CHECK(plans[i].step.seconds <= (slimpack ? 1.01 : 1.0) * plans[i - 1].step.seconds);
    }
    if (!slimpack) CHECK(recomputed_layers(plans.back()) == 0);
    CHECK(plans.back().step.seconds < 0.99 * plans.front().step.seconds);
    const TransformerMemory unsharded(job, {.zero_stage = 0});
    CHECK_THROWS_WITH(slimpack ? plan_slimpack(lengths, job, CalibratedCost(job), unsharded)
                               : plan_megatron(lengths, job, CalibratedCost(job), unsharded),
                      Catch::Contains("stage 0 needs"));
  }
}
