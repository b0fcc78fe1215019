#include "slimpack/planners/slimpack.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <set>

#include "github.hpp"
#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "tests/effort.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;
using oracle::github, oracle::llama_13b;

namespace {

/// A job of small matrices in which `dp` pipelines of `pp` stages have room for anything.
Job small_job(std::int32_t dp, std::int32_t pp) {
  std::mt19937 random(1);
  Job job = oracle::random_job(random, dp, 1e11);
  job.model.layers = 2 * pp;
  job.layout.pp = pp;
  return job;
}

void check_all(const Plan& plan, const Job& job, const MemoryOptions& options = {}) {
  CHECK(oracle::broken_rule(plan) == "");
  CHECK(violations(plan).empty());
  CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
  CHECK(plan.step.seconds == Approx(plan.step.pipeline_seconds + plan.step.sync_seconds).epsilon(1e-12));
  CHECK(plan.step.lower_bound_seconds > 0.0);
  CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
  const TransformerMemory memory(job, options);
  const auto naive = slimpack::testing::naive_peak_bytes(plan, memory);
  for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
      CHECK(plan.step.peak_bytes[p][s] == Approx(naive[p][s]).epsilon(1e-6));
      CHECK(plan.step.peak_bytes[p][s] <= memory.capacity_bytes());
    }
  }
}

/// Sizes of the groups that run merged packs; checks that groups are runs of pipelines, disjoint or one in the other.
std::multiset<std::size_t> merged_groups(const Plan& plan) {
  std::set<std::vector<PipelineId>> groups;
  for (const PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      const auto row = pass->pipelines[k];
      if (row.size() > 1) groups.emplace(row.begin(), row.end());
    }
  }
  std::multiset<std::size_t> sizes;
  for (const auto& group : groups) {
    sizes.insert(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) CHECK(group[i] == group[0] + i);
    for (const auto& other : groups) {
      std::vector<PipelineId> both;
      std::set_intersection(group.begin(), group.end(), other.begin(), other.end(), std::back_inserter(both));
      CHECK((both.empty() || both.size() == std::min(group.size(), other.size())));
    }
  }
  return sizes;
}

/// Short samples and a few outliers, on stages that have 4 to 34 GB besides their weights.
std::pair<std::vector<Tokens>, Job> little_memory(std::mt19937& random, std::int32_t stages = 4) {
  Job job = llama_13b(static_cast<std::int32_t>(4 + random() % 9), stages, 2);
  std::lognormal_distribution<double> lengths_of_most(7.5, 1.3);
  std::vector<Tokens> lengths(5 + random() % 60);
  for (Tokens& length : lengths)
    length = 1 + std::min<Tokens>(60000, static_cast<Tokens>(lengths_of_most(random)));
  const std::size_t outliers = 1 + random() % 3;
  for (std::size_t i = 0; i < outliers; ++i)
    lengths.push_back(60000 + static_cast<Tokens>(random() % 200000));
  const TransformerMemory memory(job);
  double weights = 0.0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(stages); ++s)
    weights = std::max(weights, memory.static_bytes(s));
  job.device.memory_bytes +=
      weights + 4e9 + static_cast<double>(random() % 1000) * 3e7 - memory.capacity_bytes();
  return {lengths, job};
}

}  // namespace

TEST_CASE("batches at the edges are planned by the rules") {
  const MemoryOptions none{.reserve_bytes = 0.0};
  const auto check = [&](const std::vector<Tokens>& lengths, std::int32_t dp, std::int32_t pp,
                         SlimPackOptions options) {
    INFO("dp " << dp << ", pp " << pp << ", tile " << options.tile << ", packs " << options.packs);
    const Job job = small_job(dp, pp);
    check_all(plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job, none), options), job,
              none);
  };
  for (const Tokens tile : {1, 16, 128}) {
    for (const bool asymmetric : {true, false}) {
      const SlimPackOptions options{.tile = tile, .asymmetric = asymmetric};
      check({1}, 1, 1, options);                                  // one token
      check({777}, 1, 5, options);                                // one sample
      check({1, 1, 1}, 3, 1, options);                            // a sample each
      check(std::vector<Tokens>(24, 100), 6, 4, options);         // all equal
      check({2000, 9, 30, 5, 4, 77}, 6, 3, options);              // longer than everything else together
      check({128, 256, 384, 512, 128, 127, 129}, 2, 2, options);  // on tiles and next to them
    }
  }
  check({3, 2}, 1, 1, {.tile = 1, .packs = 50});  // more packs than tokens
  check({300, 200}, 2, 5, {.tile = 128, .equal_packs = true, .packs = 40});
}

TEST_CASE("random batches under every option keep the rules") {
  int merged = 0, recomputed = 0;
  for (unsigned seed = 1001; seed <= 1200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const std::int32_t dp = pick(1, 6), pp = pick(1, 5);
    const auto samples = static_cast<std::size_t>(dp + pick(0, 20));
    const std::vector<Tokens> lengths = oracle::random_lengths(random, samples, pick(0, 3), 1500);
    Job job = small_job(dp, pp);
    const MemoryOptions none{.reserve_bytes = 0.0};
    const double fixed = TransformerMemory(job, none).static_bytes(0);
    job.device.memory_bytes = fixed + 3e6 * std::exp(0.6 * pick(0, 7));
    const Tokens tiles[] = {1, 16, 128};
    const SlimPackOptions options{
        .tile = tiles[pick(0, 2)],
        .asymmetric = pick(0, 1) == 0,
        .fill = pick(0, 3) > 0,
        .inject = pick(0, 3) > 0,
        .group_sizes = pick(0, 1) == 0 ? GroupSizes::any : GroupSizes::powers_of_two,
        .equal_packs = pick(0, 1) == 0,
        .packs = pick(0, 1) == 0 ? 0 : static_cast<std::size_t>(pick(1, 20))};
    Plan plan;
    try {
      plan = plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job, none), options);
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("memory") && Catch::Contains("expected"));
      continue;
    }
    check_all(plan, job, none);
    for (const std::size_t size : merged_groups(plan)) {
      ++merged;
      CHECK(size <= static_cast<std::size_t>(dp));
      if (options.group_sizes == GroupSizes::powers_of_two) CHECK((size & (size - 1)) == 0);
    }
    const auto& layers = plan.backward.recompute_layers.values();
    recomputed += std::any_of(layers.begin(), layers.end(), [](std::int32_t n) { return n > 0; }) ? 1 : 0;
  }
  CHECK(merged > 30);
  CHECK(recomputed > 5);
}

TEST_CASE("an outlier is merged over as many pipelines as it has shares, and that makes the step shorter") {
  std::vector<Tokens> lengths = github(256, 4096);
  lengths.push_back(262144);
  const Job job = llama_13b(6, 8, 2);
  const Plan merged = plan_slimpack(lengths, job);
  const Plan local = plan_slimpack(lengths, job, {.merge = false});
  const auto groups = merged_groups(merged);
  REQUIRE(groups.size() == 1);
  CHECK(*groups.begin() > 1);
  CHECK(merged_groups(local).empty());
  CHECK(merged.step.seconds < 0.7 * local.step.seconds);
  CHECK(violations(merged).empty());
  // Only the outlier is merged.
  for (std::size_t k = 0; k < merged.forward.packs.size(); ++k) {
    if (merged.forward.pipelines[k].size() == 1) continue;
    for (const Slice& slice : merged.forward.packs[k]) CHECK(lengths[slice.sample] > 4096);
  }
  const auto aligned = merged_groups(plan_slimpack(lengths, job, {.group_sizes = GroupSizes::powers_of_two}));
  for (const std::size_t size : aligned) CHECK((size & (size - 1)) == 0);
}

TEST_CASE("groups of a size for each sample are tried, and shorten steps without stages") {
  SlimPackOptions without;
  without.search.rank_rows = false;
  double product = 1.0;
  int count = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Tokens> lengths = github(64 + random() % 400, 1 << (15 + seed % 4));
    const Job job = llama_13b(seed % 2 == 0 ? 16 : 12, 1, 8);
    const Plan plan = plan_slimpack(lengths, job), disjoint = plan_slimpack(lengths, job, without);
    check_all(plan, job);
    CHECK(plan.step.seconds <= disjoint.step.seconds);
    product *= plan.step.seconds / disjoint.step.seconds;
    ++count;
    const auto aligned = plan_slimpack(lengths, job, {.group_sizes = GroupSizes::powers_of_two});
    for (std::size_t k = 0; k < aligned.forward.packs.size(); ++k)
      CHECK(std::has_single_bit(aligned.forward.pipelines[k].size()));
    CHECK(merged_groups(plan_slimpack(lengths, job, {.merge = false})).empty());
  }
  CHECK(product < std::pow(0.995, count));
}

TEST_CASE("replicas have equal work where no sample exceeds a replica's share") {
  for (const std::size_t samples : {512u, 2048u}) {
    for (const Tokens context : {4096, 8192, 16384}) {
      const std::vector<Tokens> lengths = github(samples, context);
      const Job job = llama_13b(16, 8);
      const CalibratedCost cost(job);
      double total = 0.0, most = 0.0;
      for (const Tokens length : lengths) {
        const double seconds = cost.pipeline_seconds(0, length, Pass::forward) +
                               cost.pipeline_seconds(0, length, Pass::backward);
        total += seconds;
        most = std::max(most, seconds);
      }
      INFO("samples " << samples << ", context " << context);
      REQUIRE(most * 16 < total);
      const Plan plan = plan_slimpack(lengths, job);
      CHECK(plan_metrics(plan).replica_imbalance <= 1.035);
    }
  }
}

TEST_CASE("boundaries of their own for backward packs never make a step longer") {
  const Job job = llama_13b(16, 8);
  for (const std::size_t samples : {512u, 2048u}) {
    for (const Tokens context : {65536, 131072, 262144}) {
      if (slimpack::testing::few && (samples > 512 || context > 65536)) continue;
      const std::vector<Tokens> lengths = github(samples, context);
      for (const Tokens tile : {1, 128}) {
        INFO("samples " << samples << ", context " << context << ", tile " << tile);
        const Plan both = plan_slimpack(lengths, job, {.tile = tile});
        const Plan forward_only = plan_slimpack(lengths, job, {.tile = tile, .asymmetric = false});
        CHECK(violations(both).empty());
        CHECK(violations(forward_only).empty());
        CHECK(both.step.seconds <= forward_only.step.seconds);
        CHECK(plan_metrics(both).busiest_stage_imbalance <= 1.04);
      }
    }
  }
}

TEST_CASE("no step is longer than megatron's with the same context") {
  const auto check = [](const std::vector<Tokens>& lengths, const Job& job, Tokens context) {
    INFO(lengths.size() << " samples, context " << context);
    const Plan plan = plan_slimpack(lengths, job, SlimPackOptions{.context = context});
    check_all(plan, job);
    CHECK(plan.step.seconds <=
          plan_megatron(lengths, job, {.context = context}).step.seconds * (1.0 + 1e-12));
  };
  // These samples take least time in packs of several times the longest one.
  check(std::vector<Tokens>(slimpack::testing::seeds(4096, 512), 8192), llama_13b(1, 4, 8), 32768);
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(12, 1); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<Tokens> lengths(16 + random() % 400);
    const bool equal = random() % 2 == 0;
    for (Tokens& length : lengths) length = equal ? 4096 : 256 + static_cast<Tokens>(random() % 8000);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    const std::int32_t dp = 1 << (random() % 3);
    const std::int32_t stages = 1 << (random() % 4);
    const Job job = llama_13b(dp, stages, 8);
    for (const Tokens times : {1, 2, 5}) check(lengths, job, times * longest);
  }
  CHECK_THROWS_WITH(
      plan_slimpack(std::vector<Tokens>{10, 300}, small_job(1, 2), SlimPackOptions{.context = 200}),
      Catch::Contains("context is 200") && Catch::Contains("300 tokens of sample 1"));
}

TEST_CASE("the search loses little to the best number of packs for all pipelines alike") {
  for (const Tokens context : {65536, 131072, 262144}) {
    for (const std::int32_t dp : {4, 16}) {
      INFO("context " << context << ", dp " << dp);
      const std::vector<Tokens> lengths = github(512, context);
      const Job job = llama_13b(dp, 8, dp == 4 ? 4 : 1);
      const double found = plan_slimpack(lengths, job).step.seconds;
      double best = std::numeric_limits<double>::infinity();
      for (const unsigned packs : {8u, 12u, 16u, 24u, 32u, 48u, 64u, 96u, 128u, 192u, 256u, 384u}) {
        try {
          best = std::min(best, plan_slimpack(lengths, job, {.packs = packs}).step.seconds);
        } catch (const InvalidInput&) {  // does not fit into memory
        }
      }
      CHECK(found <= 1.02 * best);
    }
  }
}

TEST_CASE("where tiles are few, a pack for each of them takes no less time than the plan") {
  int better = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(200, 20); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Job job = oracle::random_job(random, 1, 1e12);
    job.layout.pp = std::uniform_int_distribution<std::int32_t>(4, 12)(random);
    job.model.layers = job.layout.pp;
    const Tokens tile = std::uniform_int_distribution<Tokens>(200, 2000)(random);
    std::vector<Tokens> lengths;
    std::size_t tiles = 0;
    for (std::size_t left = std::uniform_int_distribution<std::size_t>(1, 6)(random); left > 0; --left) {
      lengths.push_back(std::uniform_int_distribution<Tokens>(tile / 2 + 1, 3 * tile)(random));
      tiles += static_cast<std::size_t>((lengths.back() + tile - 1) / tile);
    }
    const Plan plan = plan_slimpack(lengths, job, {.tile = tile});
    const Plan finest = plan_slimpack(lengths, job, {.tile = tile, .packs = tiles});
    CHECK(plan.step.seconds <= finest.step.seconds * (1.0 + 1e-12));
    better += plan.step.seconds < finest.step.seconds ? 1 : 0;
  }
  CHECK(better > 0);
}

TEST_CASE("where merging leaves replicas' totals unequal, plans without merging take longer") {
  const std::vector<Tokens> lengths = github(2048, 131072);
  const Plan merged = plan_slimpack(lengths, llama_13b(16, 8));
  const Plan equal = plan_slimpack(lengths, llama_13b(16, 8), {.merge = false});
  REQUIRE(!merged_groups(merged).empty());
  CHECK(plan_metrics(merged).replica_imbalance > 1.005);
  CHECK(plan_metrics(merged).busiest_stage_imbalance <= 1.03);
  CHECK(merged.step.seconds < 0.98 * equal.step.seconds);
}

TEST_CASE("a plan says truly why its packs or replicas are unequal") {
  const auto notes = [](const std::vector<Tokens>& lengths, std::int32_t dp, const SlimPackOptions& options) {
    std::string all;
    for (const std::string& note : plan_slimpack(lengths, llama_13b(dp, 8, 4), options).notes)
      all += note + "\n";
    return all;
  };
  const auto contains = [](const char* text) { return Catch::Contains(text); };
  const std::vector<Tokens> uneven{100000, 100};
  CHECK_THAT(notes(uneven, 2, {.merge = false}), contains("without merging, a sample stays on one of them"));
  CHECK_THAT(notes(uneven, 2, {}), !contains("without merging"));
  CHECK_THAT(notes(uneven, 1, {.tile = 65536, .packs = 8}), contains("2 %: their number was given"));
  CHECK_THAT(notes(uneven, 1, {.tile = 65536}), contains("2 %: of the candidates tried"));
  CHECK_THAT(notes(github(64, 16384), 1, {.asymmetric = false}),
             contains("2 %: backward packs have the boundaries of forward packs"));
  CHECK(notes(std::vector<Tokens>(64, 4096), 2, {.packs = 32}).empty());
}

TEST_CASE("the naive checker and simulation see what is broken") {
  const Job job = small_job(2, 3);
  const Plan good = plan_slimpack(std::vector<Tokens>{900, 300, 200, 100}, job, {.tile = 16, .packs = 6});
  REQUIRE(oracle::broken_rule(good) == "");
  const auto contains = [](const char* rule) { return Catch::Contains(rule); };
  Plan plan = good;
  plan.tokens[1] += 1;
  CHECK_THAT(oracle::broken_rule(plan), contains("rule 1"));
  // Of the longest sample, several slices: swap the first two forward packs of its pipeline's last stage.
  const PipelineId p = good.forward.pipelines[0][0];
  plan = good;
  std::swap(plan.pipelines[p].order[2][0], plan.pipelines[p].order[2][1]);
  REQUIRE(plan.pipelines[p].order[2][0].pass == Pass::forward);
  CHECK_THAT(oracle::broken_rule(plan), contains("rule 2"));
  CHECK(slimpack::testing::naive_seconds(plan) == std::numeric_limits<double>::infinity());
  plan = good;
  auto& order = plan.pipelines[p].order[2];
  const auto backward =
      std::find_if(order.begin(), order.end(), [](Task t) { return t.pass == Pass::backward; });
  std::rotate(order.begin(), backward, backward + 1);
  CHECK_THAT(oracle::broken_rule(plan), contains("rule 3"));
  CHECK(slimpack::testing::naive_seconds(plan) == std::numeric_limits<double>::infinity());
  plan = good;
  plan.pipelines[p].order[1].pop_back();
  CHECK_THAT(oracle::broken_rule(plan), contains("rule 4"));
  plan = good;
  plan.pipelines[p].order[0].push_back(plan.pipelines[p].order[0].back());
  CHECK_FALSE(oracle::broken_rule(plan).empty());
}

TEST_CASE("the same batch gives the same plan") {
  const std::vector<Tokens> lengths = github(512, 131072);
  const Plan one = plan_slimpack(lengths, llama_13b(8, 8)), two = plan_slimpack(lengths, llama_13b(8, 8));
  CHECK(one.step.seconds == two.step.seconds);
  CHECK(one.forward.packs == two.forward.packs);
  CHECK(one.backward.packs == two.backward.packs);
  CHECK(one.forward.pipelines == two.forward.pipelines);
  CHECK(one.backward.seconds == two.backward.seconds);
  for (std::size_t p = 0; p < one.pipelines.size(); ++p)
    CHECK(one.pipelines[p].order == two.pipelines[p].order);
}

TEST_CASE("65,536 samples on 512 x 16 stay under 1 GiB", "[slow]") {
  // In a process of its own, whose peak the system counts.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const Plan plan = plan_slimpack(github(65536, 262144), llama_13b(512, 16));
    _exit(plan.pipelines.size() == 512 && violations(plan).empty() ? 0 : 1);
  }
  int status = 0;
  rusage usage{};
  REQUIRE(wait4(child, &status, 0, &usage) == child);
  CHECK(status == 0);
  CHECK(usage.ru_maxrss < 1024 * 1024);  // KiB
}

TEST_CASE("a long sample's backward waits for no short one, and short ones fill its packs") {
  // 2,048 Wikipedia-like lengths: one sample is a third of a pipeline's work, the others are short.
  std::mt19937 random(7);
  std::vector<Tokens> lengths{46000};
  while (lengths.size() < 128) lengths.push_back(1 + static_cast<Tokens>(random() % 1200));
  const Job job{.model = transformer_preset("llama-13b"),
                .device = device_preset("h100"),
                .layout = {.tp = 2, .pp = 8}};
  const Plan best = plan_slimpack(lengths, job);
  CHECK(violations(best).empty());
  CHECK(best.step.gap() < 0.18);
  // With more packs, the long sample may have packs of its own.
  const Plan plan = plan_slimpack(lengths, job, {.packs = 24});
  CHECK(violations(plan).empty());
  std::size_t mixed = 0;  // packs with part of the long sample and others
  for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
    const auto pack = plan.backward.packs[k];
    const bool cut = std::any_of(pack.begin(), pack.end(),
                                 [&](const Slice& slice) { return slice.size() < lengths[slice.sample]; });
    mixed += cut && pack.size() > 1 ? 1U : 0U;
  }
  CHECK(mixed > 4);
}

TEST_CASE("where memory holds all pipelines back, long samples are spread further") {
  Job job = llama_13b(2, 8, 8);
  job.model = transformer_preset("llama-150b");
  const Plan plan = plan_slimpack(github(2048, 65536), job);
  CHECK(plan.step.seconds <= 1.06 * plan.step.lower_bound_seconds);  // at 0.55 of a member's tokens 1.29
}

TEST_CASE("in little memory most batches have a plan, not far above the bound on average", "[slow]") {
  struct Expected {
    std::int32_t stages;
    double hopeless, above_bound;
  };
  constexpr unsigned cases = 25;
  for (const auto& [stages, most_hopeless, most_above] :
       {Expected{1, 0.8, 1.7}, {2, 0.5, 1.7}, {4, 0.25, 1.7}}) {
    double sum = 0.0;
    int planned = 0, hopeless = 0;
    for (unsigned seed = 0; seed < cases; ++seed) {
      std::mt19937 random(seed);
      const auto [lengths, job] = little_memory(random, stages);
      try {
        const Plan plan = plan_slimpack(lengths, job);
        INFO("seed " << seed);
        CHECK(violations(plan).empty());
        sum += std::log(plan.step.pipeline_seconds / plan.step.lower_bound_seconds);
        ++planned;
      } catch (const InvalidInput&) {
        ++hopeless;
      }
    }
    INFO(stages << " stages");
    CHECK(hopeless <= most_hopeless * cases);
    CHECK(std::exp(sum / planned) <= most_above);
  }
}

TEST_CASE("equal numbers of packs find the room that there is on all members of a group") {
  // Batches of which two members, a first distribution, or the quick search alone don't give a plan, or a slow one.
  for (const unsigned seed : {1411u, 1755u, 2253u, 2538u}) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto [lengths, job] = little_memory(random);
    (void)random();
    const std::size_t packs = random() % 3 == 0 ? 4 + random() % 20 : 0;
    const Plan plan = plan_slimpack(lengths, job, {.equal_packs = true, .packs = packs});
    CHECK(violations(plan).empty());
    CHECK(plan.step.pipeline_seconds <= (seed == 1411 ? 4.0 : 1.5) * plan.step.lower_bound_seconds);
  }
}

TEST_CASE("batches that fit only with long samples spread far are planned") {
  for (const unsigned seed : {921u, 1038u}) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const int dp = pick(2, 6);
    const auto count = static_cast<std::size_t>(dp + pick(0, 30));
    const auto lengths = oracle::random_lengths(random, count, pick(0, 3), 6000);
    Job job = oracle::random_job(random, dp, 1e9);
    const TransformerMemory memory(job);
    double weights = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(job.layout.pp); ++s)
      weights = std::max(weights, memory.static_bytes(s));
    job.device.memory_bytes = weights * (1.0 + 0.001 * std::pow(10.0, pick(0, 300) / 100.0)) + (1 << 16);
    const Plan plan = plan_slimpack(lengths, job, {.tile = 16});
    CHECK(violations(plan).empty());
    for (const auto& row : plan.step.peak_bytes) {
      for (const double bytes : row) CHECK(bytes <= job.device.memory_bytes);
    }
  }
}
