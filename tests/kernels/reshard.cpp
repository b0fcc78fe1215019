#include "kernels/reshard.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "kernels/disaggregated.hpp"
#include "kernels/transport/in_process.hpp"
#include "tests/kernels/reshard_buffers.hpp"
#include "tests/kernels/trained.hpp"
#include "tests/plan/sample_plan.hpp"
#include "tests/strategy/reshard_cases.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::Buffers, slimpack::testing::buffers, slimpack::testing::ranks_of,
    slimpack::testing::replicas, slimpack::testing::spans;
using slimpack::testing::ReshardCase, slimpack::testing::reshard_case, slimpack::testing::seeds;

namespace {

bool same_bits(const Buffers& a, const Buffers& b) {
  return std::ranges::equal(a, b, [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::ranges::equal(x, y, [](float p, float q) {
      return std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
    });
  });
}

/// Any finite number, that depends on its place alone.
float parameter(std::size_t unit, std::int64_t i) {
  std::mt19937 random(static_cast<unsigned>(unit * 7919 + static_cast<std::size_t>(i)));
  return (random() % 2 == 0 ? -1.0F : 1.0F) * std::uniform_real_distribution<float>(0.0F, 1e3F)(random);
}

}  // namespace

TEST_CASE("parameters move to any layout, and gradients back, bit for bit", "[threads]") {
  std::size_t forwarded = 0, replicated = 0;
  for (unsigned seed = 1; seed <= seeds(40, 8, 8); ++seed) {
    INFO("seed " << seed);
    const ReshardCase c = reshard_case(seed, true);
    const ReshardPlan plan = plan_reshard(c.from, c.to, c.device, c.options);
    for (const ReshardMove& m : plan.moves.values()) forwarded += m.forwarded;
    for (std::size_t u = 0; u < c.to.units(); ++u) replicated += replicas(c.to, u, 0) > 1;
    std::atomic<int> wrong = 0;
    run_in_process(ranks_of(c),
                   [&](InProcessTransport& t) {
                     Group<InProcessTransport> all(t);
                     const Buffers kept = buffers(c.from, t.rank(), parameter);
                     Buffers first = kept,
                             second = buffers(c.to, t.rank(), [](std::size_t, std::int64_t) { return 9.0F; });
                     Resharder<InProcessTransport, float>(t, all, plan, ReshardDirection::pull, spans(first),
                                                          spans(second))
                         .run();
                     wrong +=
                         !same_bits(first, kept) || !same_bits(second, buffers(c.to, t.rank(), parameter));
                     // Gradients: the parameter itself where there is one replica, else an integer, whose sums are exact.
                     const auto slope = [&](std::size_t u, std::int64_t i) {
                       return replicas(c.to, u, i) == 1 ? parameter(u, i) : static_cast<float>(i % 1000);
                     };
                     second = buffers(c.to, t.rank(), slope);
                     first = buffers(c.from, t.rank(), [](std::size_t, std::int64_t) { return -7.0F; });
                     Resharder<InProcessTransport, float>(t, all, plan, ReshardDirection::push, spans(first),
                                                          spans(second))
                         .run();
                     wrong += !same_bits(first, buffers(c.from, t.rank(), [&](std::size_t u, std::int64_t i) {
                                           return slope(u, i) * static_cast<float>(replicas(c.to, u, i));
                                         }));
                   },
                   {{}, seed % 2 == 0});
    CHECK(wrong == 0);
  }
  CHECK(forwarded > 0);
  CHECK(replicated > 0);
}

TEST_CASE("one rank's wrong buffers or other plan stop all ranks, and nothing has moved", "[threads]") {
  const ReshardCase c = reshard_case(3, true);
  const std::size_t ranks = ranks_of(c);
  REQUIRE(ranks > 1);
  ReshardPlan plan = plan_reshard(c.from, c.to, c.device, c.options), other = plan;
  other.moves = {};
  for (std::size_t u = 0; u < plan.moves.size(); ++u) {
    for (const ReshardMove& m : plan.moves[u].subspan(1)) other.moves.add(m);
    other.moves.close();
  }
  for (const bool other_plan : {false, true}) {
    std::mutex mutex;
    std::vector<std::string> errors;
    run_in_process(ranks, [&](InProcessTransport& t) {
      Group<InProcessTransport> all(t);
      const Buffers kept = buffers(c.from, t.rank(), parameter);
      const Buffers untouched = buffers(c.to, t.rank(), [](std::size_t, std::int64_t) { return 9.0F; });
      Buffers first = kept, second = untouched;
      if (t.rank() == 1 && !other_plan) second.pop_back();
      try {
        Resharder<InProcessTransport, float>(t, all, t.rank() == 1 && other_plan ? other : plan,
                                             ReshardDirection::pull, spans(first), spans(second))
            .run();
      } catch (const InvalidInput& error) {
        const std::scoped_lock lock(mutex);
        errors.emplace_back(error.what());
      }
      const std::scoped_lock lock(mutex);
      if (second.size() < untouched.size()) second.push_back(untouched.back());
      CHECK((same_bits(first, kept) && same_bits(second, untouched)));
    });
    CHECK(errors.size() == ranks);
    for (const std::string& error : errors) {
      if (other_plan || error.find("expected the plan's") == std::string::npos)
        CHECK_THAT(error, Catch::Contains("rank 1 has"));
    }
  }
}

namespace {

/// The same samples on pipelines with these layers, and tensor parallelism; none where nothing is said.
Plan plan_on(unsigned seed, const std::vector<std::vector<std::int32_t>>& layers,
             const std::vector<std::int32_t>& tp = {}) {
  Plan plan = slimpack::testing::sample_plan(
      {.seed = seed, .samples = 6, .max_tokens = 20, .split_weights = seed % 2 == 0, .layers = layers});
  for (PipelinePlan& pipeline : plan.pipelines) pipeline.tp = tp.empty() ? 1 : tp[pipeline.id];
  return plan;
}

struct Run {
  std::vector<double> losses;
  std::map<std::pair<std::size_t, std::int64_t>, double> parameters;  // by unit and place
};

Run run_of(const std::vector<Plan>& plans, const ParameterShards& shards, const Transformer& model,
           const std::vector<Ragged<std::int32_t>>& ids, const ExecutorOptions& options) {
  Run run;
  std::mutex mutex;
  run_in_process(rank_count(plans[0]), [&](InProcessTransport& t) {
    DisaggregatedTrainer<double, InProcessTransport> trainer(t, model, shards, plans[0].device, options);
    std::vector<double> losses;
    for (std::size_t i = 0; i < plans.size(); ++i) losses.push_back(trainer.step(plans[i], ids[i]));
    const std::scoped_lock lock(mutex);
    run.losses = losses;
    for (std::size_t u = 0; u < shards.units(); ++u) {
      std::size_t at = 0;
      for (const ParameterShard& s : shards.of(u, static_cast<DeviceId>(t.rank()))) {
        for (auto i = s.begin; i < s.end; ++i) run.parameters[{u, i}] = trainer.parameters()[u][at++];
      }
    }
  });
  return run;
}

void check_close(const Run& a, const Run& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) CHECK(a.losses[i] == Approx(b.losses[i]).epsilon(1e-9));
  REQUIRE(a.parameters.size() == b.parameters.size());
  double worst = 0.0;
  for (const auto& [place, value] : a.parameters)
    worst = std::max(worst, std::abs(value - b.parameters.at(place)));
  CHECK(worst < 1e-6);
}

}  // namespace

TEST_CASE("steps under different strategies train the model that one fixed strategy trains", "[threads]") {
  const std::vector<std::vector<std::int32_t>> one = {{2, 1, 1}, {4}}, other = {{1, 3}, {2, 2}},
                                               third = {{4}, {4}, {0, 4}};
  for (unsigned seed = 1; seed <= seeds(6, 2, 2); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Plan> fixed{plan_on(seed, other), plan_on(seed + 50, other), plan_on(seed + 99, other)};
    const std::vector<Plan> varied{plan_on(seed, one), plan_on(seed + 50, other), plan_on(seed + 99, third)};
    const Transformer model = slimpack::testing::small_model(random, fixed[0]);
    std::vector<Ragged<std::int32_t>> ids;
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      REQUIRE(fixed[i].tokens == varied[i].tokens);
      ids.push_back(slimpack::testing::random_ids(random, fixed[i], model.vocab));
    }
    ExecutorOptions options{.init = {.seed = seed, .deviation = 0.4}};
    const std::vector<DeviceId> ranks{0, 1, 2, 3};
    const ParameterShards full = full_shards(ranks, model),
                          aligned = aligned_shards(rank_strategy(fixed[0]), model);
    const Run expected = run_of(fixed, aligned, model, ids, options);
    check_close(run_of(varied, full, model, ids, options), expected);
    check_close(run_of(varied, aligned, model, ids, options), expected);
    // The executor that trains one strategy, with its own exchange of gradients.
    std::mutex mutex;
    std::map<std::size_t, double> losses;
    run_in_process(4, [&](InProcessTransport& t) {
      slimpack::testing::Executor<double> executor(t, model, fixed[0], options);
      for (std::size_t i = 0; i < fixed.size(); ++i) {
        const double loss = executor.step(fixed[i], ids[i]).loss;
        const std::scoped_lock lock(mutex);
        losses[i] = loss;
      }
      const StageWeights<double>& weights = executor.stage().weights();
      const std::scoped_lock lock(mutex);
      double worst = 0.0;
      std::map<std::size_t, std::int64_t> next;  // by unit
      for (const WeightPiece& piece : vector_pieces(weights.layout(), model)) {
        const auto place = static_cast<std::size_t>(piece.place);
        for (const Part& run : piece.runs) {
          for (std::size_t i = run.begin; i < run.end; ++i) {
            worst = std::max(
                worst, std::abs(weights.parameters()[i] - expected.parameters.at({place, next[place]++})));
          }
        }
      }
      CHECK(worst < 1e-6);
    });
    for (const auto& [i, loss] : losses) CHECK(loss == Approx(expected.losses[i]).epsilon(1e-9));
  }
}

TEST_CASE("steps of different tensor parallelism train the model that one fixed strategy trains",
          "[threads]") {
  for (unsigned seed = 1; seed <= seeds(6, 2, 2); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<std::vector<std::int32_t>> four = {{4}, {1, 3}};
    const std::vector<Plan> fixed{plan_on(seed, four, {1, 1}), plan_on(seed + 50, four, {1, 1}),
                                  plan_on(seed + 99, four, {1, 1}), plan_on(seed + 7, four, {1, 1})};
    REQUIRE(rank_count(fixed[0]) == 3);
    const std::vector<Plan> varied{plan_on(seed, {{4}, {4}}, {2, 1}), plan_on(seed + 50, {{4}}, {3}),
                                   plan_on(seed + 99, {{1, 3}, {4}}), plan_on(seed + 7, {{4}, {4}}, {1, 2})};
    Transformer model = slimpack::testing::small_model(random, fixed[0]);
    model.kv_heads = model.heads = 6;
    model.ffn = std::max(model.ffn, 6);
    std::vector<Ragged<std::int32_t>> ids;
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      REQUIRE(fixed[i].tokens == varied[i].tokens);
      ids.push_back(slimpack::testing::random_ids(random, fixed[i], model.vocab));
    }
    const ExecutorOptions options{.init = {.seed = seed, .deviation = 0.4}};
    const std::vector<DeviceId> ranks{0, 1, 2};
    const Run expected = run_of(fixed, full_shards(ranks, model), model, ids, options);
    for (const Plan& like : {varied[0], varied[1], fixed[0]})
      check_close(run_of(varied, aligned_shards(rank_strategy(like), model), model, ids, options), expected);
    check_close(run_of(varied, full_shards(ranks, model), model, ids, options), expected);
  }
}

TEST_CASE("a step for another model is refused on all ranks, and the next one runs", "[threads]") {
  std::mt19937 random(5);
  const Plan plan = plan_on(5, {{1, 3}, {2, 2}}), wrong = plan_on(5, {{1, 4}, {3, 2}});
  const Transformer model = slimpack::testing::small_model(random, plan);
  const auto ids = slimpack::testing::random_ids(random, plan, model.vocab);
  const std::vector<DeviceId> ranks{0, 1, 2, 3};
  const ParameterShards shards = full_shards(ranks, model);
  std::mutex mutex;
  run_in_process(4, [&](InProcessTransport& t) {
    DisaggregatedTrainer<double, InProcessTransport> trainer(t, model, shards, plan.device);
    const auto before = trainer.parameters();
    std::string error;
    try {
      trainer.step(wrong, ids);
    } catch (const InvalidInput& refused) {
      error = refused.what();
    }
    const bool same = trainer.parameters() == before;
    const double loss = trainer.step(plan, ids);
    const std::scoped_lock lock(mutex);
    CHECK_THAT(error, Catch::Contains("hold 5 layers; expected the 4"));
    CHECK(same);
    CHECK(loss > 0.0);
    CHECK(trainer.parameters() != before);
  });
}
