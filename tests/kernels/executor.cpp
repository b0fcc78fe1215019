#include "kernels/executor.hpp"

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
#include "tests/exec/plans.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/executor_case.hpp"
#include "tests/sanitized.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::ExecutorCase, slimpack::testing::PlanKind, slimpack::testing::seeds;

namespace {

template <class Real>
using Executor = RankExecutor<CpuStage<Real>, InProcessTransport>;

/// Runs a case on threads and compares it with the reference.
template <class Real>
void run_and_compare(const ExecutorCase& c, const InProcessOptions& transport = {}) {
  std::mutex mutex;
  std::map<std::string, std::vector<double>> gradients, weights;
  std::vector<double> losses(rank_count(c.plan));
  run_in_process(
      rank_count(c.plan),
      [&](InProcessTransport& t) {
        Executor<Real> executor(t, c.model, c.plan, c.options);
        for (int step = 0; step < c.steps; ++step) losses[t.rank()] = executor.step(c.plan, c.ids).loss;
        const std::scoped_lock lock(mutex);
        slimpack::testing::collect(executor.stage().weights(), weights, gradients);
      },
      transport);
  c.check<Real>(losses, weights, gradients);
}

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
  for (const PlanKind kind : slimpack::testing::plan_kinds) {
    // Under a sanitizer a few of each kind, with both kinds of optimiser for both kinds of numbers.
    for (unsigned i = 0; i < seeds(6, 3, 3); ++i) {
      const ExecutorCase c = slimpack::testing::executor_case(kind, i);
      INFO(slimpack::testing::name(kind) << " plan of seed " << c.seed);
      stages.insert(c.plan.pipelines[0].stages());
      run_and_compare<double>(c, {{}, i % 2 == 0});
      run_and_compare<float>(c, {{}, i % 2 == 1});
    }
  }
  CHECK(stages.size() >= 5);
}

TEST_CASE("weights agree with the plain transformer's after twenty steps on any number of ranks", "[slow]") {
  for (const PlanKind kind : slimpack::testing::plan_kinds) {
    for (const bool shard : {false, true}) {
      ExecutorCase c = slimpack::testing::executor_case(kind, 3);
      INFO(slimpack::testing::name(kind) << " plan of seed " << c.seed << ", sharded " << shard);
      c.steps = 20;
      c.options.shard_optimiser = shard;
      run_and_compare<double>(c);
    }
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
    const RankPlace place = place_of(rank, stages_per_pipeline(c.plan));
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
      CHECK_THAT(error, Catch::Contains("ranks do not agree on the plan"));
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
      CHECK_THAT(errors[rank], Catch::Contains("rank 0 has no plan") || Catch::Contains("rank 0 (agreement"));
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
