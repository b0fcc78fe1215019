// Plans of elastic pipelines (InfiniPipe) on the CPU executor: chunks of long samples, tails with short samples, batched short
// samples, and another number of recomputed layers for each backward pack on each stage.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "kernels/model/memory.hpp"
#include "slimpack/exec/budget.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/effort.hpp"
#include "tests/exec/plans.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/reference.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::ElasticOptions, slimpack::testing::PlanKind, slimpack::testing::seeds;

namespace {

/// What the plans of a test had in them.
struct SeenElastic {
  std::set<std::size_t> stages;
  int cut = 0, hybrid = 0, unequal = 0, asymmetric = 0;
  std::size_t in_flight = 0;  ///< most samples of which a stage holds a part

  void count(const Plan& plan) {
    stages.insert(plan.pipelines[0].stages());
    asymmetric += plan.forward.packs.slices().size() != plan.backward.packs.slices().size();
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      const auto pack = plan.forward.packs[k];
      const bool tail = pack[0].begin > 0 && pack[0].end == plan.tokens[pack[0].sample];
      cut += pack[0].begin > 0;
      hybrid += tail && pack.size() > 1;
    }
    const Ragged<std::int32_t>& layers = plan.backward.recompute_layers;
    for (std::size_t k = 1; k < layers.size(); ++k) unequal += !std::ranges::equal(layers[k], layers[k - 1]);
    for (const auto& order : plan.pipelines[0].order) count_in_flight(plan, order);
  }

 private:
  void count_in_flight(const Plan& plan, const std::vector<Task>& order) {
    std::set<SampleId> here;
    for (const Task task : order) {
      for (const Slice& slice : plan.of(task.pass).packs[task.pack]) {
        if (task.pass == Pass::forward) here.insert(slice.sample);
        if (task.pass == Pass::backward && slice.begin == 0) here.erase(slice.sample);
      }
      in_flight = std::max(in_flight, here.size());
    }
  }
};

template <class Real>
void compare_elastic(const Plan& plan, unsigned seed, double tolerance) {
  std::mt19937 random(seed);
  const Transformer model = slimpack::testing::small_model(random, plan);
  const auto ids = slimpack::testing::random_ids(random, plan, model.vocab);
  const InitOptions wide{.seed = 5, .deviation = 0.4};  // so that every part of the model matters
  const StageOptions options{.page_tokens = 1 + random() % 40, .head_chunk_tokens = 1 + random() % 40};
  slimpack::testing::Cluster<Real> cluster(model, plan, 1, wide, options);
  slimpack::testing::Reference reference(model);
  reference.weights = slimpack::testing::Cluster<double>(model, plan, 1, wide).weights();
  slimpack::testing::run_reference(reference, plan, ids);
  cluster.step(ids);
  CHECK(cluster.loss() == Approx(reference.loss).epsilon(tolerance));
  const auto [difference, tensor] = slimpack::testing::worst(cluster.gradients(), reference.gradients);
  INFO(tensor << " differs most");
  CHECK(difference < tolerance);
}

}  // namespace

TEST_CASE("chunks of unlike recomputation train as the plain transformer does") {
  SeenElastic seen;
  for (unsigned seed = 1; seed <= seeds(60, 8, 4); ++seed) {
    const Plan plan = *slimpack::testing::random_plan(PlanKind::elastic, seed);
    INFO("seed " << seed);
    REQUIRE(violations(plan).empty());
    seen.count(plan);
    compare_elastic<double>(plan, seed, 1e-10);
    if (seed % 3 == 0) compare_elastic<float>(plan, seed, 1e-4);
  }
  CHECK(seen.stages == std::set<std::size_t>{1, 2, 3, 4});
  CHECK(seen.hybrid > 0);
  CHECK(seen.in_flight > 3);
  if (slimpack::testing::few) return;
  CHECK(seen.cut > 60);
  CHECK(seen.hybrid > 20);
  CHECK(seen.unequal > 60);
  CHECK(seen.asymmetric > 5);
}

namespace {

/// Bytes of a token on a stage that the paper's equations count, of an executor that stores `number_bytes` a number.
struct TokenBytes {
  double layer, checkpoint, keys_values, output;

  TokenBytes(const Transformer& m, bool last, double number_bytes)
      : layer(number_bytes * (2.0 * m.hidden + 2.0 * m.heads * m.head_dim + m.heads + 2.0 * m.ffn)),
        checkpoint(number_bytes * m.hidden),
        keys_values(number_bytes * 2.0 * m.kv_heads * m.head_dim),
        output(last ? number_bytes * m.hidden : 0.0) {}
};

/// The most that a stage's chunks hold, chunk by chunk as section 3.1.3 says: activations of the chunks in the window W (Eq. 8),
/// of which recomputed layers keep input, keys and values (Eq. 9 and 10), gradients of the keys and values of all chunks of
/// a sample from its last chunk's backward pass on, of each chunk until its own (Eq. 5); and the workspace of the task
/// that runs. Both passes have the same chunks. Unlike the paper's tail slices, all chunks have keys, values and their gradients.
double chunk_peak(const Plan& plan, std::size_t stage, const CpuMemory& memory, double number_bytes) {
  const TokenBytes bytes(plan.model, stage + 1 == plan.pipelines[0].stages(), number_bytes);
  const double layers = plan.pipelines[0].layers[stage];
  const auto tokens = [](std::span<const Slice> pack) { return static_cast<double>(count_tokens(pack)); };
  const auto kept = [&](PackId k) {
    const double recomputed = plan.backward.recompute_layers[k][stage];
    return tokens(plan.backward.packs[k]) *
           ((layers - recomputed) * (bytes.layer + bytes.keys_values) +
            recomputed * (bytes.checkpoint + bytes.keys_values) + bytes.output);
  };
  const auto backward_of = [&](PackId forward) {
    for (PackId k = 0; k < plan.backward.packs.size(); ++k) {
      if (std::ranges::equal(plan.backward.packs[k], plan.forward.packs[forward])) return k;
    }
    FAIL("no backward pack has the slices of F" << forward);
    return PackId{0};
  };
  std::set<PackId> window;  // backward packs
  std::set<SampleId> begun;
  double peak = 0.0;
  for (const Task task : plan.pipelines[0].order[stage]) {
    const auto pack = plan.of(task.pass).packs[task.pack];
    if (task.pass == Pass::forward) window.insert(backward_of(task.pack));
    for (const Slice& slice : pack) {
      if (task.pass == Pass::backward) begun.insert(slice.sample);
    }
    double held = memory.workspace_bytes(stage, task.pass, count_tokens(pack), 0);
    for (const PackId k : window) {
      held += kept(k);
      for (const Slice& slice : plan.backward.packs[k])
        held += begun.contains(slice.sample) ? layers * bytes.keys_values * double(slice.size()) : 0.0;
    }
    peak = std::max(peak, held);
    if (task.pass == Pass::backward) window.erase(task.pack);
  }
  return memory.static_bytes(stage) + peak;
}

/// Chunks so large, and a model so thin, that what tokens hold is most of the memory.
ElasticOptions memory_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution(lo, hi)(random); };
  ElasticOptions options{.seed = seed, .stages = 1 + static_cast<std::int32_t>(seed % 4)};
  const std::int32_t kv_heads = pick(1, 2);
  options.model = {"thin", options.stages * pick(1, 3), 32, 4, 2 * kv_heads, 8, 80, 96};
  options.chunk = pick(60, 150);
  options.mirrored = seed % 3 != 0;
  for (int i = pick(2, 3); i > 0; --i) options.lengths.push_back(options.chunk * pick(2, 5) + pick(1, 59));
  for (int i = pick(4, 16); i > 0; --i) options.lengths.push_back(pick(8, 60));
  std::shuffle(options.lengths.begin(), options.lengths.end(), random);
  return options;
}

/// Without the optimiser's moments, which a cluster does not keep.
CpuMemory memory_of(const Plan& plan, const Transformer& model, const StageOptions& options = {}) {
  return {model, plan.pipelines[0].layers, sizeof(float), options, 0.0};
}

/// @param exact whether what a stage counts is what the simulator says, to the byte.
void check_memory(const Plan& plan, const StageOptions& options, bool exact) {
  constexpr double bar = 0.05;
  std::mt19937 random(1);
  slimpack::testing::Cluster<float> cluster(plan.model, plan, 1, {}, options);
  cluster.step(slimpack::testing::random_ids(random, plan, plan.model.vocab));
  const CpuMemory memory = memory_of(plan, plan.model, options);
  const auto simulated = memory_over_time(plan, time_plan(plan), memory).peak_bytes[0];
  for (std::size_t s = 0; s < simulated.size(); ++s) {
    INFO("stage " << s);
    const auto& rank = cluster.rank(0, s);
    CHECK(rank.stage.memory().peak() == Approx(simulated[s]).epsilon(exact ? 1e-12 : bar));
    CHECK(rank.stage.memory().peak() ==
          Approx(predicted_high_water(rank.program, memory)).epsilon(exact ? 1e-12 : bar));
  }
}

}  // namespace

TEST_CASE("stages hold what is predicted of chunks of unlike recomputation") {
  SeenElastic seen;
  for (unsigned seed = 1; seed <= seeds(24, 4, 2); ++seed) {
    const Plan plan = slimpack::testing::elastic_plan(memory_case(seed));
    INFO("seed " << seed);
    REQUIRE(violations(plan).empty());
    seen.count(plan);
    // A cut close to another one gets no page of its own, unless pages are tiny: then memory is exact.
    check_memory(plan, {}, seed % 3 != 0);
    if (seed % 3 == 0) check_memory(plan, {.page_tokens = 8}, true);
    if (seed % 3 == 0) continue;
    const CpuMemory memory = memory_of(plan, plan.model);
    const auto simulated = memory_over_time(plan, time_plan(plan), memory).peak_bytes[0];
    for (std::size_t s = 0; s < simulated.size(); ++s)
      CHECK(simulated[s] == Approx(chunk_peak(plan, s, memory, sizeof(float))).epsilon(1e-9));
  }
  CHECK(seen.in_flight > 3);
  if (slimpack::testing::few) return;
  CHECK(seen.stages == std::set<std::size_t>{1, 2, 3, 4});
  CHECK(seen.hybrid > 5);
  CHECK(seen.unequal > 30);
  CHECK(seen.asymmetric > 3);
}

namespace {

/// After each task a stage of the pipeline has to hold what its budget says, on the device and on the host.
void check_each_task(slimpack::testing::Cluster<float>& cluster, const CpuMemory& memory) {
  auto budgets = std::make_shared<std::map<const StageProgram*, TokenBudget<CpuMemory>>>();
  cluster.after_task = [memory, budgets](const slimpack::testing::Rank<float>& rank, const StageTask& task) {
    auto& budget = budgets->try_emplace(&rank.program, rank.program, memory).first->second;
    budget.start(task);
    budget.finish(task);
    INFO(to_string(task) << " on stage " << rank.program.stage());
    CHECK(rank.stage.memory().in_use() == budget.in_use());
    CHECK(rank.stage.host_memory().in_use() == budget.host_in_use());
  };
}

}  // namespace

TEST_CASE("layers that wait in the host's memory change no bit of a step, and count apart") {
  double moved = 0.0;
  for (unsigned seed = 1; seed <= seeds(24, 6, 3); ++seed) {
    const Plan kept = *slimpack::testing::random_plan(PlanKind::elastic, seed);
    Plan plan = kept;
    slimpack::testing::offload_layers(plan, seed);
    INFO("seed " << seed);
    REQUIRE(violations(plan).empty());
    std::mt19937 random(seed);
    const Transformer model = slimpack::testing::small_model(random, plan);
    const auto ids = slimpack::testing::random_ids(random, plan, model.vocab);
    const StageOptions options{.page_tokens = 1};
    slimpack::testing::Cluster<float> without(model, kept, 1, {}, options), with(model, plan, 1, {}, options);
    without.step(ids);
    check_each_task(with, memory_of(plan, model, options));
    for (int step = 0; step < 2; ++step) {
      with.step(ids);
      CHECK(with.loss() == without.loss());
      CHECK((with.gradients() == without.gradients()));
    }
    const CpuMemory memory = memory_of(plan, model, options);
    const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
    for (std::size_t s = 0; s < plan.pipelines[0].stages(); ++s) {
      const auto& stage = with.rank(0, s).stage;
      CHECK(stage.memory().peak() == curves.peak_bytes[0][s]);
      CHECK(stage.memory().peak() <= without.rank(0, s).stage.memory().peak());
      CHECK(stage.memory().in_use() == memory.static_bytes(s));
      CHECK(stage.host_memory().peak() == curves.host_peak_bytes[0][s]);
      CHECK(stage.host_memory().in_use() == 0.0);
      moved += stage.host_memory().peak();
    }
  }
  CHECK(moved > 0.0);
}

TEST_CASE("the host's memory has a limit of its own") {
  Plan plan = *slimpack::testing::random_plan(PlanKind::elastic, 4);
  plan.backward.offload_layers = plan.backward.recompute_layers;
  for (std::int32_t& layers : plan.backward.offload_layers[0]) layers = plan.pipelines[0].layers[0];
  std::mt19937 random(4);
  const Transformer model = slimpack::testing::small_model(random, plan);
  const auto ids = slimpack::testing::random_ids(random, plan, model.vocab);
  const CpuMemory memory(model, plan.pipelines[0].layers, sizeof(double));
  const double most = memory_over_time(plan, time_plan(plan), memory).host_peak_bytes[0][0];
  slimpack::testing::Cluster<double>(model, plan, 1, {}, {.host_limit_bytes = most}).step(ids);
  slimpack::testing::Cluster<double> small(model, plan, 1, {},
                                           {.name = "it", .host_limit_bytes = most - 1.0});
  CHECK_THROWS_WITH(small.step(ids), Catch::StartsWith("it (host) at F"));
}
