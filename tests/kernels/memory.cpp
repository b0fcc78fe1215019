#include "kernels/model/memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "slimpack/exec/context_members.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/chunk_case.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/heap.hpp"
#include "tests/kernels/random.hpp"

using namespace slimpack;
using namespace slimpack::kernels;

namespace {

/// Measured and simulated memory may differ by so much.
constexpr double bar = 0.05;

struct MemoryCase {
  std::string name;
  std::vector<Tokens> lengths;
  Job job;
  bool merge = false;
  MergedAttention exchange = MergedAttention::ring;
  bool named = false;  ///< by the plan, against the stages' option
};

Transformer model_of(std::int32_t layers, std::int32_t hidden, std::int32_t heads, std::int32_t kv_heads) {
  return {"case", layers, hidden, heads, kv_heads, hidden / heads, 3 * hidden, 96};
}

Job job_of(const Transformer& model, std::int32_t dp, std::int32_t pp, std::int32_t tp = 1) {
  return {model, device_preset("cpu"), {.dp = dp, .tp = tp, .pp = pp}};
}

std::vector<Tokens> short_samples(unsigned seed, std::size_t count, Tokens longest = 0) {
  std::mt19937 random(seed);
  std::vector<Tokens> lengths;
  for (std::size_t i = 0; i < count; ++i) lengths.push_back(120 + Tokens(random() % 160));
  if (longest > 0) lengths.push_back(longest);
  return lengths;
}

struct MeasuredRank {
  double peak = 0.0, predicted = 0.0, held = 0.0;
  double mail = 0.0;  ///< of what is held, that rows on their way take
};

/// Runs two steps on threads: figures of the second, and what the thread of each rank held.
template <class Real>
std::vector<MeasuredRank> run(const Transformer& model, const Plan& plan, const ExecutorOptions& options) {
  std::vector<MeasuredRank> ranks(rank_count(plan));
  std::mt19937 random(1);
  const auto ids = slimpack::testing::random_ids(random, plan, model.vocab);
  run_in_process(ranks.size(), [&](InProcessTransport& t) {
    slimpack::testing::restart_heap_peak();
    const double before = slimpack::testing::heap_in_use();
    RankExecutor<CpuStage<Real>, InProcessTransport> executor(t, model, plan, options);
    executor.step(plan, ids);
    const StepReport report = executor.step(plan, ids);
    ranks[t.rank()] = {report.peak_bytes, report.predicted_bytes, slimpack::testing::heap_peak() - before,
                       report.link_bytes};
  });
  return ranks;
}

template <class Real>
void check(const MemoryCase& c) {
  INFO(c.name << (sizeof(Real) == 4 ? ", float" : ", double"));
  StageOptions options{.merged = c.exchange, .limit_bytes = 1e15};
  const auto layers = split_layers(c.job.model.layers, c.job.layout.pp);
  const TensorShare share{static_cast<std::size_t>(c.job.layout.tp), 0};
  CpuMemory memory(c.job.model, layers, sizeof(Real), options, 2.0 / c.job.layout.dp, share);
  Plan plan = plan_slimpack(c.lengths, c.job, CalibratedCost(c.job), memory, {.tile = 16, .merge = c.merge});
  plan = context_ranks_as_members(std::move(plan), default_ownership_block);
  std::size_t merged = 0;
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) merged += plan.forward.pipelines[k].size() > 1;
  REQUIRE((merged > 0) == c.merge);
  if (c.named) {
    const bool ring = c.exchange == MergedAttention::ring;
    for (PassPlan* pass : {&plan.forward, &plan.backward})
      pass->exchange.assign(pass->packs.size(), ring ? KeyExchange::ring : KeyExchange::all_to_all);
    options.merged = ring ? MergedAttention::heads : MergedAttention::ring;
    memory = CpuMemory(c.job.model, layers, sizeof(Real), options, 2.0 / c.job.layout.dp, share);
  }
  const auto curves = memory_over_time(plan, time_plan(plan), memory);
  const auto ranks = run<Real>(c.job.model, plan, {.stage = options});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlace place = PlanRanks(plan).place_of(rank);
    const double simulated = curves.peak_bytes[place.pipeline][place.stage];
    INFO("pipeline " << place.pipeline << ", stage " << place.stage << ", tensor rank " << place.tensor
                     << ": static " << memory.static_bytes(place.stage) << ", measured " << ranks[rank].peak
                     << ", simulated " << simulated << ", walked " << ranks[rank].predicted << ", held "
                     << ranks[rank].held);
    CHECK(ranks[rank].peak == Approx(simulated).epsilon(bar));
    CHECK(ranks[rank].peak == Approx(ranks[rank].predicted).epsilon(bar));
    CHECK(ranks[rank].peak + ranks[rank].mail == Approx(ranks[rank].held).epsilon(bar));
  }
}

}  // namespace

TEST_CASE("what a stage holds is what the simulator says, and what it says of itself") {
  const Transformer thin = model_of(4, 32, 4, 2), wide = model_of(2, 128, 8, 8),
                    grouped = model_of(3, 64, 8, 2);
  const std::vector<MemoryCase> cases{
      {"short samples, one rank", short_samples(1, 24), job_of(thin, 1, 1)},
      {"short samples, wide", short_samples(2, 24), job_of(wide, 1, 1)},
      {"short samples, two stages", short_samples(3, 30), job_of(thin, 1, 2)},
      {"a long sample, two pipelines", short_samples(4, 30, 1500), job_of(grouped, 2, 1)},
      {"merged, thin, in a ring", short_samples(5, 8, 2000), job_of(thin, 2, 1), true},
      {"merged, thin, by heads", short_samples(5, 8, 2000), job_of(thin, 2, 1), true, MergedAttention::heads},
      {"merged, thin, in a ring, as the plan says", short_samples(5, 8, 2000), job_of(thin, 2, 1), true,
       MergedAttention::ring, true},
      {"merged, thin, by heads, as the plan says", short_samples(5, 8, 2000), job_of(thin, 2, 1), true,
       MergedAttention::heads, true},
      {"merged, grouped, in a ring", short_samples(6, 6, 2500), job_of(grouped, 2, 1), true},
      {"merged, grouped, by heads", short_samples(6, 6, 2500), job_of(grouped, 2, 1), true,
       MergedAttention::heads},
      {"merged of two stages, in a ring", short_samples(7, 6, 3000), job_of(wide, 2, 2), true},
      {"merged of two stages, by heads", short_samples(7, 6, 3000), job_of(wide, 2, 2), true,
       MergedAttention::heads},
      {"two tensor-parallel ranks", short_samples(9, 24), job_of(wide, 1, 1, 2)},
      {"two tensor-parallel ranks of two stages", short_samples(10, 24), job_of(thin, 1, 2, 2)},
      {"four tensor-parallel ranks of two pipelines", short_samples(11, 24), job_of(wide, 2, 1, 4)},
      {"merged, each of two tensor-parallel ranks, in a ring", short_samples(12, 8, 2000),
       job_of(thin, 2, 1, 2), true},
      {"merged, each of two tensor-parallel ranks, by heads", short_samples(13, 6, 2000),
       job_of(wide, 2, 1, 2), true, MergedAttention::heads},
      {"merged of four, by heads", short_samples(8, 4, 3000), job_of(model_of(2, 32, 4, 4), 4, 1), true,
       MergedAttention::heads},
  };
  using slimpack::testing::few;
  // Where few are run, three are left: a long sample, merged packs by heads, and tensor-parallel ones in a ring.
  for (std::size_t i = few ? 3 : 0; i < cases.size(); i += few ? 6 : 1) check<float>(cases[i]);
  if (few) return;
  check<double>(cases[2]);
  check<double>(cases[4]);
  check<double>(cases[5]);
}

TEST_CASE("context-parallel ranks hold what was planned") {
  const Transformer model = model_of(4, 32, 4, 4);
  struct Case {
    Layout layout;
    MergedAttention exchange;
  };
  for (const Case& c :
       {Case{{.cp = 2, .pp = 2}, MergedAttention::ring}, Case{{.cp = 2}, MergedAttention::heads},
        Case{{.dp = 2, .cp = 2}, MergedAttention::heads},
        Case{{.dp = 2, .tp = 2, .cp = 2}, MergedAttention::ring}}) {
    const bool ring = c.exchange == MergedAttention::ring;
    INFO("dp " << c.layout.dp << ", tp " << c.layout.tp << ", cp " << c.layout.cp << ", pp " << c.layout.pp
               << (ring ? ", in a ring" : ", by heads"));
    const Job job{model, device_preset("cpu"), c.layout};
    const StageOptions options{.merged = c.exchange, .limit_bytes = 1e15};
    const auto tensor = static_cast<std::size_t>(c.layout.tp),
               context = static_cast<std::size_t>(c.layout.cp);
    const CpuMemory memory(model, split_layers(model.layers, c.layout.pp), sizeof(float), options,
                           2.0 / (c.layout.dp * c.layout.cp), {tensor, tensor - 1}, context);
    const CalibratedCost cost(job, {.exchanges = {ring ? KeyExchange::ring : KeyExchange::all_to_all}});
    // In a ring, samples that fill no window hold less than planned.
    const std::vector<Tokens> lengths =
        ring ? std::vector<Tokens>{1500, 2400, 1800, 2100} : short_samples(14, 12, 2000);
    Plan plan = plan_slimpack(lengths, job, cost, memory, {.tile = 16});
    plan = context_ranks_as_members(std::move(plan), default_ownership_block);
    const auto ranks = run<float>(model, plan, {.stage = options});
    REQUIRE(ranks.size() == static_cast<std::size_t>(c.layout.dp * c.layout.tp * c.layout.cp * c.layout.pp));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const RankPlace place = PlanRanks(plan).place_of(rank);
      INFO("pipeline " << place.pipeline << ", stage " << place.stage << ", tensor rank " << place.tensor);
      CHECK(ranks[rank].peak == Approx(plan.step.peak_bytes[place.pipeline][place.stage]).epsilon(bar));
    }
  }
}

TEST_CASE("stages whose chunks recompute different numbers of layers take from the system what was planned") {
  using slimpack::testing::ChunkBatch, slimpack::testing::ShortMemoryPlan;
  slimpack::testing::for_each_short_memory_plan(
      1, 4, [](const ChunkBatch& batch, const ShortMemoryPlan& found, unsigned) {
        StageOptions options = batch.stage;
        options.limit_bytes = found.limit_bytes;
        const auto ranks =
            run<float>(batch.job.model, found.plan, {.stage = options, .shard_optimiser = false});
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
          const RankPlace place = PlanRanks(found.plan).place_of(rank);
          INFO("pipeline " << place.pipeline << ", stage " << place.stage);
          const double planned = found.plan.step.peak_bytes[place.pipeline][place.stage];
          CHECK(ranks[rank].peak == Approx(planned).epsilon(bar));
          CHECK(ranks[rank].held - ranks[rank].mail == Approx(planned).epsilon(bar));
        }
      });
}

TEST_CASE("attention's workspace does not grow with the sample") {
  const HeadShape shape{4, 2, 16};
  const auto most = double(sizeof(float) * Attention<float>::workspace_numbers(shape));
  for (const std::size_t keys : {512u, 16'384u}) {
    INFO(keys << " keys");
    constexpr std::size_t queries = 512;
    const auto last = static_cast<Tokens>(keys);
    const Positions asked{last - Tokens(queries), last}, held{0, last};
    std::mt19937 random(1);
    const auto k = slimpack::testing::random_matrix<float>(random, keys, shape.kv_width()), v = k;
    const auto q = slimpack::testing::random_matrix<float>(random, queries, shape.query_width());
    Matrix<float> out(queries, shape.query_width()), maximum(queries, shape.heads), sum(queries, shape.heads);
    Matrix<float> dq(queries, shape.query_width()), dk(keys, shape.kv_width()), dv(keys, shape.kv_width());
    slimpack::testing::restart_heap_peak();
    const double before = slimpack::testing::heap_in_use();
    Attention<float> attention(shape);
    const KeyValuePiece<float> piece{k.view(), v.view(), {&held, 1}};
    const Attention<float>::PieceGradients gradients{dk.view(), dv.view()};
    const AttentionState<float> state{out.view(), maximum.view(), sum.view()};
    Attention<float>::begin(state);
    attention.accumulate({q.view(), {&asked, 1}}, {&piece, 1}, state);
    attention.finish(state, sum.view());
    attention.backward({q.view(), {&asked, 1}}, {out.view(), sum.view(), q.view()}, {&piece, 1}, dq.view(),
                       {&gradients, 1});
    const double grown = slimpack::testing::heap_peak() - before;
    CHECK(grown > 0.5 * most);
    CHECK(grown <= 1.01 * most + 1024.0);  // and what the allocator puts around each block
  }
}

namespace {

/// One sample on one stage, in slices of so many tokens.
Plan sliced_sample(Tokens tokens, Tokens slice) {
  Plan plan;
  plan.model = model_of(1, 32, 2, 1);
  plan.tokens = {tokens};
  plan.pipelines.push_back({.id = 0, .layers = {1}, .order = {{}}});
  const auto slices = static_cast<PackId>(tokens / slice);
  for (PackId k = 0; k < slices; ++k) {
    plan.forward.packs.add({0, k * slice, (k + 1) * slice});
    plan.backward.packs.add({0, tokens - (k + 1) * slice, tokens - k * slice});
    plan.backward.recompute_layers.add_row(1, 1);
    for (PassPlan* pass : {&plan.forward, &plan.backward}) {
      pass->packs.close();
      pass->pipelines.add_row(1);
    }
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (PackId k = 0; k < slices; ++k) plan.pipelines[0].order[0].push_back({pass, k});
  }
  return plan;
}

}  // namespace

TEST_CASE("a long sample takes what its tokens keep, and the workspace of one slice") {
  constexpr Tokens slice = 256;
  for (const Tokens tokens : {4 * slice, 32 * slice}) {
    INFO(tokens << " tokens");
    const Plan plan = sliced_sample(tokens, slice);
    std::mt19937 random(1);
    const auto ids = slimpack::testing::random_ids(random, plan, plan.model.vocab);
    slimpack::testing::restart_heap_peak();
    const double before = slimpack::testing::heap_in_use();
    slimpack::testing::Cluster<float> cluster(plan.model, plan, 64, {});
    cluster.step(ids);
    const CpuMemory memory(plan.model, plan.pipelines[0].layers, sizeof(float), {}, 0.0);
    const double expected = memory.static_bytes(0) + memory.workspace_bytes(0, Pass::backward, slice, 1) +
                            double(tokens) * (memory.activation_bytes(0, 1) + memory.kv_gradient_bytes(0));
    CHECK(cluster.rank(0, 0).stage.memory().peak() == expected);
    CHECK(slimpack::testing::heap_peak() - before == Approx(expected).epsilon(bar));
  }
}
