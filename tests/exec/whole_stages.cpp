#include "slimpack/exec/whole_stages.hpp"

#include <catch2/catch.hpp>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/hash.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/exec/ranks.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;

TEST_CASE("a plan for whole stages has a rank for each, and runs the same packs") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    const Plan plan =
        testing::sample_plan({.seed = seed, .cp = static_cast<std::int32_t>(1 + seed % 2), .details = true});
    const Plan whole = whole_stages(plan);
    CHECK(violations(whole).empty());
    CHECK(rank_count(plan) == 2 * rank_count(whole));
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      CHECK(whole.pipelines[p].order == plan.pipelines[p].order);
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        const auto& before = plan.pipelines[p].devices[s];
        const auto& after = whole.pipelines[p].devices[s];
        REQUIRE(2 * after.size() == before.size());
        for (std::size_t i = 0; i < after.size(); ++i) CHECK(after[i] == before[2 * i]);
      }
    }
    CHECK(plan_hash(whole_stages(whole)) == plan_hash(whole));
  }
  Plan none = testing::sample_plan();
  none.pipelines[1].tp = 0;
  CHECK_THROWS_WITH(whole_stages(none), Catch::Contains("pipeline 1 has tp 0; expected a positive number"));
}

TEST_CASE("tensor-parallel ranks of a stage follow each other, and share a task's rows") {
  Plan plan = testing::sample_plan({.seed = 3, .pipelines = 2, .stages = 3});
  plan.pipelines[1].tp = 3;
  const PlanRanks ranks(plan);
  CHECK(ranks.size() == 2 * 3 + 3 * 3);
  CHECK((ranks.tensor_ranks(0) == 2 && ranks.tensor_ranks(1) == 3 && ranks.stages(1) == 3));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlace place = ranks.place_of(rank);
    CHECK(ranks.rank_of(place) == rank);
    const StageProgram program(plan, place);
    CHECK(program.rank() == rank);
    CHECK((program.tensor() == TensorShare{ranks.tensor_ranks(place.pipeline), place.tensor}));
    if (!program.first())
      CHECK(program.rank_before() == ranks.rank_of({place.pipeline, place.stage - 1, place.tensor}));
    if (!program.last())
      CHECK(program.rank_after() == ranks.rank_of({place.pipeline, place.stage + 1, place.tensor}));
  }
  CHECK(ranks.place_of(1) == RankPlace{0, 0, 1});
  CHECK(ranks.place_of(4) == RankPlace{1, 0, 2});
  CHECK(ranks.place_of(5) == RankPlace{0, 1, 0});
  CHECK(ranks.place_of(14) == RankPlace{1, 2, 2});
  const StageProgram first(plan, {1, 0, 0}), second(plan, {1, 0, 1}), third(plan, {1, 0, 2});
  for (std::size_t i = 0; i < first.tasks().size(); ++i) {
    CHECK(first.tasks()[i].owned_tokens == second.tasks()[i].owned_tokens);
    CHECK(first.tasks()[i].rows + second.tasks()[i].rows + third.tasks()[i].rows ==
          first.tasks()[i].owned_tokens);
  }
  CHECK_THROWS_WITH(StageProgram(plan, {1, 0, 3}),
                    Catch::Contains("tensor-parallel rank is 3; expected below the 3 of pipeline 1"));
  plan.pipelines[1].tp = 0;
  CHECK_THROWS_WITH(PlanRanks(plan), Catch::Contains("pipeline 1 has tp 0; expected a positive number"));
}
