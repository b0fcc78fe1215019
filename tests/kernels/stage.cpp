#include "kernels/model/stage.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/math/adamw.hpp"
#include "kernels/model/memory.hpp"
#include "slimpack/core/error.hpp"
#include "tests/exec/plans.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/reference.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::Cluster, slimpack::testing::PlanKind, slimpack::testing::random_ids,
    slimpack::testing::Reference, slimpack::testing::run_reference, slimpack::testing::small_model,
    slimpack::testing::worst;

namespace {

const InitOptions wide{.seed = 5, .deviation = 0.4};  // so that every part of the model matters

/// Small enough for plain loops.
bool affordable(const Plan& plan) {
  double work = 0.0;
  for (const Tokens length : plan.tokens) work += double(length) * (20.0 + double(length));
  return work * plan.model.layers < 2e6;
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

template <class Real>
void compare(const Plan& plan, unsigned seed, double tolerance) {
  std::mt19937 random(seed);
  const Transformer model = small_model(random, plan);
  const auto ids = random_ids(random, plan, model.vocab);
  const Tokens block = 1 + Tokens(seed % 5);
  const StageOptions options{.page_tokens = 1 + random() % 40, .head_chunk_tokens = 1 + random() % 40};
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
    for_each_small_plan(kind, kind == PlanKind::by_hand ? 24 : 8, [&](const Plan& plan, unsigned seed) {
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
    compare<double>(plan, seed, 1e-10);
  });
  CHECK(seen.merged > 0);
}

TEST_CASE("stages of a plan train as the plain transformer does, in float") {
  for (const PlanKind kind : slimpack::testing::plan_kinds) {
    for_each_small_plan(kind, 5, [&](const Plan& plan, unsigned seed) { compare<float>(plan, seed, 1e-4); });
  }
}
