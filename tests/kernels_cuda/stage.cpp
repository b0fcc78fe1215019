#include "kernels/cuda/stage.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/stage_run.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "slimpack/exec/context_members.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels_cuda/host_device.hpp"
#include "tests/kernels_cuda/host_stage.hpp"
#include "tests/kernels_cuda/stage_case.hpp"
#include "tests/kernels_cuda/thread_links.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"
#include "tests/plan/sample_plan.hpp"

// Whole training steps of a GPU's stage, run on the host, against the CPU's stage in double.
using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::bench::Outcome, slimpack::bench::StageCase, slimpack::bench::Tensors,
    slimpack::bench::run_reference;
using slimpack::kernels::cuda::attention_rows, slimpack::kernels::cuda::group_attention_rows,
    slimpack::testing::HostDevice;
using slimpack::testing::bf16_tolerance, slimpack::testing::case_of, slimpack::testing::relative_error,
    slimpack::testing::few, slimpack::testing::seeds;

namespace {

using Stage = slimpack::testing::HostStage;

/// @param rows tokens of attention's blocks: which kernels run
/// @param order seed of the times at which queues do their work.
Outcome run_device(const StageCase& c, std::int32_t rows = attention_rows, std::size_t order = 1) {
  return slimpack::testing::run_through_host<Stage>(c, [&](std::size_t rank) {
    HostDevice::next_seed() = static_cast<std::uint32_t>(100 * rank + order);
    HostDevice::next_attention_rows() = rows;
  });
}

/// ||result - expected|| / ||expected|| over all tensors.
double error_of(const Tensors& result, const Tensors& expected) {
  std::vector<double> got, wanted;
  REQUIRE(result.size() == expected.size());
  for (const auto& [name, numbers] : expected) {
    wanted.insert(wanted.end(), numbers.begin(), numbers.end());
    got.insert(got.end(), result.at(name).begin(), result.at(name).end());
  }
  return relative_error(got, wanted);
}

/// @returns the stage's.
Outcome compare(const StageCase& c, std::int32_t rows = attention_rows) {
  const Outcome result = run_device(c, rows), expected = run_reference(c);
  INFO("loss " << result.loss << ", expected " << expected.loss);
  CHECK(std::abs(result.loss - expected.loss) <= bf16_tolerance * std::abs(expected.loss));
  CHECK(error_of(result.weights, expected.weights) <= bf16_tolerance);
  // Sharded, replicas keep the sums of their shares alone.
  if (c.steps > 1 || (c.options.shard_optimiser && c.plan.pipelines.size() > 1)) return result;
  for (const auto& [name, numbers] : expected.gradients) {
    INFO(name);
    CHECK(relative_error(result.gradients.at(name), numbers) <= 3 * bf16_tolerance);
  }
  CHECK(error_of(result.gradients, expected.gradients) <= bf16_tolerance);
  return result;
}

/// Tokens of a pipeline's smallest and largest task. [pipeline]
std::vector<std::pair<double, double>> least_and_most_tokens(const Plan& plan) {
  std::vector<std::pair<double, double>> found(plan.pipelines.size(), {1e9, 0.0});
  for (const PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      const auto members = static_cast<double>(pass->pipelines[k].size());
      const double tokens = std::ceil(static_cast<double>(count_tokens(pass->packs[k])) / members);
      for (const PipelineId p : pass->pipelines[k])
        found[p] = {std::min(found[p].first, tokens), std::max(found[p].second, tokens)};
    }
  }
  return found;
}

}  // namespace

TEST_CASE("CUDA: a stage trains as the CPU's does, whatever the plan") {
  for (unsigned seed = 1; seed <= seeds(10, 4); ++seed) {
    const slimpack::testing::SamplePlanOptions options{.seed = seed,
                                                       .samples = 2 + seed % 3,
                                                       .deferred = seed % 2,
                                                       .pipelines = 1 + seed % 2,
                                                       .stages = 1 + seed % 3,
                                                       .max_tokens = 90,
                                                       .split_weights = seed % 4 == 0};
    INFO("seed " << seed);
    StageCase c = case_of(slimpack::testing::sample_plan(options), seed);
    c.steps = seed % 4 == 1 ? 2 : 1;
    compare(c);
  }
}

TEST_CASE("CUDA: a stage trains with attention's kernels for Hopper, too") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    INFO("seed " << seed);
    const StageCase c = case_of(slimpack::testing::sample_plan({.seed = seed,
                                                                .samples = 3,
                                                                .pipelines = 1,
                                                                .stages = 1 + seed % 2,
                                                                .max_tokens = 200,
                                                                .split_weights = seed == 3}),
                                seed);
    compare(c, group_attention_rows);
  }
}

TEST_CASE("CUDA: a stage runs what the planners make, and holds what they reckon with") {
  const std::vector<Tokens> lengths{30, 61, 150, 44, 25, 75};
  for (const std::int32_t pp : {1, 2, 3}) {
    for (const std::int32_t dp : {1, 2}) {
      if ((pp == 3 && dp == 1) || (few && (pp == dp || pp == 3))) continue;
      INFO("pp " << pp << ", dp " << dp);
      const Transformer model{"case", 2 * pp, 128, 2, 1 + dp % 2, 64, 256, 100};
      const Job job{model, device_preset("cpu"), {.dp = dp, .pp = pp}};
      const auto layers = split_layers(model.layers, pp);
      StageCase c{.plan = {}, .model = model, .ids = {}, .options = {}};
      c.options.init.deviation = 0.05;
      c.options.shard_optimiser = dp == 2;
      c.options.stage.ring_tokens = 32;  // windows that all shares fill
      const Stage::Memory memory(model, layers, sizeof(float), c.options.stage, 2.0 / dp);
      c.plan = plan_slimpack(lengths, job, CalibratedCost(job), memory, {.tile = 16});
      c.plan = context_ranks_as_members(std::move(c.plan), default_ownership_block);
      // Windows that both members fill, of pieces that fill the arena's units.
      for (PassPlan* pass : {&c.plan.forward, &c.plan.backward}) pass->block = 8;
      std::mt19937 random(7);
      c.ids = slimpack::testing::random_ids(random, c.plan, model.vocab);
      const Outcome outcome = compare(c, pp == 2 && dp == 2 ? group_attention_rows : attention_rows);
      const auto curves = memory_over_time(c.plan, time_plan(c.plan), memory);
      const auto tasks = least_and_most_tokens(c.plan);
      for (std::size_t rank = 0; rank < outcome.reports.size(); ++rank) {
        const RankPlace place = PlanRanks(c.plan).place_of(rank);
        const double simulated = curves.peak_bytes[place.pipeline][place.stage];
        const double held = memory.static_bytes(place.stage);
        const StepReport& report = outcome.reports[rank];
        INFO("rank " << rank << ": held " << held << ", peak " << report.peak_bytes << ", simulated "
                     << simulated << ", walked " << report.predicted_bytes);
        // Stages that run ahead of each other hold packs of unlike sizes, between which the arena has gaps.
        const double gaps = pp == 1 ? 0.02 : 0.04;
        CHECK(report.peak_bytes == Approx(simulated).epsilon(gaps));
        CHECK(report.peak_bytes == Approx(report.predicted_bytes).epsilon(gaps));
        // Weights are most of it here, so the arena is checked by itself as well. While a small task runs, rows
        // that come and go keep the size of the largest one.
        const double rows = 2.0 * sizeof(cuda::Bf16) * model.hidden *
                            (tasks[place.pipeline].second - tasks[place.pipeline].first);
        CHECK(report.peak_bytes - held >= 0.98 * (simulated - held));
        CHECK(report.peak_bytes - held <= (pp == 1 ? 1.02 : 1.2) * (simulated - held) + rows);
      }
    }
  }
}

TEST_CASE("CUDA: a stage shares the heads of merged packs with other pipelines' stages") {
  for (unsigned seed = 1; seed <= seeds(4, 2); ++seed) {
    INFO("seed " << seed);
    const std::size_t members = seed % 4 == 1 ? 3 : 2;
    StageCase c = case_of(slimpack::testing::sample_plan({.seed = seed,
                                                          .samples = 4,
                                                          .merged = 1 + seed % 3,
                                                          .members = members,
                                                          .pipelines = 2 + seed % 2,
                                                          .stages = 1 + seed % 2,
                                                          .max_tokens = 90,
                                                          .split_weights = seed == 4}),
                          seed);
    std::size_t merged = 0;
    for (std::size_t k = 0; k < c.plan.forward.packs.size(); ++k)
      merged += c.plan.forward.pipelines[k].size() > 1 ? 1 : 0;
    REQUIRE(merged > 0);
    c.model.kv_heads = static_cast<std::int32_t>(members);
    c.model.heads = c.model.kv_heads * (1 + static_cast<std::int32_t>(seed % 2));
    c.options.stage.merged = MergedAttention::heads;
    c.options.block = 1 + static_cast<Tokens>(seed * 5 % 40);
    const Outcome outcome = compare(c, seed == 2 ? group_attention_rows : attention_rows);
    for (const StepReport& report : outcome.reports) {
      INFO("peak " << report.peak_bytes << ", predicted " << report.predicted_bytes);
      CHECK(report.peak_bytes < 1.15 * report.predicted_bytes);
    }
  }
}

namespace {

void check_same_bits(const StageCase& c, const Outcome& one, const Outcome& other) {
  CHECK(one.loss == other.loss);
  CHECK((one.weights == other.weights));
  if (!c.options.shard_optimiser) CHECK((one.gradients == other.gradients));
}

/// Some packs are merged of all pipelines, in a ring: heads need not be as many as members.
StageCase ring_case(unsigned seed, Tokens max_tokens = 90) {
  const std::size_t members = 2 + seed % 3;
  StageCase c = case_of(slimpack::testing::sample_plan({.seed = seed,
                                                        .samples = 4,
                                                        .merged = 1 + seed % 4,
                                                        .members = members,
                                                        .pipelines = members + seed % 2,
                                                        .stages = 1 + seed % 2,
                                                        .max_tokens = max_tokens,
                                                        .split_weights = seed % 4 == 0}),
                        seed);
  c.options.block = 1 + static_cast<Tokens>(seed * 5 % 20);
  c.options.stage.ring_tokens = 1 + seed * 7 % 30;
  return c;
}

}  // namespace

TEST_CASE("CUDA: keys and values of merged packs go round between pipelines' stages") {
  // Where few are run: 2, of groups, 3, of two stages, and 4, of split weights.
  for (unsigned seed = seeds(1, 2); seed <= seeds(6, 4); ++seed) {
    INFO("seed " << seed);
    const Outcome outcome = compare(ring_case(seed), seed % 3 == 2 ? group_attention_rows : attention_rows);
    for (const StepReport& report : outcome.reports) {
      INFO("peak " << report.peak_bytes << ", predicted " << report.predicted_bytes);
      CHECK(report.peak_bytes < 1.15 * report.predicted_bytes);
    }
  }
  // Samples of a few tokens, of which most members have none.
  for (unsigned seed = 20; seed <= 20 + seeds(2, 1); ++seed) {
    INFO("seed " << seed);
    compare(ring_case(seed, 3));
  }
}

TEST_CASE("CUDA: ranks of packs that are shared in any way train as the CPU's do") {
  int kinds[5] = {};
  for (unsigned seed = 1; seed <= seeds(6, 4); ++seed) {
    INFO("seed " << seed);
    Plan plan = slimpack::testing::sample_plan({.seed = seed,
                                                .samples = 5,
                                                .merged = seed % 3 == 0 ? 2U : 0U,
                                                .pipelines = 1 + seed % 2,
                                                .stages = 1 + seed % 2,
                                                .max_tokens = 90,
                                                .cp = 2 + static_cast<std::int32_t>(seed % 2),
                                                .whole = true,
                                                .split_weights = seed == 4});
    StageCase c = case_of(context_ranks_as_members(std::move(plan), 8), seed);
    for (const Sharding kind : c.plan.forward.sharding) ++kinds[static_cast<std::size_t>(kind)];
    c.options.stage.merged = seed % 4 < 2 ? MergedAttention::ring : MergedAttention::heads;
    if (c.options.stage.merged == MergedAttention::heads) {
      c.model.kv_heads = static_cast<std::int32_t>(c.plan.pipelines.size());
      c.model.heads = c.model.kv_heads;
    }
    c.options.stage.ring_tokens = 1 + seed * 7 % 30;
    const Outcome outcome = compare(c, seed % 3 == 2 ? group_attention_rows : attention_rows);
    for (const StepReport& report : outcome.reports) {
      INFO("peak " << report.peak_bytes << ", predicted " << report.predicted_bytes);
      CHECK(report.peak_bytes < 1.15 * report.predicted_bytes);
    }
  }
  for (const Sharding kind : {Sharding::per_sequence, Sharding::per_document, Sharding::mixed})
    CHECK(kinds[static_cast<std::size_t>(kind)] > 0);
}

TEST_CASE("CUDA: gradients of merged samples that are longer than a piece stand in several") {
  for (const MergedAttention merged : {MergedAttention::heads, MergedAttention::ring}) {
    const std::size_t members = merged == MergedAttention::heads ? 3 : 2;
    INFO(members << " members");
    StageCase c = case_of(slimpack::testing::sample_plan({.seed = 2,
                                                          .samples = 3,
                                                          .merged = 2,
                                                          .members = members,
                                                          .pipelines = members,
                                                          .stages = 1,
                                                          .max_tokens = 400}),
                          2);
    REQUIRE(*std::max_element(c.plan.tokens.begin(), c.plan.tokens.begin() + 2) >
            2 * cuda::gradient_piece_rows);
    c.model.kv_heads = c.model.heads = static_cast<std::int32_t>(members);
    c.options.stage.merged = merged;
    c.options.stage.ring_tokens = 100;
    c.options.block = 16;
    compare(c, merged == MergedAttention::heads ? attention_rows : group_attention_rows);
  }
}

TEST_CASE("CUDA: a ring takes the memory that the simulator reckons with") {
  // Members' shares are equal where samples are multiples of their blocks.
  for (const std::int32_t members : {2, 4}) {
    INFO(members << " members");
    const std::size_t block = 8, ring_tokens = 4 * block;
    StageCase c = case_of(slimpack::testing::sample_plan({.seed = 3,
                                                          .samples = 1,
                                                          .merged = 1,
                                                          .members = static_cast<std::size_t>(members),
                                                          .pipelines = static_cast<std::size_t>(members),
                                                          .stages = 1,
                                                          .max_tokens = 1}),
                          1);
    const auto tokens = static_cast<Tokens>(16 * block) * members;
    c.plan.tokens = {tokens};
    for (PassPlan* pass : {&c.plan.forward, &c.plan.backward}) {
      pass->packs = {};
      pass->packs.add({0, 0, tokens});
      pass->packs.close();
    }
    c.options.block = static_cast<Tokens>(block);
    c.options.stage.ring_tokens = ring_tokens;
    std::mt19937 random(1);
    c.ids = slimpack::testing::random_ids(random, c.plan, c.model.vocab);
    const Outcome outcome = compare(c);
    const Stage::Memory memory(c.model, c.plan.pipelines[0].layers, sizeof(float), c.options.stage,
                               c.options.shard_optimiser ? 2.0 / members : 2.0);
    for (const StepReport& report : outcome.reports) {
      const double held = memory.static_bytes(0);
      INFO("peak " << report.peak_bytes - held << ", predicted " << report.predicted_bytes - held);
      CHECK(report.peak_bytes - held == Approx(report.predicted_bytes - held).epsilon(0.02));
    }
  }
}

TEST_CASE("CUDA: a step has the same bits, whenever queues do their work") {
  // The first differs from the third in that its weights are not split.
  for (unsigned seed = seeds(1, 2); seed <= 3; ++seed) {
    INFO("seed " << seed);
    StageCase c = case_of(slimpack::testing::sample_plan({.seed = seed,
                                                          .samples = 3,
                                                          .pipelines = 2,
                                                          .stages = 2,
                                                          .max_tokens = 50,
                                                          .split_weights = seed == 3}),
                          seed);
    c.steps = 2;
    const std::int32_t rows = seed == 2 ? group_attention_rows : attention_rows;
    const Outcome one = run_device(c, rows, 1), other = run_device(c, rows, 50);
    check_same_bits(c, one, other);
    for (const StepReport& report : one.reports) {
      double end = 0.0;
      for (const TaskRecord& task : report.tasks) {
        CHECK(task.start >= end);
        CHECK(task.seconds >= 0.0);
        end = task.start + task.seconds;
      }
    }
  }
  for (unsigned seed = 30 + seeds(1, 4); seed <= 34; ++seed) {
    INFO("ring of seed " << seed);
    const StageCase c = ring_case(seed, 50);
    check_same_bits(c, run_device(c, attention_rows, 1), run_device(c, attention_rows, 50));
  }
}

TEST_CASE("CUDA: memory that is asked for within a step is an error, and all of it is taken before") {
  HostDevice device;
  HostDevice::memory_is_fixed() = true;
  CHECK_THROWS_WITH(device.memory(8, "it"), Catch::Contains("within a step, 8 bytes of memory are taken"));
  CHECK_THROWS_AS(device.host_memory(8), std::logic_error);
  HostDevice::memory_is_fixed() = false;
  kernels::cuda::Staging<HostDevice> staging(device);
  staging.begin_step(48);
  HostDevice::pieces_taken() = 0;
  const std::vector<std::byte> some(32);
  CHECK(staging.keep(some) != nullptr);
  CHECK_THROWS_WITH(staging.keep(some), Catch::StartsWith("a task is told 32 bytes; expected at most 16"));
  staging.begin_step(32);
  CHECK(HostDevice::pieces_taken() == 0);
  staging.begin_step(64);
  CHECK(HostDevice::pieces_taken() == 1);
}

TEST_CASE("CUDA: a later step that needs a larger arena gets one, and a smaller one keeps it") {
  StageCase c =
      case_of(slimpack::testing::sample_plan({.seed = 1, .samples = 2, .pipelines = 1, .stages = 1}), 1);
  StageCase large = c;
  large.plan =
      whole_stages(slimpack::testing::sample_plan({.seed = 1, .samples = 5, .pipelines = 1, .stages = 1}));
  std::mt19937 random(1);
  large.ids = slimpack::testing::random_ids(random, large.plan, c.model.vocab);
  run_in_process(1, [&](InProcessTransport& t) {
    RankExecutor<Stage, InProcessTransport> executor(t, c.model, c.plan, c.options);
    const StepReport first = executor.step(c.plan, c.ids), second = executor.step(large.plan, large.ids),
                     third = executor.step(c.plan, c.ids);
    REQUIRE(first.peak_bytes < second.peak_bytes);
    CHECK(third.peak_bytes == second.peak_bytes);
    CHECK(second.peak_bytes < 1.1 * second.predicted_bytes);
    CHECK(third.loss < first.loss);
  });
}

TEST_CASE("CUDA: what a stage can't run is named before its first task") {
  const auto error_of = [](StageCase c, auto&& spoil) {
    std::string error;
    spoil(c);
    try {
      run_device(c);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    return error;
  };
  const auto plan = [](std::size_t merged) {
    return slimpack::testing::sample_plan(
        {.seed = 2, .samples = 3, .merged = merged, .pipelines = 2, .stages = 1, .max_tokens = 30});
  };
  CHECK_THAT(error_of(case_of(plan(0), 1), [](StageCase& c) { c.plan.pipelines[1].tp = 2; }),
             Catch::Contains("pipeline 1 has tp 2; expected 1, for the back end runs whole stages"));
  CHECK_THAT(error_of(case_of(plan(2), 1), [](StageCase& c) { c.options.stage.ring_tokens = 0; }),
             Catch::StartsWith("ring_tokens is 0"));
  CHECK_THAT(error_of(case_of(plan(2), 1),
                      [](StageCase& c) {
                        c.options.stage.merged = MergedAttention::heads;
                        c.model.heads = c.model.kv_heads = 1;
                      }),
             Catch::Contains("expected a divisor of the 1 key/value heads"));
  const StageCase good = case_of(plan(0), 1);
  CHECK(error_of(good, [](StageCase&) {}).empty());
  CHECK_THAT(error_of(good, [](StageCase& c) { c.model.head_dim = 32; }),
             Catch::StartsWith("head_dim is 32"));
  CHECK_THAT(error_of(good, [](StageCase& c) { c.model.ffn += 1; }), Catch::Contains("multiples of 8"));
  CHECK_THAT(error_of(good, [](StageCase& c) { c.options.stage.limit_bytes = 1e4; }),
             Catch::Contains("stage 0 of pipeline ") &&
                 Catch::Contains(" for weights and gradients needs ") &&
                 Catch::Contains(", but 10000 bytes are there; expected "));
  const Stage::Memory memory(good.model, good.plan.pipelines[0].layers, sizeof(float), good.options.stage);
  CHECK_THAT(
      error_of(good, [&](StageCase& c) { c.options.stage.limit_bytes = memory.static_bytes(0) + 30000.0; }),
      Catch::Contains("stage 0 of pipeline ") && Catch::Contains(" are there; expected "));
}

TEST_CASE("CUDA: a device that has too little memory is named by its stage, and all ranks end") {
  const StageCase c = case_of(slimpack::testing::sample_plan(
                                  {.seed = 2, .samples = 3, .pipelines = 2, .stages = 2, .max_tokens = 30}),
                              1);
  const std::size_t ranks = rank_count(c.plan), poor = PlanRanks(c.plan).rank_of({0, 1});
  const Stage::Memory memory(c.model, c.plan.pipelines[0].layers, sizeof(float), c.options.stage,
                             c.options.shard_optimiser ? 1.0 : 2.0);
  const auto held = static_cast<std::size_t>(memory.static_bytes(1));
  struct Case {
    std::size_t free;
    const char* what;
  };
  for (const Case& limit :
       {Case{1000, " for weights and gradients"}, Case{held - 1000, " for the optimiser's moments"},
        Case{held + 3000, " for the step's arena"}}) {
    INFO("on " << limit.free << " bytes, of " << held << " that are held");
    std::vector<std::string> errors(ranks);
    std::vector<std::unique_ptr<slimpack::testing::BusyTransport>> transports(ranks);
    CHECK_THROWS(run_in_process(ranks, [&](InProcessTransport& t) {
      try {
        HostDevice::next_free() = t.rank() == poor ? limit.free : HostDevice::unlimited;
        transports[t.rank()] = std::make_unique<slimpack::testing::BusyTransport>(t);
        RankExecutor<Stage, slimpack::testing::BusyTransport> executor(*transports[t.rank()], c.model, c.plan,
                                                                       c.options);
        executor.step(c.plan, c.ids);
      } catch (const std::exception& error) {
        errors[t.rank()] = error.what();
        throw;
      }
    }));
    CHECK_THAT(errors[poor], Catch::StartsWith("stage 1 of pipeline 0" + std::string(limit.what)) &&
                                 Catch::Contains(" needs ") && Catch::Contains(" are there; expected ") &&
                                 Catch::EndsWith(" more"));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      INFO("rank " << rank << ": " << errors[rank]);
      if (rank != poor) CHECK_THAT(errors[rank], Catch::Contains(concat("rank ", poor)));
    }
  }
}

TEST_CASE("CUDA: a loss that is no number ends the step before weights change") {
  const StageCase c = case_of(slimpack::testing::sample_plan(
                                  {.seed = 2, .samples = 2, .pipelines = 1, .stages = 1, .max_tokens = 30}),
                              1);
  run_in_process(1, [&](InProcessTransport& t) {
    RankExecutor<Stage, InProcessTransport> executor(t, c.model, c.plan, c.options);
    std::vector<float> weights(executor.stage().weight_layout().size()), after(weights.size());
    executor.stage().read_weights(weights);
    weights[0] = NAN;
    executor.stage().write_weights(weights);
    std::string error;
    try {
      executor.step(c.plan, c.ids);
    } catch (const InvalidInput& thrown) {
      error = thrown.what();
    }
    if (error.find("the loss of stage 0 of pipeline 0 is") != 0) throw std::runtime_error("said: " + error);
    executor.stage().read_weights(after);
    if (!std::equal(weights.begin() + 1, weights.end(), after.begin() + 1))
      throw std::runtime_error("weights have changed");
  });
}
