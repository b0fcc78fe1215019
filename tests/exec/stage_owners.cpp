#include "slimpack/exec/stage_owners.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/exec/context_members.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/effort.hpp"
#include "tests/exec/planned_owners.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using slimpack::testing::PlannedOwners, slimpack::testing::seeds;

namespace {

/// Packs of whole samples, shared in all ways by several pipelines, of several ranks each.
Plan whole_plan(unsigned seed) {
  return testing::sample_plan({.seed = seed,
                               .samples = 6,
                               .merged = seed % 4,
                               .pipelines = 1 + seed % 3,
                               .stages = 1,
                               .cp = 1 + static_cast<std::int32_t>(seed % 4),
                               .whole = true,
                               .block = seed % 2 == 0 ? 0 : 5});
}

/// What a pipeline's stage holds of a pack, as the plan's shards are written: places of slices instead of samples.
std::vector<Slice> held(const StageProgram& program, Task wanted) {
  std::vector<Slice> chunks;
  for (const StageTask& task : program.tasks()) {
    if (task.pass != wanted.pass || task.pack != wanted.pack) continue;
    for (std::size_t i = 0; i < task.slices.size(); ++i) {
      program.owners().for_each_owned_range(task.slices[i], task.member, [&](const Slice& range) {
        chunks.push_back({static_cast<SampleId>(i), range.begin, range.end});
      });
    }
  }
  return chunks;
}

/// Packs of the same two samples in both passes, by two pipelines.
Plan two_samples(std::vector<Slice> forward, std::vector<Slice> backward) {
  Plan plan = testing::sample_plan(
      {.seed = 1, .samples = 2, .merged = 2, .pipelines = 2, .stages = 1, .whole = true});
  plan.tokens = {8, 8};
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
    packs = {};
    for (const Slice& slice : pass == Pass::forward ? forward : backward) {
      packs.packs.add(slice);
      packs.packs.close();
      packs.pipelines.repeat_row(1, std::vector<PipelineId>{0, 1});
      packs.sharding.push_back(Sharding::per_document);
      if (pass == Pass::backward) packs.recompute_layers.add_row(1, 0);
    }
  }
  for (PipelinePlan& pipeline : plan.pipelines) {
    pipeline.order[0].clear();
    for (PackId k = 0; k < forward.size(); ++k) pipeline.order[0].push_back({Pass::forward, k});
    for (PackId k = 0; k < backward.size(); ++k) pipeline.order[0].push_back({Pass::backward, k});
  }
  return plan;
}

}  // namespace

TEST_CASE("each rank of a pack holds the chunks that the plan gives it") {
  std::map<Sharding, int> kinds;
  for (unsigned seed = 1; seed <= seeds(120, 40); ++seed) {
    INFO("seed " << seed);
    const Plan plan = context_ranks_as_members(whole_plan(seed), 3);
    REQUIRE(violations(plan).empty());
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      const StageProgram program(plan, p, 0);
      for (const StageTask& task : program.tasks()) {
        const Task name{task.pass, task.pack};
        const ContextShards shards = pack_shards(plan, name);
        ++kinds[plan.of(task.pass).sharding[task.pack]];
        const auto expected = shards.ranks[task.member];
        CHECK(held(program, name) == std::vector<Slice>(expected.begin(), expected.end()));
        for (SampleId i = 0; i < task.slices.size(); ++i) {
          Tokens tokens = 0;
          for (const Slice& chunk : expected) tokens += chunk.sample == i ? chunk.size() : 0;
          CHECK(program.owners().owned_tokens(task.slices[i], task.member) == tokens);
        }
      }
    }
  }
  CHECK(kinds.size() == 5);
  for (const auto& [kind, packs] : kinds) CHECK(packs > 20);
}

TEST_CASE("ranks of a pipeline with context parallelism are one member") {
  int shared = 0;
  for (unsigned seed = 1; seed <= seeds(60, 20); ++seed) {
    INFO("seed " << seed);
    const Plan plan = whole_plan(seed);
    const PlannedOwners planned(plan, 3);
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      const StageProgram program(plan, p, 0, {.block = 3});
      for (const StageTask& task : program.tasks()) {
        shared += task.merged() && plan.pipelines[p].cp > 1 ? 1 : 0;
        for (const Slice& slice : task.slices) {
          for (Tokens t = slice.begin; t < slice.end; ++t) {
            const Tokens own = program.owners().owned_tokens({slice.sample, t, t + 1}, task.member);
            REQUIRE(own == (planned.of(slice.sample, t) == task.member ? 1 : 0));
          }
        }
      }
    }
  }
  CHECK(shared > 20);
}

TEST_CASE("a plan is refused if and only if a token is on different members in the two passes") {
  int accepted = 0, refused = 0;
  for (unsigned seed = 1; seed <= seeds(500, 300); ++seed) {
    INFO("seed " << seed);
    Plan plan = testing::sample_plan({.seed = seed,
                                      .samples = 1 + seed % 2,
                                      .pipelines = 1,
                                      .stages = 1,
                                      .max_tokens = 2 + static_cast<Tokens>(seed % 12),
                                      .cp = 2,
                                      .mixed = true,
                                      .block = 2});
    plan = context_ranks_as_members(std::move(plan), 2);
    REQUIRE(violations(plan).empty());
    std::string error;
    try {
      static_cast<void>(StageProgram(plan, 0, 0));
    } catch (const InvalidInput& e) {
      error = e.what();
    }
    if (error.find("expected a token for each") != std::string::npos) continue;  // the next test's
    const PlannedOwners forward(plan, 2), backward(plan, 2, Pass::backward);
    std::string expected;
    for (SampleId sample = 0; sample < plan.tokens.size() && expected.empty(); ++sample) {
      for (Tokens t = 0; t < plan.tokens[sample] && expected.empty(); ++t) {
        if (forward.of(sample, t) != backward.of(sample, t))
          expected = concat("token ", t, " of sample ", sample, " is on one member by the sharding of F");
      }
    }
    INFO(error);
    CHECK(error.substr(0, expected.size()) == expected);
    CHECK(error.empty() == expected.empty());
    ++(error.empty() ? accepted : refused);
  }
  CHECK(accepted > 10);
  CHECK(refused > 10);
}

TEST_CASE("whose sharding moves tokens between members is named") {
  // Cut alike, each piece is shared as in the other pass.
  Plan plan = two_samples({{0, 0, 5}, {0, 5, 8}, {1, 0, 8}}, {{1, 0, 8}, {0, 5, 8}, {0, 0, 5}});
  CHECK_NOTHROW(StageProgram(plan, 1, 0));
  plan.backward.sharding[1] = Sharding::by_position;
  CHECK_THROWS_WITH(StageProgram(plan, 0, 0, {.block = 64}),
                    "token 5 of sample 0 is on one member by the sharding of F1 ('per_document') and on "
                    "another by that of B1 "
                    "('by_position'); expected the same in both passes, as where both run the same packs of "
                    "whole samples, or "
                    "'by_position'");
  plan = two_samples({{0, 0, 8}, {1, 0, 8}}, {{1, 0, 8}, {0, 4, 8}, {0, 0, 4}});
  CHECK_THROWS_WITH(StageProgram(plan, 1, 0), Catch::StartsWith("token 1 of sample 0 is on one member") &&
                                                  Catch::Contains("F0 ('per_document')") &&
                                                  Catch::Contains("B2 ('per_document')"));
  plan = two_samples({{0, 0, 8}, {1, 0, 8}}, {{1, 0, 8}});
  CHECK_THROWS_WITH(StageProgram(plan, 1, 0),
                    "sample 0 has no backward pack for its token 0; expected each of its tokens in one");
}

TEST_CASE("a pack with fewer tokens than ranks is refused unless it is shared by position") {
  Plan plan = two_samples({{0, 0, 8}, {1, 0, 1}}, {{1, 0, 1}, {0, 0, 8}});
  plan.tokens = {8, 1};
  CHECK_THROWS_WITH(StageProgram(plan, 0, 0),
                    "F1, of 1 tokens, is shared 'per_document' by 2 ranks; expected a token for each, or "
                    "'by_position'");
  plan.forward.sharding[1] = plan.backward.sharding[0] = Sharding::by_position;
  CHECK_NOTHROW(StageProgram(plan, 0, 0));
  plan.forward.sharding[1] = plan.backward.sharding[0] = Sharding::none;
  CHECK_NOTHROW(StageProgram(plan, 0, 0));
}
