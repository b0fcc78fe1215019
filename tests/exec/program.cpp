#include "slimpack/exec/program.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/exec/context_members.hpp"
#include "slimpack/plan/shards.hpp"
#include "tests/effort.hpp"
#include "tests/exec/plans.hpp"
#include "tests/plan/equal_plan.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using slimpack::testing::for_each_plan;

namespace {

template <class F>
void for_each_program(const Plan& plan, const StageProgramOptions& options, F&& f) {
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
      f(StageProgram(plan, static_cast<PipelineId>(p), s, options));
    }
  }
}

/// For each token of the batch, something.
template <class T>
std::vector<std::vector<T>> by_token(const Plan& plan, T value) {
  std::vector<std::vector<T>> result;
  for (const Tokens length : plan.tokens) result.emplace_back(static_cast<std::size_t>(length), value);
  return result;
}

/// Where each of the stage's tokens is used last, by looking at every task: the place in the order.
struct LastUses {
  std::vector<std::vector<int>> activations, attention;
  std::vector<int> sample;

  explicit LastUses(const StageProgram& program)
      : activations(by_token(program.plan(), -1)),
        attention(by_token(program.plan(), -1)),
        sample(program.plan().tokens.size(), -1) {
    int place = 0;
    for (const StageTask& task : program.tasks()) {
      for (const Slice& slice : task.slices) {
        sample[slice.sample] = place;
        for (Tokens t = 0; t < slice.end; ++t) {
          const auto i = static_cast<std::size_t>(t);
          // A token's own tasks read all that is stored of it; those of later tokens its keys and values.
          if (t >= slice.begin) activations[slice.sample][i] = place;
          if (task.pass != Pass::weight) attention[slice.sample][i] = place;
        }
      }
      ++place;
    }
  }
};

}  // namespace

TEST_CASE("tasks carry the plan's packs, members and recomputation") {
  for_each_plan(30, [](const Plan& plan) {
    for_each_program(plan, {}, [&](const StageProgram& program) {
      const auto& order = plan.pipelines[program.pipeline()].order[program.stage()];
      REQUIRE(program.tasks().size() == order.size());
      REQUIRE(program.layers() == plan.pipelines[program.pipeline()].layers[program.stage()]);
      for (std::size_t i = 0; i < order.size(); ++i) {
        const StageTask& task = program.tasks()[i];
        REQUIRE(Task{task.pass, task.pack} == order[i]);
        REQUIRE(to_string(task) == to_string(order[i]));
        REQUIRE(task.tokens == count_tokens(plan.of(order[i].pass).packs[order[i].pack]));
        REQUIRE(task.members[task.member] == program.pipeline());
        const std::int32_t recompute_layers =
            order[i].pass == Pass::forward ? 0
                                           : plan.backward.recompute_layers[order[i].pack][program.stage()];
        REQUIRE(task.recompute_layers == recompute_layers);
      }
    });
  });
}

TEST_CASE("a forward token knows how many layers its backward pack recomputes") {
  int differing = 0;
  for_each_plan(30, [&](const Plan& plan) {
    for_each_program(plan, {}, [&](const StageProgram& program) {
      auto layers = by_token(plan, -1);
      for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
        if (program.stage() >= plan.backward.recompute_layers[k].size()) continue;  // of a shorter pipeline
        for (const Slice& slice : plan.backward.packs[k]) {
          for (Tokens t = slice.begin; t < slice.end; ++t) {
            layers[slice.sample][static_cast<std::size_t>(t)] =
                plan.backward.recompute_layers[k][program.stage()];
          }
        }
      }
      for (const StageTask& task : program.tasks()) {
        if (task.pass != Pass::forward) {
          REQUIRE(task.recompute.empty());
          continue;
        }
        auto range = task.recompute.begin();
        for (const Slice& slice : task.slices) {
          differing += slice.end > range->end ? 1 : 0;
          for (Tokens t = slice.begin; t < slice.end; ++t) {
            if (t == range->end) ++range;
            REQUIRE(range->sample == slice.sample);
            REQUIRE((range->begin <= t && t < range->end));
            REQUIRE(range->layers == layers[slice.sample][static_cast<std::size_t>(t)]);
          }
          REQUIRE(range->end == slice.end);
          ++range;
        }
        REQUIRE(range == task.recompute.end());
      }
    });
  });
  CHECK(differing > 10);
}

TEST_CASE("every token is released once, after its last use, with its sample's last use marked") {
  int weights = 0;
  for_each_plan(30, [&](const Plan& plan) {
    for_each_program(plan, {}, [&](const StageProgram& program) {
      const LastUses uses(program);
      const Store stores[] = {Store::activations, Store::keys_values, Store::statistics, Store::kv_gradients};
      std::vector<std::vector<Stores>> freed = by_token(plan, Stores{0});
      int place = 0;
      for (const StageTask& task : program.tasks()) {
        for (const Release& release : task.releases) {
          REQUIRE(release.last == (uses.sample[release.sample] == place && &release == [&] {
                    const Release* last = nullptr;
                    for (const Release& r : task.releases) {
                      if (r.sample == release.sample) last = &r;
                    }
                    return last;
                  }()));
          for (Tokens t = release.begin; t < release.end; ++t) {
            const auto i = static_cast<std::size_t>(t);
            Stores& seen = freed[release.sample][i];
            REQUIRE((seen & release.stores) == 0);
            seen = static_cast<Stores>(seen | release.stores);
            for (const Store store : stores) {
              if (!release.holds(store)) continue;
              const bool attention = store == Store::keys_values || store == Store::statistics;
              REQUIRE((attention ? uses.attention : uses.activations)[release.sample][i] == place);
            }
          }
        }
        ++place;
      }
      weights += program.has_weight_tasks() ? 1 : 0;
      for (std::size_t sample = 0; sample < freed.size(); ++sample) {
        for (const Stores seen : freed[sample]) REQUIRE(seen == (uses.sample[sample] >= 0 ? all_stores : 0));
      }
    });
  });
  CHECK(weights > 10);
}

TEST_CASE("members of a merged pack hold each of its tokens once, the same in both passes") {
  int merged = 0;
  for (const Tokens block : {1, 8}) {
    for_each_plan(15, [&](const Plan& plan) {
      std::size_t deepest = 0;
      for (const PipelinePlan& pipeline : plan.pipelines) deepest = std::max(deepest, pipeline.stages());
      for (std::size_t stage = 0; stage < deepest; ++stage) {
        auto owners = by_token(plan, -1);
        auto held = by_token(plan, std::pair<int, int>{0, 0});
        for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
          // Of shorter pipelines, the last stage once more.
          const std::size_t s = std::min(stage, plan.pipelines[p].stages() - 1);
          const StageProgram program(plan, p, s, {.block = block});
          for (const StageTask& task : program.tasks()) {
            merged += task.merged() ? 1 : 0;
            REQUIRE(count_tokens(task.owned) == task.owned_tokens);
            if (task.pass == Pass::weight) continue;
            for (const Slice& range : task.owned) {
              for (Tokens t = range.begin; t < range.end; ++t) {
                const auto i = static_cast<std::size_t>(t);
                auto& [forward, backward] = held[range.sample][i];
                ++(task.pass == Pass::forward ? forward : backward);
                int& owner = owners[range.sample][i];
                REQUIRE((owner < 0 || owner == static_cast<int>(p)));
                owner = static_cast<int>(p);
              }
            }
          }
        }
        for (std::size_t i = 0; i < held.size(); ++i) {
          const bool deferred = std::find(plan.deferred.begin(), plan.deferred.end(),
                                          static_cast<SampleId>(i)) != plan.deferred.end();
          for (const auto& [forward, backward] : held[i]) {
            REQUIRE(forward == (deferred ? 0 : 1));
            REQUIRE(backward == (deferred ? 0 : 1));
          }
        }
      }
    });
  }
  CHECK(merged > 50);
}

TEST_CASE("a member's rows are those of its rank's chunks of the pack, whatever the sharding") {
  int kinds[5] = {};
  for (unsigned seed = 1; seed <= testing::seeds(60, 20); ++seed) {
    INFO("seed " << seed);
    const Plan plan =
        context_ranks_as_members(testing::sample_plan({.seed = seed,
                                                       .merged = seed % 3,
                                                       .pipelines = 1 + seed % 2,
                                                       .stages = 1 + seed % 2,
                                                       .cp = 1 + static_cast<std::int32_t>(seed % 4),
                                                       .whole = true,
                                                       .split_weights = seed % 5 == 0}),
                                 7);
    for_each_program(plan, {}, [&](const StageProgram& program) {
      for (const StageTask& task : program.tasks()) {
        const ContextShards shards = pack_shards(plan, {task.pass, task.pack});
        std::vector<Slice> expected(shards.ranks[task.member].begin(), shards.ranks[task.member].end());
        for (Slice& chunk : expected) chunk.sample = task.slices[chunk.sample].sample;
        REQUIRE(std::vector<Slice>(task.owned.begin(), task.owned.end()) == expected);
        REQUIRE(task.owned_tokens == count_tokens(expected));
        ++kinds[static_cast<std::size_t>(plan.of(task.pass).sharding[task.pack])];
      }
    });
  }
  for (const int tasks : kinds) CHECK(tasks > 20);
}

TEST_CASE("a program keeps its tasks when it is moved") {
  const Plan plan = testing::plan_by_hand(2);
  StageProgram program(plan, 0, 0, {.block = 2});
  const std::vector<Slice> owned(program.tasks()[0].owned.begin(), program.tasks()[0].owned.end());
  const StageProgram moved = std::move(program);
  REQUIRE_FALSE(owned.empty());
  CHECK(std::equal(owned.begin(), owned.end(), moved.tasks()[0].owned.begin(), moved.tasks()[0].owned.end()));
}

TEST_CASE("ranks and stages name each other") {
  Plan plan;
  for (const std::size_t stages : {3u, 1u, 2u}) {
    plan.pipelines.push_back(
        {.id = static_cast<PipelineId>(plan.pipelines.size()), .layers = {}, .order = {}});
    plan.pipelines.back().layers.resize(stages);
  }
  const PlanRanks ranks(plan);
  REQUIRE(ranks.size() == 6);
  CHECK(rank_count(plan) == 6);
  for (std::size_t rank = 0; rank < 6; ++rank) CHECK(ranks.rank_of(ranks.place_of(rank)) == rank);
  CHECK(ranks.place_of(2) == RankPlace{2, 0});
  CHECK(ranks.place_of(3) == RankPlace{0, 1});
  CHECK(ranks.place_of(4) == RankPlace{2, 1});
  CHECK(ranks.place_of(5) == RankPlace{0, 2});
  CHECK(ranks.place_in_run(5, 6) == RankPlace{0, 2});
  CHECK_THROWS_WITH(ranks.place_in_run(5, 7),
                    Catch::Equals("there are 7 ranks; expected the 6 that the plan is for"));
  CHECK_THROWS_WITH(ranks.place_in_run(6, 6), Catch::Equals("the rank is 6; expected below 6"));
  CHECK(message_tag(Pass::forward, 3) != message_tag(Pass::backward, 3));
  CHECK(message_tag(Pass::backward, 3) != message_tag(Pass::forward, 4));
}

TEST_CASE("ranks are numbered as the plan's devices are") {
  for (const unsigned seed : {1u, 2u, 3u}) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Plan plan = testing::sample_plan({.seed = seed, .pipelines = 3, .stages = 4});
    plan.pipelines[1].tp = 3;
    std::size_t ranks = 0;
    for (const PipelinePlan& pipeline : plan.pipelines)
      ranks += pipeline.stages() * static_cast<std::size_t>(pipeline.tp);
    std::vector<DeviceId> ids(ranks);  // not without gaps
    std::iota(ids.begin(), ids.end(), DeviceId{5});
    std::for_each(ids.begin(), ids.end(), [](DeviceId& id) { id *= 2; });
    std::shuffle(ids.begin(), ids.end(), random);
    std::map<DeviceId, RankPlace> places;
    for (PipelinePlan& pipeline : plan.pipelines) {
      pipeline.cp = 1;
      pipeline.devices.assign(pipeline.stages(), {});
      for (std::size_t s = 0; s < pipeline.stages(); ++s) {
        for (std::size_t t = 0; t < static_cast<std::size_t>(pipeline.tp); ++t, ids.pop_back()) {
          pipeline.devices[s].push_back(ids.back());
          places[ids.back()] = {pipeline.id, s, t};
        }
      }
    }
    const PlanRanks table(plan);
    REQUIRE(table.size() == ranks);
    std::size_t rank = 0;
    for (const auto& [id, place] : places) {
      CHECK(table.place_of(rank) == place);
      CHECK(table.rank_of(place) == rank++);
    }
    const DeviceId taken = plan.pipelines[0].devices[1][0];
    plan.pipelines[2].devices[3][0] = taken;
    CHECK_THROWS_WITH(
        PlanRanks(plan),
        Catch::Equals(concat("device ", taken, " runs two stages of the plan; expected distinct devices")));
    plan.pipelines[2].devices[3].clear();
    CHECK_THROWS_WITH(PlanRanks(plan),
                      Catch::StartsWith("stage 3 of pipeline 2 names fewer devices than its tp"));
    plan.pipelines[2].devices.clear();  // then places number the ranks
    CHECK(PlanRanks(plan).place_of(0) == RankPlace{0, 0, 0});
  }
}

TEST_CASE("plans that can't be executed are refused") {
  const Plan good = testing::plan_by_hand(5);
  const std::size_t stages = good.pipelines[0].stages();
  CHECK_THROWS_WITH(StageProgram(good, 9, 0), Catch::Contains("pipeline is 9; expected below the plan's"));
  CHECK_THROWS_WITH(StageProgram(good, 0, stages), Catch::Contains("expected below the"));
  CHECK_THROWS_WITH(StageProgram(good, 0, 0, {.block = 0}), Catch::Contains("block is 0"));
  CHECK_THROWS_WITH(rank_count(Plan{}), "the plan has no pipelines; expected at least one");

  Plan uneven = good;
  uneven.pipelines[1].layers.push_back(1);
  CHECK(rank_count(uneven) == rank_count(good) + 1);
  uneven.pipelines[1].layers.clear();
  CHECK_THROWS_WITH(rank_count(uneven), "pipeline 1 has no stages; expected at least one");
  Plan renamed = good;
  renamed.pipelines[1].id = 7;
  CHECK_THROWS_WITH(rank_count(renamed), "pipelines[1] has id 7; expected its place");
  Plan foreign = good;
  foreign.pipelines[0].order[0].push_back(foreign.pipelines[1].order[0].front());
  CHECK_THROWS_WITH(StageProgram(foreign, 0, 0), Catch::Contains("expected packs of this pipeline only"));
  Plan beyond = good;
  beyond.pipelines[0].order[0].push_back({Pass::forward, 999});
  CHECK_THROWS_WITH(StageProgram(beyond, 0, 0), Catch::Contains("runs F999; expected packs below"));
  Plan no_layers = good;
  no_layers.backward.recompute_layers = {};
  CHECK_THROWS_WITH(StageProgram(no_layers, 0, 0), Catch::Contains("has no recompute_layers for stage 0"));
}

TEST_CASE("a sample whose passes are on different pipelines is refused") {
  Plan plan = testing::plan_by_hand(5);
  REQUIRE(plan.pipelines.size() == 3);
  const PackId moved = plan.backward.packs.size() > 0 ? plan.pipelines[0].order[0].back().pack : 0;
  plan.backward.pipelines[moved][0] = 1;
  CHECK_THROWS_WITH(StageProgram(plan, 0, 0), Catch::Contains("expected"));
  // The pack's stage order goes with it, so that only the sample's place is wrong.
  for (auto& order : plan.pipelines[0].order) {
    std::erase_if(order, [&](Task t) { return t.pass != Pass::forward && t.pack == moved; });
  }
  CHECK_THROWS_WITH(StageProgram(plan, 0, 0), Catch::Contains("expected all on the same pipelines"));
}

TEST_CASE("a token without a backward pack is refused") {
  Plan plan = testing::equal_plan(1, 1, 1.0, 1.0, 10);
  Packs shorter;
  shorter.add({0, 4, 10});
  shorter.close();
  plan.backward.packs = shorter;
  CHECK_THROWS_WITH(StageProgram(plan, 0, 0),
                    "sample 0 has no backward pack for its token 0; expected each of its tokens in one");
}
