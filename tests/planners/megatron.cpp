#include "slimpack/planners/megatron.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"

using namespace slimpack;

namespace {

Job job_of(std::int32_t dp, std::int32_t pp) {
  std::mt19937 random(1);
  Job job = oracle::random_job(random, dp, 1e11);
  job.model.layers = 2 * pp;
  job.layout.pp = pp;
  return job;
}

/// Layers that every stage recomputes.
std::int32_t most_recomputed(const Plan& plan) {
  const auto layers = plan.backward.recompute_layers.values();
  return *std::max_element(layers.begin(), layers.end());
}

}  // namespace

TEST_CASE("the baseline packs whole samples up to the context, the same packs in both passes, dealt evenly") {
  std::mt19937 random(2);
  for (int kind = 0; kind < 4; ++kind) {
    const std::vector<Tokens> lengths = oracle::random_lengths(random, 90, kind, 1000);
    const Job job = job_of(3, 4);
    const Plan plan = plan_megatron(lengths, job, {.context = 1024});
    INFO("kind " << kind);
    CHECK(oracle::broken_rule(plan) == "");
    CHECK(violations(plan).empty());
    CHECK(plan.forward.packs == plan.backward.packs);
    std::vector<int> count(plan.pipelines.size(), 0);
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      CHECK(count_tokens(plan.forward.packs[k]) <= 1024);
      CHECK(plan.forward.pipelines[k].size() == 1);
      ++count[plan.forward.pipelines[k][0]];
      for (const Slice& slice : plan.forward.packs[k]) CHECK(slice.size() == lengths[slice.sample]);
    }
    CHECK(*std::max_element(count.begin(), count.end()) - *std::min_element(count.begin(), count.end()) <= 1);
    CHECK(oracle::run(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
  }
}

TEST_CASE("the baseline's order is 1F1B") {
  const Job job = job_of(1, 3);
  const Plan plan = plan_megatron(std::vector<Tokens>(5, 100), job);
  REQUIRE(plan.forward.packs.size() == 5);
  const auto text = [&](std::size_t s) {
    std::string line;
    for (const Task task : plan.pipelines[0].order[s]) line += to_string(task) + " ";
    return line;
  };
  CHECK(text(0) == "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4 ");
  CHECK(text(1) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4 ");
  CHECK(text(2) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 ");
}

TEST_CASE("the baseline recomputes only what memory asks for") {
  const Job job = job_of(1, 2);
  const std::vector<Tokens> lengths(8, 500);
  const MemoryOptions none{.reserve_bytes = 0.0};
  const Plan roomy = plan_megatron(lengths, job, CalibratedCost(job), TransformerMemory(job, none));
  CHECK(most_recomputed(roomy) == 0);
  Job tight = job;
  double peak = 0.0;
  for (const double bytes : roomy.step.peak_bytes[0]) peak = std::max(peak, bytes);
  tight.device.memory_bytes = peak * 0.95;
  const Plan plan = plan_megatron(lengths, tight, CalibratedCost(tight), TransformerMemory(tight, none));
  CHECK(most_recomputed(plan) > 0);
  CHECK(plan.step.pipeline_seconds > roomy.step.pipeline_seconds);
  for (const double bytes : plan.step.peak_bytes[0]) CHECK(bytes <= tight.device.memory_bytes);
}

TEST_CASE("context parallelism takes ranks from data parallelism where a pack fits no other way") {
  const std::vector<Tokens> lengths(16, 131072);
  const Job job{.model = transformer_preset("llama-13b"),
                .device = device_preset("h100"),
                .layout = {.dp = 16, .pp = 8}};
  const Plan plan = plan_megatron(lengths, job);
  const std::int32_t cp = plan.pipelines[0].cp;
  CHECK(cp > 1);
  CHECK(plan.pipelines.size() * static_cast<std::size_t>(cp) == 16);
  for (const PipelinePlan& pipeline : plan.pipelines) CHECK(pipeline.cp == cp);
  for (const Sharding sharding : plan.forward.sharding) CHECK(sharding != Sharding::none);
  for (const auto& row : plan.step.peak_bytes) {
    for (const double bytes : row) CHECK(bytes <= job.device.memory_bytes);
  }
  CHECK(violations(plan).empty());
}

TEST_CASE("the baseline refuses what it can't pack, with what would be accepted") {
  const Job job = job_of(2, 2);
  CHECK_THROWS_WITH(plan_megatron(std::vector<Tokens>{10, 2000}, job, {.context = 1000}),
                    Catch::Contains("sample 1 has 2000 tokens; expected at most the context of 1000"));
  CHECK_THROWS_WITH(plan_megatron(std::vector<Tokens>{10}, job), Catch::Contains("dp is 2"));
  CHECK_THROWS_WITH(plan_megatron(std::vector<Tokens>{10, -3}, job),
                    Catch::Contains("sample 1 has -3 tokens"));
  Job deep = job;
  deep.layout.pp = 9;
  CHECK_THROWS_WITH(plan_megatron(std::vector<Tokens>{10, 3}, deep), Catch::Contains("pp is 9"));
  Job small = job;
  small.device.memory_bytes = 7e9;  // the default reserve leaves a gigabyte
  CHECK_THROWS_WITH(plan_megatron(std::vector<Tokens>{10, 100'000'000}, small),
                    Catch::Contains("packs of 100000000 tokens do not fit") && Catch::Contains("dp = 2"));
  // Packs hold no more than the batch does, so that a context of any size takes neither time nor memory.
  const Tokens longest_context = Tokens{1} << 40;
  CHECK_NOTHROW(plan_megatron(std::vector<Tokens>{10, 20}, job, {.context = longest_context}));
}
