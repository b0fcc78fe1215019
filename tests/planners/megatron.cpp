#include "slimpack/planners/megatron.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;

namespace {

Job job_of(std::int32_t dp, std::int32_t pp) {
  std::mt19937 random(1);
  Job job = oracle::random_job(random, dp, 1e11);
  job.model.layers = 2 * pp;
  job.layout.pp = pp;
  return job;
}

/// Layers that a stage recomputes of any pack.
std::int32_t most_recomputed(const Plan& plan, std::size_t stage) {
  std::int32_t most = 0;
  for (std::size_t k = 0; k < plan.backward.packs.size(); ++k)
    most = std::max(most, plan.backward.recompute_layers[k][stage]);
  return most;
}

/// Seconds of a schedule with the least number of layers, the same on all stages, with which it fits.
double uniform_seconds(Schedule schedule, Scheduler& scheduler, const Memory& memory) {
  std::int32_t most = 0;
  for (std::size_t s = 0; s < memory.stages(); ++s) most = std::max(most, memory.recompute_limit(s));
  for (std::int32_t r = 0; r <= most; ++r) {
    std::vector<std::int32_t> layers;
    for (std::size_t s = 0; s < memory.stages(); ++s)
      layers.push_back(std::min(r, memory.recompute_limit(s)));
    scheduler(schedule, Recompute(layers), {.fit = FitPolicy::recompute});
    if (schedule.fits()) return schedule.seconds;
  }
  return std::numeric_limits<double>::infinity();
}

/// Seconds of a user who is less careful: packs of the whole context, and the same recomputation on all stages.
double careless_seconds(std::span<const Tokens> lengths, Tokens context, const Job& job,
                        const MemoryOptions& options) {
  PricedModels models =
      price_models(job, CalibratedCost(job), TransformerMemory(job, options), NoAttentionModel{});
  Job roomy = job;
  roomy.device.memory_bytes = 1e18;
  const PricedModels unlimited =
      price_models(roomy, CalibratedCost(roomy), TransformerMemory(roomy, options), NoAttentionModel{});
  Scheduler scheduler(lengths, models.prices, models.memory),
      unlimited_scheduler(lengths, models.prices, unlimited.memory);
  const auto pipelines = static_cast<std::size_t>(job.layout.dp);
  const Tokens length = std::min(context, std::accumulate(lengths.begin(), lengths.end(), Tokens{0}));
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t size : context_parallel_group_sizes(pipelines, models.prices)) {
    double seconds = 0.0;
    for (const Schedule& schedule :
         plan_whole_samples(lengths, length, pipelines, {&size, 1}, unlimited_scheduler, {}).schedules)
      seconds = std::max(seconds, uniform_seconds(schedule, scheduler, models.memory));
    least = std::min(least, seconds);
  }
  return least;
}

/// A batch whose plans memory limits more or less.
struct TightCase {
  std::vector<Tokens> lengths;
  Job job;
  Tokens context = 0;
};

TightCase tight_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  const int dp = pick(1, 4);
  const auto samples = static_cast<std::size_t>(dp + pick(0, 40));
  TightCase c{oracle::random_lengths(random, samples, pick(0, 3), 900), oracle::random_job(random, dp, 1e9),
              0};
  c.context = *std::max_element(c.lengths.begin(), c.lengths.end()) * pick(1, 8);
  const TransformerMemory memory(c.job, {.reserve_bytes = 0.0});
  double fixed = 0.0;
  for (std::size_t s = 0; s < memory.stages(); ++s) fixed = std::max(fixed, memory.static_bytes(s));
  c.job.device.memory_bytes = fixed + 1e6 * std::exp(0.3 * pick(0, 14));
  return c;
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
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
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

TEST_CASE("the baseline recomputes only on the stages that memory asks for") {
  const Job job = job_of(1, 4);
  const std::vector<Tokens> lengths(8, 500);
  const MemoryOptions none{.reserve_bytes = 0.0};
  const Plan roomy = plan_megatron(lengths, job, CalibratedCost(job), TransformerMemory(job, none));
  const std::vector<double>& peaks = roomy.step.peak_bytes[0];
  for (std::size_t s = 0; s < 4; ++s) CHECK(most_recomputed(roomy, s) == 0);
  Job tight = job;
  tight.device.memory_bytes = *std::max_element(peaks.begin(), peaks.end()) * 0.95;
  const Plan plan = plan_megatron(lengths, tight, CalibratedCost(tight), TransformerMemory(tight, none));
  int spared = 0;
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK((most_recomputed(plan, s) > 0) == (peaks[s] > tight.device.memory_bytes));
    spared += most_recomputed(plan, s) == 0 ? 1 : 0;
  }
  CHECK(spared > 0);
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

TEST_CASE("the lengths of packs that are tried begin with the longest sample and end with the context") {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const std::vector<Tokens> lengths = oracle::random_lengths(
        random, std::uniform_int_distribution<std::size_t>(1, 40)(random), round % 4, 900);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end()),
                 all = std::accumulate(lengths.begin(), lengths.end(), Tokens{0});
    const Tokens context = longest * std::uniform_int_distribution<Tokens>(1, 30)(random);
    const std::vector<Tokens> useful = useful_pack_lengths(lengths, context);
    CHECK(useful.front() == longest);
    CHECK(useful.back() == std::min(context, all));
    for (std::size_t i = 1; i < useful.size(); ++i) {
      CHECK(useful[i] > useful[i - 1]);
      CHECK(static_cast<double>(useful[i]) <= 1.2 * static_cast<double>(useful[i - 1]) + 1.0);
    }
  }
}

TEST_CASE("the baseline is never slower than packs of the whole context with uniform recomputation") {
  int faster = 0, planned = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const TightCase c = tight_case(seed);
    INFO("seed " << seed);
    const MemoryOptions memory{.reserve_bytes = 0.0};
    const double careless = careless_seconds(c.lengths, c.context, c.job, memory);
    if (careless == std::numeric_limits<double>::infinity()) continue;
    const Plan plan = plan_megatron(c.lengths, c.job, CalibratedCost(c.job), TransformerMemory(c.job, memory),
                                    {.context = c.context});
    CHECK(plan.step.pipeline_seconds <= careless * (1.0 + 1e-12));
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k)
      CHECK(count_tokens(plan.forward.packs[k]) <= c.context);
    const Plan ours = plan_slimpack(c.lengths, c.job, CalibratedCost(c.job), TransformerMemory(c.job, memory),
                                    {.context = c.context});
    CHECK(ours.step.seconds <= plan.step.seconds * (1.0 + 1e-12));
    ++planned;
    faster += plan.step.pipeline_seconds < 0.99 * careless ? 1 : 0;
  }
  CHECK(planned > 200);
  CHECK(faster > 50);
}

TEST_CASE("what the baseline may no longer choose never makes its step shorter, and is as asked for") {
  int packed = 0, alone = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const TightCase c = tight_case(seed);
    INFO("seed " << seed);
    const Tokens longest = *std::max_element(c.lengths.begin(), c.lengths.end());
    const TransformerMemory memory(c.job, {.reserve_bytes = 0.0});
    const auto planned = [&](const MegatronOptions& options) -> std::optional<Plan> {
      try {
        return plan_megatron(c.lengths, c.job, CalibratedCost(c.job), memory, options);
      } catch (const InvalidInput&) {
        return std::nullopt;
      }
    };
    const std::optional<Plan> free = planned({.context = c.context}),
                              whole = planned({.context = c.context, .pack_tokens = c.context}),
                              given = planned({.context = c.context, .choose_cp = false});
    for (const auto* less : {&whole, &given}) {
      if (!*less) continue;
      REQUIRE(free);
      CHECK(violations(**less).empty());
      CHECK(free->step.pipeline_seconds <= (*less)->step.pipeline_seconds * (1 + 1e-12));
    }
    if (whole) {
      const Packing packing = best_fit_decreasing(c.lengths, c.context);
      CHECK(whole->forward.packs.size() == packing.load.size());
      packed += whole->step.pipeline_seconds > free->step.pipeline_seconds * 1.01 ? 1 : 0;
    }
    if (given) {
      CHECK(given->pipelines.size() == static_cast<std::size_t>(c.job.layout.dp));
      for (const PipelinePlan& pipeline : given->pipelines) CHECK(pipeline.cp == c.job.layout.cp);
      alone += given->step.pipeline_seconds > free->step.pipeline_seconds * 1.01 ? 1 : 0;
    }
    for (const Tokens impossible : {longest - 1, c.context + 1}) {
      if (impossible == 0) continue;  // which asks for the best length
      CHECK_THROWS_WITH(
          plan_megatron(c.lengths, c.job, CalibratedCost(c.job), memory,
                        {.context = c.context, .pack_tokens = impossible}),
          Catch::Contains(concat("pack_tokens is ", impossible, "; expected the longest sample's ", longest,
                                 " to the context of ", c.context)));
    }
  }
  CHECK(packed > 20);
  CHECK(alone > 20);
}
