#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "slimpack/exec/whole_stages.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/tensor_case.hpp"
#include "tests/kernels/trained.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::all_pipelines, slimpack::testing::Executor, slimpack::testing::ExecutorCase,
    slimpack::testing::run_and_compare, slimpack::testing::seeds, slimpack::testing::tensor_case,
    slimpack::testing::trained;

TEST_CASE("tensor-parallel ranks train as the plain transformer does", "[threads]") {
  std::set<std::size_t> ranks;
  for (std::size_t i = 0; i < all_pipelines.size(); ++i) {
    for (unsigned round = 0; round < seeds(2, 1, 1); ++round) {
      const auto seed = static_cast<unsigned>(100 * i + 3 * round + 1);
      ExecutorCase c = tensor_case(all_pipelines[i], seed);
      INFO("pipelines " << i << ", seed " << seed << ", " << rank_count(c.plan) << " ranks");
      REQUIRE(violations(c.plan).empty());
      ranks.insert(rank_count(c.plan));
      c.steps = round % 2 == 0 ? 1 : 3;
      const slimpack::testing::Reference reference = c.reference();
      run_and_compare<double>(c, reference, {{}, round % 2 == 0});
      if (round == 0) run_and_compare<float>(c, reference);
    }
  }
  CHECK(*ranks.begin() == 2);
  CHECK(*ranks.rbegin() == 8);
}

TEST_CASE("the same run of tensor-parallel ranks gives the same bits", "[threads]") {
  for (std::size_t i = 0; i < all_pipelines.size(); i += 3) {
    INFO("pipelines " << i);
    ExecutorCase c = tensor_case(all_pipelines[i], static_cast<unsigned>(i) + 1);
    c.steps = 2;
    const auto one = trained<float>(c), other = trained<float>(c);
    CHECK(one.losses() == other.losses());
    const auto same = [](const slimpack::testing::Tensors& a, const slimpack::testing::Tensors& b) {
      return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
        return std::ranges::equal(x.second, y.second, [](double p, double q) {
          return p == q || (std::isnan(p) && std::isnan(q));
        });
      });
    };
    CHECK(same(one.weights, other.weights));
    for (const auto& [rank, gradients] : one.gradients) CHECK(same(gradients, other.gradients.at(rank)));
  }
}

TEST_CASE("each tensor-parallel rank holds what is predicted of it") {
  for (std::size_t i = 0; i < all_pipelines.size(); ++i) {
    if (all_pipelines[i].merged > 0 || all_pipelines[i].cp > 1) continue;  // members' shares are rounded
    ExecutorCase c = tensor_case(all_pipelines[i], static_cast<unsigned>(i) + 7);
    INFO("pipelines " << i);
    c.options.shard_optimiser = false;
    const auto run = trained<double>(c);
    for (std::size_t rank = 0; rank < run.reports.size(); ++rank) {
      INFO("rank " << rank << ": " << run.reports[rank].peak_bytes << " bytes, predicted "
                   << run.reports[rank].predicted_bytes);
      CHECK(run.reports[rank].peak_bytes >= 0.95 * run.reports[rank].predicted_bytes);
      CHECK(run.reports[rank].peak_bytes < 2.0 * run.reports[rank].predicted_bytes);
    }
  }
}

TEST_CASE("tensor parallelism that a model can't be shared by is refused on all ranks, by name",
          "[threads]") {
  const ExecutorCase c = tensor_case({{2}, {{2}}}, 1);
  const auto error_of = [&](const Transformer& model, std::int32_t tp) {
    Plan plan = c.plan;
    plan.pipelines[0].tp = tp;
    std::mutex mutex;
    std::set<std::string> errors;
    run_in_process(static_cast<std::size_t>(tp), [&](InProcessTransport& t) {
      try {
        Executor<double>(t, model, plan, c.options);
      } catch (const InvalidInput& error) {
        const std::scoped_lock lock(mutex);
        errors.insert(error.what());
      }
    });
    REQUIRE(errors.size() == 1);
    return *errors.begin();
  };
  Transformer model = c.model;
  model.heads = 12;
  model.kv_heads = 4;
  CHECK_THAT(error_of(model, 3), Catch::Contains("tp is 3; expected a divisor of the 4 key/value heads"));
  model.ffn = 3;
  CHECK_THAT(error_of(model, 4), Catch::Contains("tp is 4; expected at most the 3 columns"));
  model.ffn = model.vocab = 4;
  model.vocab = 2;
  CHECK_THAT(error_of(model, 4), Catch::Contains("tp is 4; expected at most the 2 tokens"));
}

TEST_CASE("a run keeps the order of its devices") {
  Plan plan;
  for (const PipelineId p : {0U, 1U}) plan.pipelines.push_back({.id = p, .layers = {1, 1}, .order = {}});
  const RunLayout layout(plan, 1, 4, {});
  CHECK(layout.place() == RankPlace{1, 0});
  Plan other = plan;
  other.pipelines[0].devices = {{3}, {8}};
  other.pipelines[1].devices = {{5}, {9}};
  layout.check(other);
  other.pipelines[0].devices = {{3}, {4}};
  CHECK_THROWS_WITH(layout.check(other),
                    Catch::Contains("stand in another order than those with which the run began"));
}

TEST_CASE("a run keeps its tensor parallelism, and a plan for whole stages has none", "[threads]") {
  const ExecutorCase c = tensor_case({{2, 2}, {{2}, {2}}}, 2);
  Plan other = c.plan;
  other.pipelines[0].tp = 1;
  std::mutex mutex;
  run_in_process(rank_count(c.plan), [&](InProcessTransport& t) {
    Executor<double> executor(t, c.model, c.plan, c.options);
    std::string error;
    try {
      executor.step(other, c.ids);
    } catch (const InvalidInput& refused) {
      error = refused.what();
    }
    const double loss = executor.step(c.plan, c.ids).loss;
    const std::scoped_lock lock(mutex);
    CHECK_THAT(error, Catch::Contains("pipeline 0 has tp 1; expected the 2 with which the run began") ||
                          Catch::Contains("tensor-parallel rank is 1; expected below"));
    CHECK(loss > 0.0);
  });
  CHECK(rank_count(whole_stages(c.plan)) == 2);
}
