#include "kernels/executor.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/transport/in_process.hpp"
#include "slimpack/exec/context_members.hpp"
#include "slimpack/exec/whole_stages.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/effort.hpp"
#include "tests/exec/plans.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/executor_case.hpp"
#include "tests/kernels/trained.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::Executor, slimpack::testing::ExecutorCase, slimpack::testing::PlanKind,
    slimpack::testing::Reference, slimpack::testing::run_and_compare, slimpack::testing::seeds,
    slimpack::testing::trained;

namespace {

/// What each rank of a run ends with; empty if it ends well.
template <class Body>
std::vector<std::string> errors_of(std::size_t ranks, Body&& body) {
  std::vector<std::string> errors(ranks);
  try {
    run_in_process(ranks, [&](InProcessTransport& t) {
      try {
        body(t);
      } catch (const std::exception& error) {
        errors[t.rank()] = error.what();
        throw;
      }
    });
  } catch (const std::exception&) {
  }
  return errors;
}

}  // namespace

TEST_CASE("ranks train as the plain transformer does", "[threads]") {
  std::set<std::size_t> stages;
  for (const PlanKind kind : slimpack::testing::all_plan_kinds) {
    // Where few are run: some of each kind, with both kinds of optimiser for both kinds of numbers.
    for (unsigned i = 0; i < seeds(6, 3, 3); ++i) {
      const ExecutorCase c = slimpack::testing::executor_case(kind, i);
      INFO(slimpack::testing::name(kind) << " plan of seed " << c.seed);
      stages.insert(c.plan.pipelines[0].stages());
      const Reference reference = c.reference();
      run_and_compare<double>(c, reference, {{}, i % 2 == 0});
      run_and_compare<float>(c, reference, {{}, i % 2 == 1});
    }
  }
  CHECK(stages.size() >= 5);
}

TEST_CASE("an evaluation has the loss that a step would have, and changes nothing", "[threads]") {
  for (const PlanKind kind : slimpack::testing::all_plan_kinds) {
    const ExecutorCase c = slimpack::testing::executor_case(kind, 0);
    INFO(slimpack::testing::name(kind) << " plan of seed " << c.seed);
    std::mutex mutex;
    run_in_process(rank_count(c.plan), [&](InProcessTransport& t) {
      Executor<double> plain(t, c.model, c.plan, c.options), other(t, c.model, c.plan, c.options);
      plain.step(c.plan, c.ids);
      other.step(c.plan, c.ids);
      const double evaluated = other.evaluate(c.plan, c.ids).loss, first = plain.step(c.plan, c.ids).loss,
                   second = other.step(c.plan, c.ids).loss;
      const std::scoped_lock lock(mutex);
      CHECK(evaluated == first);
      CHECK(second == first);
      CHECK(std::ranges::equal(plain.stage().weights().parameters(), other.stage().weights().parameters()));
    });
  }
}

TEST_CASE("pipelines of two or three kinds train as the plain transformer does", "[threads]") {
  std::set<std::size_t> kinds;
  int merged = 0, empty = 0, uneven = 0;
  for (unsigned i = 0; i < seeds(24, 4, 4); ++i) {
    ExecutorCase c = slimpack::testing::executor_case(PlanKind::unequal, i);
    INFO("plan of seed " << c.seed);
    CHECK(violations(c.plan).empty());
    std::set<std::vector<std::int32_t>> layers;
    for (const PipelinePlan& pipeline : c.plan.pipelines) {
      layers.insert(pipeline.layers);
      empty += std::count(pipeline.layers.begin(), pipeline.layers.end(), 0) > 0;
    }
    kinds.insert(layers.size());
    for (std::size_t k = 0; k < c.plan.forward.packs.size(); ++k)
      merged += c.plan.forward.pipelines[k].size() > 1;
    const Ragged<std::int32_t>& recompute_layers = c.plan.backward.recompute_layers;
    for (std::size_t k = 1; k < recompute_layers.size(); ++k)
      uneven += !std::ranges::equal(recompute_layers[k], recompute_layers[k - 1]);
    c.steps = i % 4 == 0 ? 3 : 1;
    const Reference reference = c.reference();
    run_and_compare<double>(c, reference);
    if (i % 3 == 0) run_and_compare<float>(c, reference);
  }
  CHECK(kinds.count(2) + kinds.count(3) >= 1);
  CHECK(merged > 3);
  CHECK(uneven > 3);
  if (!slimpack::testing::few) {
    CHECK(kinds.size() >= 2);
    CHECK(empty > 0);
  }
}

TEST_CASE("a user's planner of chunks, for pipelines of several kinds, trains as the plain transformer does",
          "[threads]") {
  std::set<std::size_t> stages;
  std::size_t cut = 0;
  for (unsigned i = 0; i < seeds(16, 4, 4); ++i) {
    ExecutorCase c = slimpack::testing::executor_case(PlanKind::chunks, i);
    INFO("plan of seed " << c.seed);
    CHECK(violations(c.plan).empty());
    std::set<std::size_t> kinds;
    for (const PipelinePlan& pipeline : c.plan.pipelines) kinds.insert(pipeline.stages());
    CHECK(kinds.size() >= 2);
    stages.insert(kinds.begin(), kinds.end());
    for (const Slice& slice : c.plan.forward.packs.slices()) cut += slice.begin > 0;
    c.steps = i % 4 == 0 ? 3 : 1;
    const Reference reference = c.reference();
    run_and_compare<double>(c, reference);
    if (i % 3 == 0) run_and_compare<float>(c, reference);
  }
  CHECK(stages == std::set<std::size_t>{1, 2, 3});
  CHECK(cut > 3);
}

TEST_CASE("samples run by different, overlapping groups train as the plain transformer does", "[threads]") {
  std::set<std::size_t> groups;
  for (unsigned i = 0; i < seeds(16, 4, 4); ++i) {
    const ExecutorCase c = slimpack::testing::executor_case(PlanKind::overlapping, i);
    INFO("plan of seed " << c.seed);
    CHECK(violations(c.plan).empty());
    std::set<std::vector<PipelineId>> seen;
    for (std::size_t k = 0; k < c.plan.forward.packs.size(); ++k) {
      const auto members = c.plan.forward.pipelines[k];
      if (members.size() > 1) seen.insert({members.begin(), members.end()});
    }
    groups.insert(seen.size());
    const Reference reference = c.reference();
    run_and_compare<double>(c, reference);
    if (i % 3 == 0) run_and_compare<float>(c, reference);
  }
  CHECK(*groups.rbegin() >= 3);
}

TEST_CASE("the same run gives the same bits, whatever the pipelines", "[threads]") {
  for (const PlanKind kind : {PlanKind::unequal, PlanKind::overlapping, PlanKind::dp_merge}) {
    for (unsigned i = 0; i < seeds(3, 1); ++i) {
      ExecutorCase c = slimpack::testing::executor_case(kind, i);
      INFO(slimpack::testing::name(kind) << " plan of seed " << c.seed);
      c.options.shard_optimiser = i != 1;
      c.steps = 2;
      const auto one = trained<float>(c), other = trained<float>(c);
      CHECK(one.losses() == other.losses());
      CHECK((one.weights == other.weights));
      CHECK((one.gradients == other.gradients));
    }
  }
}

TEST_CASE("context-parallel ranks run as members", "[threads]") {
  std::size_t most = 0;
  std::set<Sharding> kinds;
  for (unsigned seed = 1; seed <= seeds(12, 3, 3); ++seed) {
    INFO("seed " << seed);
    const std::int32_t cp = 2 + static_cast<std::int32_t>(seed % 2);
    slimpack::testing::SamplePlanOptions options{.seed = seed,
                                                 .samples = 3 + seed % 3,
                                                 .merged = seed % 3,
                                                 .pipelines = 1 + seed % 2,
                                                 .stages = 1 + seed % 3,
                                                 .max_tokens = 25,
                                                 .cp = cp,
                                                 .whole = seed % 2 == 1};
    ExecutorCase c{
        .plan = slimpack::testing::sample_plan(options), .model = {}, .ids = {}, .options = {}, .seed = seed};
    if (seed % 3 == 0) slimpack::testing::take_shuffled_orders(c.plan, seed);
    if (options.pipelines == 2 && options.merged == 0) c.plan.pipelines[1].cp = 1;  // alone with its samples
    const Plan whole = whole_stages(c.plan);
    c.plan = context_ranks_as_members(whole, 4);
    CHECK(violations(c.plan).empty());
    CHECK(c.plan.forward.sharding == whole.forward.sharding);
    const bool by_position = std::ranges::count(whole.forward.sharding, Sharding::by_position) > 0;
    CHECK(c.plan.forward.block == (by_position ? 4 : 0));
    for (std::size_t k = 0; k < whole.backward.packs.size(); ++k) {
      most = std::max(most, c.plan.backward.pipelines[k].size());
      kinds.insert(c.plan.backward.sharding[k]);
    }
    std::mt19937 random(seed);
    c.model = slimpack::testing::small_model(random, c.plan);
    c.ids = slimpack::testing::random_ids(random, c.plan, c.model.vocab);
    c.options.stage = {
        .ring_tokens = 1 + random() % 30, .page_tokens = 1 + random() % 40, .head_chunk_tokens = 7};
    c.options.init.deviation = 0.4;
    c.options.shard_optimiser = seed % 2 == 0;
    run_and_compare<double>(c);
    for (const std::string& error :
         errors_of(rank_count(whole), [&](InProcessTransport& t) { Executor<double>(t, c.model, whole); }))
      CHECK_THAT(error, Catch::Contains("has cp ") && Catch::Contains("context_ranks_as_members"));
  }
  CHECK(most >= 4);
  CHECK(kinds.size() >= 3);
}

TEST_CASE("a back end refuses exchanges of keys that it does not have, by name", "[threads]") {
  ExecutorCase c = slimpack::testing::executor_case(PlanKind::overlapping, 0);
  const auto refused = [&](KeyExchange exchange) {
    for (PassPlan* pass : {&c.plan.forward, &c.plan.backward})
      pass->exchange.assign(pass->packs.size(), exchange);
    return errors_of(rank_count(c.plan), [&](InProcessTransport& t) {
      Executor<double>(t, c.model, c.plan, c.options).step(c.plan, c.ids);
    });
  };
  for (const KeyExchange exchange : {KeyExchange::all_gather, KeyExchange::queries}) {
    bool named = false;
    for (const std::string& error : refused(exchange)) {
      CHECK_FALSE(error.empty());
      named = named || error.find(concat("exchanges keys by '", exchange_name(exchange),
                                         "'; expected ring or all_to_all")) != std::string::npos;
    }
    CHECK(named);
  }
  for (PassPlan* pass : {&c.plan.forward, &c.plan.backward}) pass->exchange.clear();
  c.plan.forward.exchange.assign(c.plan.forward.packs.size(), KeyExchange::all_to_all);
  c.plan.backward.exchange.assign(c.plan.backward.packs.size(), KeyExchange::ring);
  c.model.heads = c.model.kv_heads = 12;
  bool named = false;
  for (const std::string& error : errors_of(rank_count(c.plan), [&](InProcessTransport& t) {
         Executor<double>(t, c.model, c.plan, c.options).step(c.plan, c.ids);
       })) {
    named = named || error.find("expected one way for all packs of a sample") != std::string::npos;
  }
  CHECK(named);
}

TEST_CASE("weights agree with the plain transformer's after twenty steps on any number of ranks", "[slow]") {
  bool shard = false;
  for (const PlanKind kind : slimpack::testing::all_plan_kinds) {
    ExecutorCase c = slimpack::testing::executor_case(kind, 3);
    c.steps = 20;
    c.options.shard_optimiser = shard = !shard;
    INFO(slimpack::testing::name(kind) << " plan of seed " << c.seed << ", sharded " << shard);
    run_and_compare<double>(c);
  }
}

TEST_CASE("a step reports its tasks, its memory, and what was predicted of it") {
  const ExecutorCase c = slimpack::testing::executor_case(PlanKind::slimpack, 1);
  std::vector<StepReport> reports(rank_count(c.plan));
  run_in_process(rank_count(c.plan), [&](InProcessTransport& t) {
    Executor<double> executor(t, c.model, c.plan, c.options);
    reports[t.rank()] = executor.step(c.plan, c.ids);
  });
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    INFO("rank " << rank);
    const StepReport& report = reports[rank];
    const RankPlace place = PlanRanks(c.plan).place_of(rank);
    const auto& order = c.plan.pipelines[place.pipeline].order[place.stage];
    REQUIRE(report.tasks.size() == order.size());
    double end = 0.0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      CHECK((report.tasks[i].pass == order[i].pass && report.tasks[i].pack == order[i].pack));
      CHECK(report.tasks[i].start >= end);
      end = report.tasks[i].start + report.tasks[i].seconds;
    }
    CHECK(report.pipeline_seconds >= end);
    CHECK(report.pipeline_seconds == reports[0].pipeline_seconds);
    CHECK(report.loss == reports[0].loss);
    // Pages of keys and values round up.
    CHECK(report.peak_bytes >= report.predicted_bytes * (1 - 1e-9));
    CHECK(report.peak_bytes < 2.0 * report.predicted_bytes);
  }
}

TEST_CASE("ranks that can't run a step all say so", "[threads]") {
  const ExecutorCase c = slimpack::testing::executor_case(PlanKind::equal_packs, 1);
  const std::size_t ranks = rank_count(c.plan);
  REQUIRE(ranks > 1);

  SECTION("different ids") {
    for (const std::string& error : errors_of(ranks, [&](InProcessTransport& t) {
           Executor<double> executor(t, c.model, c.plan, c.options);
           Ragged<std::int32_t> ids = c.ids;
           if (t.rank() == ranks - 1) ids[0][0] = (ids[0][0] + 1) % c.model.vocab;
           executor.step(c.plan, ids);
         })) {
      CHECK_THAT(error, Catch::Contains("ranks do not agree on the token ids: rank "));
    }
  }
  SECTION("one rank's memory is too small") {
    const auto errors = errors_of(ranks, [&](InProcessTransport& t) {
      ExecutorOptions options = c.options;
      Executor<double> probe(t, c.model, c.plan, options);
      const double predicted = probe.step(c.plan, c.ids).predicted_bytes;
      if (t.rank() == 0) options.stage.limit_bytes = 0.999 * predicted;
      Executor<double> executor(t, c.model, c.plan, options);
      executor.step(c.plan, c.ids);
    });
    CHECK_THAT(errors[0],
               Catch::Contains("stage 0 of pipeline 0 at ") && Catch::Contains(" are there; expected "));
    for (std::size_t rank = 1; rank < ranks; ++rank)
      CHECK_THAT(errors[rank],
                 Catch::Contains("on the plan: rank 0 has nothing") || Catch::Contains("rank 0 (agreement"));
  }
  SECTION("a loss that is no number") {
    for (const std::string& error : errors_of(ranks, [&](InProcessTransport& t) {
           Executor<double> executor(t, c.model, c.plan, c.options);
           for (double& w : executor.stage().weights().parameters())
             w = std::numeric_limits<double>::quiet_NaN();
           executor.step(c.plan, c.ids);
         })) {
      CHECK_THAT(error, Catch::Contains("loss"));
    }
  }
  SECTION("another number of ranks") {
    for (const std::string& error : errors_of(ranks + 1, [&](InProcessTransport& t) {
           Executor<double> executor(t, c.model, c.plan, c.options);
         })) {
      CHECK_THAT(error, Catch::Contains("expected the " + std::to_string(ranks)));
    }
  }
  SECTION("another model") {
    Transformer model = c.model;
    ++model.layers;
    for (const std::string& error : errors_of(
             ranks, [&](InProcessTransport& t) { Executor<double> executor(t, model, c.plan, c.options); })) {
      CHECK_THAT(error, Catch::Contains("layers"));
    }
  }
  SECTION("a rank that ends early") {
    for (const std::string& error : errors_of(ranks, [&](InProcessTransport& t) {
           Executor<double> executor(t, c.model, c.plan, c.options);
           if (t.rank() == ranks - 1) throw std::runtime_error("out of coffee");
           executor.step(c.plan, c.ids);
         })) {
      CHECK_THAT(error, Catch::Contains("out of coffee"));
    }
  }
}
