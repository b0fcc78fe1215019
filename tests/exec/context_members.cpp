#include "slimpack/exec/context_members.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "slimpack/exec/program.hpp"
#include "slimpack/plan/shards.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;

namespace {

/// Takes the sharding from packs whose samples both passes cut in the same way.
void leave_unnamed(Plan& plan) {
  Plan without = plan;
  for (PassPlan* pass : {&without.forward, &without.backward}) {
    std::fill(pass->sharding.begin(), pass->sharding.end(), Sharding::none);
    pass->per_document = {};
  }
  if (violations(without).empty()) plan = std::move(without);
}

/// Each rank has the chunks of a pack that the plan gave it before it became a pipeline.
void check_same_shards(const Plan& before, const Plan& after, Task task, bool named) {
  if (!named || count_tokens(before.of(task.pass).packs[task.pack]) < context_ranks(before, task)) return;
  Plan whole = before;
  for (PassPlan* pass : {&whole.forward, &whole.backward}) pass->block = after.of(task.pass).block;
  CHECK(pack_shards(after, task) == pack_shards(whole, task));
}

}  // namespace

TEST_CASE("context-parallel ranks become pipelines of the same packs") {
  int with_note = 0;
  int kinds[5] = {};
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Plan plan = testing::sample_plan({.seed = seed,
                                      .samples = 5,
                                      .deferred = seed % 2,
                                      .merged = seed % 3,
                                      .pipelines = 1 + seed % 3,
                                      .stages = 1 + seed % 4,
                                      .cp = 1 + static_cast<std::int32_t>(seed % 4),
                                      .mixed = seed % 5 < 2,
                                      .split_weights = seed % 3 == 0,
                                      .details = seed % 2 == 0,
                                      .block = seed % 4 == 1 ? 0 : 8});
    if (seed % 7 == 3) leave_unnamed(plan);
    const Plan ranks = context_ranks_as_members(plan, 16);
    for (const std::string& text : violations(ranks)) UNSCOPED_INFO(text);
    CHECK(violations(ranks).empty());
    const auto cp = static_cast<std::size_t>(plan.pipelines[0].cp);
    REQUIRE(ranks.pipelines.size() == cp * plan.pipelines.size());
    std::set<DeviceId> devices;
    std::size_t unnamed = 0;
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
      bool by_position = false;
      CHECK(after.packs == before.packs);
      CHECK(after.seconds == before.seconds);
      for (std::size_t k = 0; k < before.packs.size(); ++k) {
        std::vector<PipelineId> expected;
        for (const PipelineId p : before.pipelines[k]) {
          for (std::size_t c = 0; c < cp; ++c) expected.push_back(static_cast<PipelineId>(p * cp + c));
        }
        CHECK(std::ranges::equal(after.pipelines[k], expected));
        const bool named = expected.size() == 1 || before.sharding[k] != Sharding::none;
        CHECK(after.sharding[k] == (named ? before.sharding[k] : Sharding::by_position));
        unnamed += named ? 0 : 1;
        by_position = by_position || after.sharding[k] == Sharding::by_position;
        check_same_shards(plan, ranks, {pass, static_cast<PackId>(k)}, named);
        ++kinds[static_cast<std::size_t>(after.sharding[k])];
      }
      CHECK(after.per_document == before.per_document);
      CHECK(after.block == (before.block > 0 || !by_position ? before.block : 16));
    }
    CHECK(PlanRanks(ranks).size() == cp * PlanRanks(plan).size());
    REQUIRE(ranks.notes.size() == plan.notes.size() + (unnamed > 0 ? 1 : 0));
    if (unnamed > 0)
      CHECK(ranks.notes.back() ==
            concat(unnamed, " packs name no sharding; they are dealt to their ranks by position"));
    with_note += unnamed > 0 ? 1 : 0;
  }
  CHECK(with_note > 0);
  for (const int packs : kinds) CHECK(packs > 5);
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
