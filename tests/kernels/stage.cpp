#include "kernels/model/stage.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/math/adamw.hpp"
#include "kernels/model/memory.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/context_members.hpp"
#include "slimpack/exec/whole_stages.hpp"
#include "tests/effort.hpp"
#include "tests/exec/plans.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/plan/equal_plan.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::Cluster, slimpack::testing::PlanKind, slimpack::testing::random_ids,
    slimpack::testing::Reference, slimpack::testing::run_reference, slimpack::testing::seeds,
    slimpack::testing::small_model, slimpack::testing::worst;

namespace {

const InitOptions wide{.seed = 5, .deviation = 0.4};  // so that every part of the model matters

/// Small enough for plain loops.
bool affordable(const Plan& plan) {
  double work = 0.0;
  for (const Tokens length : plan.tokens) work += double(length) * (20.0 + double(length));
  return work * plan.model.layers < 1e6;
}

/// Calls f(plan, seed) for `count` affordable plans of a kind.
template <class F>
void for_each_small_plan(PlanKind kind, unsigned count, F&& f) {
  unsigned made = 0;
  for (unsigned seed = 1; made < count; ++seed) {
    REQUIRE(seed < 200 * count);
    const auto plan = slimpack::testing::random_plan(kind, seed);
    if (!plan || !affordable(*plan)) continue;
    INFO(slimpack::testing::name(kind) << " plan of seed " << seed);
    f(*plan, seed);
    ++made;
  }
}

/// What the plans of a test had in them.
struct Seen {
  std::set<std::size_t> stages;
  int merged = 0, split = 0, recomputed = 0, asymmetric = 0;

  void count(const Plan& plan) {
    stages.insert(plan.pipelines[0].stages());
    asymmetric += plan.forward.packs == plan.backward.packs ? 0 : 1;
    for (std::size_t i = 0; i < plan.forward.packs.size(); ++i)
      merged += plan.forward.pipelines[i].size() > 1;
    for (const std::int32_t layers : plan.backward.recompute_layers.values()) recomputed += layers > 0;
    for (const Task task : plan.pipelines[0].order[0]) split += task.pass == Pass::weight;
  }
};

/// As many key/value heads as any of the plan's members can share.
void give_heads(Transformer& model, const Plan& plan) {
  const std::int32_t group = model.heads / model.kv_heads;
  for (std::size_t i = 0; i < plan.forward.packs.size(); ++i) {
    model.kv_heads = std::lcm(model.kv_heads, static_cast<std::int32_t>(plan.forward.pipelines[i].size()));
  }
  model.heads = group * model.kv_heads;
}

template <class Real>
void compare(const Plan& plan, unsigned seed, double tolerance,
             MergedAttention merged = MergedAttention::ring) {
  std::mt19937 random(seed);
  Transformer model = small_model(random, plan);
  if (merged == MergedAttention::heads) give_heads(model, plan);
  const auto ids = random_ids(random, plan, model.vocab);
  const Tokens block = 1 + Tokens(seed % 5);
  const StageOptions options{.ring_tokens = 1 + random() % 30,
                             .page_tokens = 1 + random() % 40,
                             .head_chunk_tokens = 1 + random() % 40,
                             .merged = merged};
  Cluster<Real> cluster(model, plan, block, wide, options);
  Reference reference(model);
  reference.weights = Cluster<double>(model, plan, block, wide).weights();
  run_reference(reference, plan, ids);
  for (int step = 0; step < 2; ++step) {  // the second has to forget the first
    cluster.step(ids);
    CHECK(cluster.loss() == Approx(reference.loss).epsilon(tolerance));
    const auto [difference, tensor] = worst(cluster.gradients(), reference.gradients);
    INFO(tensor << " differs most");
    CHECK(difference < tolerance);
  }
}

}  // namespace

TEST_CASE("the reference's gradients are its loss's finite differences") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Plan plan = slimpack::testing::plan_by_hand(seed);
    plan.tokens = {7, 1, 4};
    plan.deferred = {};
    plan.model.layers = 2;
    plan.pipelines.resize(1);
    plan.pipelines[0].layers = {2};
    const Transformer model = small_model(random, plan);
    const auto ids = random_ids(random, plan, model.vocab);
    Reference reference(model);
    StageWeights<double> weights(stage_part(model, plan, 0, 0));
    weights.initialise(wide);
    for (const WeightTensor& t : weights.tensors()) {
      const auto numbers = weights.parameters().subspan(t.offset, t.size());
      reference.weights[t.name].assign(numbers.begin(), numbers.end());
    }
    run_reference(reference, plan, ids);
    const auto gradients = reference.gradients;
    for (const auto& [name, gradient] : gradients) {
      INFO(name);
      double largest = 0.0;
      for (const double g : gradient) largest = std::max(largest, std::abs(g));
      for (int n = 0; n < 8; ++n) {
        const std::size_t i = random() % gradient.size();
        double& w = reference.weights[name][i];
        const double at = w, step = 1e-5;
        double slope = 0.0;
        for (const double sign : {1.0, -1.0}) {
          w = at + sign * step;
          run_reference(reference, plan, ids);
          slope += sign * reference.loss / (2 * step);
        }
        w = at;
        CHECK(std::abs(slope - gradient[i]) < 1e-6 * std::max(largest, 1e-3));
      }
    }
  }
}

TEST_CASE("stages of a plan train as the plain transformer does, in double") {
  Seen seen;
  for (const PlanKind kind : slimpack::testing::plan_kinds) {
    // Plans by hand have all numbers of stages, and whatever else is counted below: so few would not do.
    for_each_small_plan(kind, kind == PlanKind::by_hand ? 24 : seeds(8, 1),
                        [&](const Plan& plan, unsigned seed) {
                          seen.count(plan);
                          compare<double>(plan, seed, 1e-10);
                        });
  }
  CHECK(seen.stages.size() == 8);
  CHECK(seen.merged > 5);
  CHECK(seen.split > 5);
  CHECK(seen.recomputed > 5);
  CHECK(seen.asymmetric > 5);
}

TEST_CASE("members of merged packs train as the plain transformer does, in lockstep", "[threads]") {
  Seen seen;
  for_each_small_plan(PlanKind::dp_merge, 3, [&](const Plan& plan, unsigned seed) {
    seen.count(plan);
    compare<double>(plan, seed, 1e-10, MergedAttention::ring);
    compare<double>(plan, seed, 1e-10, MergedAttention::heads);
  });
  for_each_small_plan(PlanKind::by_hand, 8, [&](const Plan& plan, unsigned seed) {
    seen.count(plan);
    compare<double>(plan, seed, 1e-10, MergedAttention::heads);
  });
  CHECK(seen.merged > 5);
}

TEST_CASE("members of packs that are shared in any way train as the plain transformer does", "[threads]") {
  int kinds[5] = {};
  for (unsigned seed = 1; seed <= seeds(16, 6, 2); ++seed) {
    INFO("seed " << seed);
    const Plan plan = context_ranks_as_members(
        whole_stages(slimpack::testing::sample_plan({.seed = seed,
                                                     .samples = 5 + seed % 3,
                                                     .merged = seed % 3,
                                                     .pipelines = 1 + seed % 2,
                                                     .stages = 1 + seed % 3,
                                                     .max_tokens = 20,
                                                     .cp = 2 + static_cast<std::int32_t>(seed % 2),
                                                     .whole = true,
                                                     .split_weights = seed % 4 == 0})),
        1 + Tokens(seed % 5));
    for (const Sharding kind : plan.forward.sharding) ++kinds[static_cast<std::size_t>(kind)];
    compare<double>(plan, seed, 1e-10, MergedAttention::ring);
    compare<double>(plan, seed, 1e-10, MergedAttention::heads);
  }
  if (seeds(16, 6, 2) < 6) return;
  for (const Sharding kind :
       {Sharding::per_sequence, Sharding::per_document, Sharding::mixed, Sharding::by_position})
    CHECK(kinds[static_cast<std::size_t>(kind)] > 1);
}

TEST_CASE("merged packs need an operation between members, and heads that they can share") {
  const Plan plan = slimpack::testing::plan_by_hand(2);
  Seen seen;
  seen.count(plan);
  REQUIRE(seen.merged > 0);
  std::mt19937 random(2);
  Transformer model = small_model(random, plan);
  model.kv_heads = model.heads = 1;
  const auto ids = random_ids(random, plan, model.vocab);
  const StageProgram program(plan, 0, 0);
  CpuStage<double> ring(stage_part(model, plan, 0, 0));
  CpuStage<double> heads(stage_part(model, plan, 0, 0), {.merged = MergedAttention::heads});
  ring.begin_step(program, ids);
  CHECK_THROWS_WITH(heads.begin_step(program, ids),
                    Catch::Contains("expected a divisor of the 1 key/value heads"));
  model.kv_heads = model.heads = 6;
  CpuStage<double> shared(stage_part(model, plan, 0, 0), {.merged = MergedAttention::heads});
  shared.begin_step(program, ids);
  for (const StageTask& task : program.tasks()) {
    if (!task.merged() || task.pass != Pass::forward) continue;
    CHECK_THROWS_WITH(ring.forward(task, {}), Catch::Contains("expected a ring shift between its"));
    CHECK_THROWS_WITH(shared.forward(task, {}), Catch::Contains("expected an all-to-all between its"));
    break;
  }
}

TEST_CASE("stages of a plan train as the plain transformer does, in float") {
  for (const PlanKind kind : slimpack::testing::plan_kinds) {
    for_each_small_plan(kind, seeds(5, 1),
                        [&](const Plan& plan, unsigned seed) { compare<float>(plan, seed, 1e-4); });
  }
}

TEST_CASE("weights agree with the plain transformer's after twenty steps of AdamW") {
  const Plan plan = slimpack::testing::plan_by_hand(7);
  std::mt19937 random(7);
  const Transformer model = small_model(random, plan);
  Cluster<double> cluster(model, plan, 3, wide);
  Reference reference(model);
  reference.weights = cluster.weights();
  std::map<std::string, std::vector<double>> first = reference.gradients, second;
  const AdamWOptions options{.learning_rate = 0.02};
  double before = 0.0;
  for (int step = 1; step <= 20; ++step) {
    const auto ids = random_ids(random, plan, model.vocab);
    cluster.step(ids);
    run_reference(reference, plan, ids);
    CHECK(cluster.loss() == Approx(reference.loss).epsilon(1e-9));
    if (step == 1) before = reference.loss;
    cluster.update(step, options);
    for (auto& [name, weights] : reference.weights) {
      const auto& g = reference.gradients.at(name);
      auto& m = first[name];
      auto& v = second[name];
      m.resize(g.size());
      v.resize(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        m[i] = options.beta1 * m[i] + (1 - options.beta1) * g[i];
        v[i] = options.beta2 * v[i] + (1 - options.beta2) * g[i] * g[i];
        const double mean = m[i] / (1 - std::pow(options.beta1, step));
        const double deviation = std::sqrt(v[i] / (1 - std::pow(options.beta2, step)));
        weights[i] -= options.learning_rate *
                      (mean / (deviation + options.epsilon) + options.weight_decay * weights[i]);
      }
    }
  }
  CHECK(worst(cluster.weights(), reference.weights).first < 1e-7);
  CHECK(reference.loss != before);
}

TEST_CASE("the same step gives the same bits") {
  const Plan plan = slimpack::testing::plan_by_hand(5);
  std::mt19937 random(5);
  const Transformer model = small_model(random, plan);
  const auto ids = random_ids(random, plan, model.vocab);
  Cluster<float> one(model, plan, 4, wide), other(model, plan, 4, wide);
  one.step(ids);
  other.step(ids);
  other.step(ids);
  CHECK(one.loss() == other.loss());
  CHECK((one.gradients() == other.gradients()));
}

TEST_CASE("a stage's memory peaks where its memory model says, and is all given back") {
  int exact = 0;
  for (const PlanKind kind : slimpack::testing::plan_kinds) {
    for_each_small_plan(kind, seeds(6, 2), [&](const Plan& plan, unsigned seed) {
      std::mt19937 random(seed);
      const Transformer model = small_model(random, plan);
      const auto ids = random_ids(random, plan, model.vocab);
      const StageOptions options{.page_tokens = 1, .head_chunk_tokens = 8};
      Cluster<float> cluster(model, plan, 3, wide, options);
      cluster.step(ids);
      for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
        const CpuMemory memory(model, plan.pipelines[p].layers, sizeof(float), options, 0.0);
        for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
          auto& rank = cluster.rank(p, s);
          const double predicted = predicted_high_water(rank.program, memory);
          CHECK(rank.stage.memory().in_use() == memory.static_bytes(s));
          bool merged = false;
          for (const StageTask& task : rank.program.tasks()) merged = merged || task.merged();
          if (merged || rank.program.has_weight_tasks()) {
            // Members' shares differ, and factors that wait for weight tasks are not in the model.
            CHECK(rank.stage.memory().peak() > memory.static_bytes(s));
          } else {
            ++exact;
            CHECK(rank.stage.memory().peak() == predicted);
          }
        }
      }
    });
  }
  CHECK(exact > static_cast<int>(seeds(40, 4)));
}

TEST_CASE("pages hold little more than the tokens that are there") {
  const Plan plan = slimpack::testing::plan_by_hand(4);
  std::mt19937 random(4);
  const Transformer model = small_model(random, plan);
  const auto ids = random_ids(random, plan, model.vocab);
  Cluster<double> exact(model, plan, 3, wide, {.page_tokens = 1}),
      paged(model, plan, 3, wide, {.page_tokens = 16});
  exact.step(ids);
  paged.step(ids);
  const CpuMemory memory(model, plan.pipelines[0].layers, sizeof(double));
  for (std::size_t s = 0; s < plan.pipelines[0].stages(); ++s) {
    const double least = exact.rank(0, s).stage.memory().peak(),
                 peak = paged.rank(0, s).stage.memory().peak();
    CHECK(peak >= least);
    CHECK(peak <= least + 2 * 15 * memory.kv_gradient_bytes(s) * double(plan.tokens.size()));
  }
}

namespace {

/// One stage, one sample of eight tokens, one pack each way.
struct OneStage {
  explicit OneStage(const StageOptions& options = {}) {
    plan = slimpack::testing::equal_plan(1, 1, 1.0, 2.0, 8);
    plan.model.layers = plan.pipelines[0].layers[0];
    model = {"one", plan.model.layers, 8, 2, 1, 4, 6, 10};
    rank = std::make_unique<slimpack::testing::Rank<double>>(model, plan, 0, 0, Tokens{1}, options);
    rank->stage.weights().initialise();
    std::mt19937 random(1);
    ids = random_ids(random, plan, model.vocab);
  }

  Plan plan;
  Transformer model;
  std::unique_ptr<slimpack::testing::Rank<double>> rank;
  Ragged<std::int32_t> ids;
};

Ragged<std::int32_t> one_sample(std::size_t tokens, std::int32_t id) {
  Ragged<std::int32_t> ids;
  ids.add_row(tokens, id);
  return ids;
}

}  // namespace

TEST_CASE("a stage refuses what it can't work with, and runs the next step all the same") {
  OneStage one;
  auto& stage = one.rank->stage;
  const auto tasks = one.rank->program.tasks();
  REQUIRE(tasks.size() == 2);
  CHECK_THROWS_WITH(stage.forward(tasks[0], {}), Catch::StartsWith("F0 comes before begin_step"));
  CHECK_THROWS_WITH(stage.begin_step(one.rank->program, {}), Catch::StartsWith("there are ids of 0 samples"));
  CHECK_THROWS_WITH(stage.begin_step(one.rank->program, one_sample(7, 0)),
                    Catch::StartsWith("sample 0 has 7 ids"));
  CHECK_THROWS_WITH(stage.begin_step(one.rank->program, one_sample(8, 10)),
                    Catch::StartsWith("a token's id is 10"));
  CHECK_THROWS_WITH(stage.begin_step(one.rank->program, one_sample(8, -1)),
                    Catch::StartsWith("a token's id is -1"));

  stage.begin_step(one.rank->program, one.ids);
  CHECK_THROWS_WITH(stage.backward(tasks[1], {}), Catch::Contains("expected the forward task first"));

  stage.begin_step(one.rank->program, one.ids);
  stage.weights().parameters()[3] = std::nan("");
  CHECK_THROWS_WITH(stage.forward(tasks[0], {}), Catch::StartsWith("the loss of F0 is nan"));
  stage.weights().initialise();
  stage.begin_step(one.rank->program, one.ids);
  stage.forward(tasks[0], {});
  CHECK(stage.loss() == Approx(std::log(10.0)).epsilon(0.05));
  stage.backward(tasks[1], {});
  stage.release(tasks[1]);
  const CpuMemory memory(one.model, one.plan.pipelines[0].layers, sizeof(double), {}, 0.0);
  CHECK(stage.memory().in_use() == memory.static_bytes(0));
}

TEST_CASE("a stage that would exceed its memory says where") {
  OneStage one;
  auto& stage = one.rank->stage;
  stage.begin_step(one.rank->program, one.ids);
  stage.forward(one.rank->program.tasks()[0], {});
  const double needed = stage.memory().peak();
  OneStage enough({.limit_bytes = needed}), short_of({.limit_bytes = needed - 1.0});
  enough.rank->stage.begin_step(enough.rank->program, enough.ids);
  CHECK_NOTHROW(enough.rank->stage.forward(enough.rank->program.tasks()[0], {}));
  short_of.rank->stage.begin_step(short_of.rank->program, short_of.ids);
  CHECK_THROWS_WITH(short_of.rank->stage.forward(short_of.rank->program.tasks()[0], {}),
                    Catch::StartsWith("a stage at F") && Catch::EndsWith("; expected 1 bytes more"));
  CHECK_THROWS_WITH(OneStage({.limit_bytes = 100.0}),
                    Catch::StartsWith("a stage for weights and gradients needs "));
  CHECK_THROWS_AS(OneStage({.norm_epsilon = 0.0}), InvalidInput);
  CHECK_THROWS_AS(OneStage({.page_tokens = 0}), InvalidInput);
  CHECK_THROWS_AS(OneStage({.head_chunk_tokens = 0}), InvalidInput);
}

TEST_CASE("weights that exceed a stage's memory are never asked of the system") {
  // 2^62 numbers: whoever asks for them gets another exception than this one.
  const StagePart part{.model = {"vast", 1, 1 << 30, 2, 1, 2, 1 << 30, 8}, .first_layer = 0, .layers = 1};
  CHECK_THROWS_WITH(CpuStage<float>(part, {.limit_bytes = 1e12}),
                    Catch::StartsWith("a stage for weights and gradients needs "));
}

TEST_CASE("a pool uses memory again and keeps no more than was ever in use") {
  HighWater memory;
  BufferPool<float> pool(memory);
  auto big = pool.take(1000), small = pool.take(100);
  const float* where = big.data.get();
  pool.give_back(big);
  CHECK(memory.in_use() == 400.0);
  auto again = pool.take(950);
  CHECK(again.data.get() == where);
  CHECK(again.capacity == 1000);
  pool.give_back(again);
  auto much_smaller = pool.take(500);
  CHECK(much_smaller.capacity == 500);  // the big one had to go, or more than 1100 would be held
  auto big_again = pool.take(1000);
  CHECK(big_again.capacity == 1000);
  pool.give_back(big_again);
  pool.give_back(much_smaller);
  pool.give_back(small);
  pool.give_back(small);  // empty by now
  CHECK(memory.in_use() == 0.0);
  CHECK(memory.peak() == 4 * 1600.0);
}
