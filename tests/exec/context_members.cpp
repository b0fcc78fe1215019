#include "slimpack/exec/context_members.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "slimpack/exec/program.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;

TEST_CASE("context-parallel ranks become pipelines of the same packs") {
  int with_note = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Plan plan = testing::sample_plan({.seed = seed,
                                            .samples = 5,
                                            .deferred = seed % 2,
                                            .merged = seed % 3,
                                            .pipelines = 1 + seed % 3,
                                            .stages = 1 + seed % 4,
                                            .cp = 1 + static_cast<std::int32_t>(seed % 4),
                                            .mixed = seed % 5 == 0,
                                            .split_weights = seed % 3 == 0,
                                            .details = seed % 2 == 0,
                                            .block = seed % 4 == 1 ? 0 : 8});
    const Plan ranks = context_ranks_as_members(plan, 16);
    for (const std::string& text : violations(ranks)) UNSCOPED_INFO(text);
    CHECK(violations(ranks).empty());
    const auto cp = static_cast<std::size_t>(plan.pipelines[0].cp);
    REQUIRE(ranks.pipelines.size() == cp * plan.pipelines.size());
    std::set<DeviceId> devices;
    std::size_t otherwise = 0;
    for (const PipelinePlan& rank : ranks.pipelines) {
      const PipelinePlan& whole = plan.pipelines[rank.id / cp];
      CHECK(rank.cp == 1);
      CHECK(rank.tp == whole.tp);
      CHECK(rank.layers == whole.layers);
      CHECK(rank.order == whole.order);
      for (std::size_t s = 0; s < rank.devices.size(); ++s) {
        for (const DeviceId id : rank.devices[s]) {
          CHECK(devices.insert(id).second);
          CHECK(std::ranges::count(whole.devices[s], id) == 1);
        }
      }
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan &before = plan.of(pass), &after = ranks.of(pass);
      CHECK(after.packs == before.packs);
      CHECK(after.seconds == before.seconds);
      for (std::size_t k = 0; k < before.packs.size(); ++k) {
        std::vector<PipelineId> expected;
        for (const PipelineId p : before.pipelines[k]) {
          for (std::size_t c = 0; c < cp; ++c) expected.push_back(static_cast<PipelineId>(p * cp + c));
        }
        CHECK(std::ranges::equal(after.pipelines[k], expected));
        CHECK(after.sharding[k] == (expected.size() > 1 ? Sharding::by_position : Sharding::none));
        otherwise += expected.size() > 1 && before.sharding[k] != Sharding::by_position ? 1 : 0;
      }
      CHECK(after.block == (before.block > 0 ? before.block : 16));
    }
    CHECK(PlanRanks(ranks).size() == cp * PlanRanks(plan).size());
    REQUIRE(ranks.notes.size() == plan.notes.size() + (otherwise > 0 ? 1 : 0));
    if (otherwise > 0) CHECK(ranks.notes.back().starts_with(std::to_string(otherwise) + " packs are dealt"));
    with_note += otherwise > 0 ? 1 : 0;
  }
  CHECK(with_note > 0);
}

TEST_CASE("pipelines of different context parallelism") {
  Plan plan = testing::sample_plan({.seed = 3, .samples = 4, .pipelines = 2, .cp = 3});
  plan.pipelines[0].cp = 1;
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      if (pass->pipelines[k][0] == 0) pass->sharding[k] = Sharding::none;
    }
  }
  REQUIRE(violations(plan).empty());
  const Plan ranks = context_ranks_as_members(plan, 16);
  CHECK(violations(ranks).empty());
  REQUIRE(ranks.pipelines.size() == 4);
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k)
    CHECK(ranks.forward.pipelines[k].size() == (plan.forward.pipelines[k][0] == 0 ? 1 : 3));
  plan.pipelines[1].devices.assign(plan.pipelines[1].stages(), {5});
  CHECK_THROWS_WITH(context_ranks_as_members(plan, 16), Catch::Contains("expected tp * cp = 6"));
}

TEST_CASE("a program refuses merged packs that are not shared by position, and names their sharding") {
  Plan plan = testing::sample_plan({.seed = 3, .samples = 4, .pipelines = 1, .cp = 2});
  for (PassPlan* pass : {&plan.forward, &plan.backward})
    std::fill(pass->sharding.begin(), pass->sharding.end(), Sharding::by_position);
  plan = context_ranks_as_members(plan, 16);
  CHECK_NOTHROW(StageProgram(plan, 0, 0));
  plan.backward.sharding[0] = Sharding::per_document;
  CHECK_THROWS_WITH(StageProgram(plan, 0, 0), Catch::Contains("the sharding of B0 is 'per_document'"));
}
