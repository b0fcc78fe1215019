#include <catch2/catch.hpp>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

#include "kernels/model/memory.hpp"
#include "slimpack/exec/budget.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/chunk_case.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/trained.hpp"

// Chunks that recompute different numbers of layers on each stage, and what becomes of their keys and values (InfiniPipe,
// sections 3.1.3, 3.1.4 and 4).

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::ChunkBatch, slimpack::testing::ChunksSeen, slimpack::testing::Cluster,
    slimpack::testing::ExecutorCase, slimpack::testing::seeds, slimpack::testing::Trained;

namespace {

constexpr double unlimited = 1e15;

/// Gradients have to be the reference's, and what stages use in `float` what the memory model says.
/// @param limit_bytes that each stage may use.
void train_chunks(const ChunkBatch& batch, const Plan& plan, unsigned seed, double limit_bytes) {
  CHECK(violations(plan).empty());
  ExecutorCase c = batch.executor_case(plan, seed);
  const slimpack::testing::Reference reference = c.reference();
  slimpack::testing::run_and_compare<double>(c, reference);
  c.options.stage.limit_bytes = limit_bytes;
  const Trained run = slimpack::testing::run_and_compare<float>(c, reference);
  const auto curves = memory_over_time(plan, time_plan(plan), batch.memory(unlimited));
  for (std::size_t rank = 0; rank < run.reports.size(); ++rank) {
    const RankPlace place = PlanRanks(plan).place_of(rank);
    INFO("pipeline " << place.pipeline << ", stage " << place.stage);
    // Exact, for all chunks but a sample's last have more tokens than the least page.
    CHECK(run.reports[rank].peak_bytes == Approx(curves.peak_bytes[place.pipeline][place.stage]));
    CHECK(run.reports[rank].predicted_bytes == Approx(run.reports[rank].peak_bytes));
  }
}

void check_chunks_seen(const ChunksSeen& seen) {
  CHECK(seen.pipelines == std::set<std::size_t>{1, 2});
  CHECK(seen.split > 0);
  CHECK(seen.hybrid > 0);
  CHECK(seen.whole > 0);
  CHECK(seen.unlike_packs > 0);
  CHECK(seen.unlike_stages > 0);
}

}  // namespace

TEST_CASE("chunks that recompute what memory requires train as the plain transformer does", "[threads]") {
  ChunksSeen seen;
  slimpack::testing::for_each_short_memory_plan(
      seeds(2, 2, 2), 1, [&](const ChunkBatch& batch, const auto& found, unsigned seed) {
        seen.count(found.plan);
        train_chunks(batch, found.plan, seed, found.limit_bytes);
      });
  check_chunks_seen(seen);
}

TEST_CASE("chunks that recompute at random train as the plain transformer does", "[threads]") {
  ChunksSeen seen;
  slimpack::testing::for_each_randomly_recomputed_plan(
      seeds(2, 1), [&](const ChunkBatch& batch, const Plan& plan, unsigned seed) {
        seen.count(plan);
        train_chunks(batch, plan, seed, unlimited);
      });
  check_chunks_seen(seen);
}

TEST_CASE("after each chunk a stage holds what its budget says") {
  slimpack::testing::for_each_randomly_recomputed_plan(
      seeds(2, 1), [&](const ChunkBatch& batch, const Plan& plan, unsigned seed) {
        const ExecutorCase c = batch.executor_case(plan, seed);
        Cluster<float> cluster(c.model, plan, 1, c.options.init, batch.stage);
        const CpuMemory memory(c.model, plan.pipelines[0].layers, sizeof(float), batch.stage, 0.0);
        std::vector<std::vector<TokenBudget<CpuMemory>>> budgets;
        for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
          auto& own = budgets.emplace_back();
          for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s)
            own.emplace_back(cluster.rank(p, s).program, memory);
        }
        cluster.after_task = [&](const slimpack::testing::Rank<float>& rank, const StageTask& task) {
          TokenBudget<CpuMemory>& budget = budgets[rank.program.pipeline()][rank.program.stage()];
          budget.start(task);
          budget.finish(task);
          INFO(to_string(task) << " on stage " << rank.program.stage());
          CHECK(rank.stage.memory().in_use() == Approx(budget.in_use()));
          CHECK(rank.stage.memory().peak() == Approx(budget.peak()));
        };
        cluster.step(c.ids);
      });
}

namespace {

/// A sample of 90 tokens in chunks of 40, 30 and 20, the last of which has a sample of 10 tokens as well. They recompute all
/// three layers, one and none.
Plan hybrid_chunks(const Transformer& model) {
  Plan plan;
  plan.model = model;
  plan.tokens = {90, 10};
  plan.pipelines.push_back({.id = 0, .layers = {model.layers}, .order = {{}}});
  const std::vector<std::vector<Slice>> chunks{{{0, 0, 40}}, {{0, 40, 70}}, {{0, 70, 90}, {1, 0, 10}}};
  for (std::size_t k = 0; k < 3; ++k) {
    plan.forward.packs.repeat_row(1, chunks[k]);
    plan.backward.packs.repeat_row(1, chunks[2 - k]);
    for (PassPlan* pass : {&plan.forward, &plan.backward}) pass->pipelines.add_row(1);
  }
  for (const std::int32_t layers : {0, 1, 3}) plan.backward.recompute_layers.add_row(1, layers);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (PackId k = 0; k < 3; ++k) plan.pipelines[0].order[0].push_back({pass, k});
  }
  return plan;
}

}  // namespace

TEST_CASE("keys and values stay until the chunk's backward pass; all gradients come with the last chunk's") {
  const Transformer m{"case", 3, 16, 4, 2, 4, 20, 24};
  const Plan plan = hybrid_chunks(m);
  std::mt19937 random(1);
  const auto ids = slimpack::testing::random_ids(random, plan, m.vocab);
  const StageOptions options{.page_tokens = 8};  // or chunks of fewer than 32 tokens would share pages
  Cluster<float> cluster(m, plan, 1, {}, options);
  const CpuMemory memory(m, plan.pipelines[0].layers, sizeof(float), options, 0.0);
  const double query = double(m.heads) * m.head_dim, key_value = 2.0 * m.kv_heads * m.head_dim;
  // Of a token. Recomputed layers keep their input, their keys and their values.
  const double kept = 2.0 * m.hidden + 2.0 * query + m.heads + 2.0 * m.ffn, gradients = 3.0 * key_value;
  const auto all = [&](int recomputed) {
    return recomputed * double(m.hidden) + (3 - recomputed) * kept + 3.0 * key_value + m.hidden;
  };
  const double first = 40 * all(3), second = 30 * all(1), third = (20 + 10) * all(0);
  const std::vector<double> expected{first,
                                     first + second,
                                     first + second + third,
                                     first + second + (40 + 30) * gradients,
                                     first + 40 * gradients,
                                     0.0};
  std::size_t place = 0;
  cluster.after_task = [&](const slimpack::testing::Rank<float>& rank, const StageTask& task) {
    INFO(to_string(task));
    CHECK(rank.stage.memory().in_use() - memory.static_bytes(0) == sizeof(float) * expected.at(place++));
  };
  cluster.step(ids);
  CHECK(place == expected.size());
  CHECK(cluster.rank(0, 0).stage.memory().peak() ==
        memory.static_bytes(0) + memory.workspace_bytes(0, Pass::backward, 30, 0) +
            sizeof(float) * (first + second + third + (90 + 10) * gradients));
}
