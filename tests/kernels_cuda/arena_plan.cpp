#include "kernels/cuda/arena_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/arena_plan_walk.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;

namespace {

/// Who has which unit, as tasks come and go: by the plan's rules alone.
class Owners {
 public:
  explicit Owners(const ArenaPlan& plan) : owner_(plan.units()) {}

  void take(const std::string& who, std::size_t begin, std::size_t count) {
    for (std::size_t i = begin; i < begin + count; ++i) {
      REQUIRE(i < owner_.size());
      if (!owner_[i].empty()) FAIL("unit " << i << " is of " << owner_[i] << " and of " << who);
      owner_[i] = who;
    }
    most_ = std::max(most_, used_ += count);
  }
  void give_back(const std::string& who) {
    for (std::string& owner : owner_) {
      if (owner != who) continue;
      owner.clear();
      --used_;
    }
  }
  [[nodiscard]] std::size_t most() const { return most_; }

 private:
  std::vector<std::string> owner_;
  std::size_t used_ = 0, most_ = 0;
};

/// Takes what a task begins to keep.
void begin(const ArenaPlan& arena, const Plan& plan, const StageTask& task, Owners& owners) {
  for (const Slice& slice : task.slices) {
    const std::size_t tokens = arena.rows_below(slice.sample, plan.tokens[slice.sample]);
    const auto& rows = arena.rows(slice.sample);
    const std::size_t first = arena.rows_below(slice.sample, slice.begin),
                      last = arena.rows_below(slice.sample, slice.end);
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::string token = concat(slice.sample, "/", t);
      if (task.pass == Pass::forward && first <= t && t < last) owners.take("key " + token, rows.keys + t, 1);
      if (task.pass == Pass::backward && slice.end == plan.tokens[slice.sample])
        owners.take("gradient " + token, 2 * arena.gradient_row(slice.sample, t), 2);
    }
  }
  if (task.pass != Pass::forward) return;
  arena.fragments().for_each(task, [&](const auto& fragment, std::size_t) {
    for (const UnitRun& run : fragment.memory)
      owners.take(concat("fragment ", fragment.tokens.sample, "/", fragment.tokens.begin), run.begin,
                  run.count);
  });
}

/// Gives back what nobody needs after a task.
void end(const ArenaPlan& arena, const StageTask& task, Owners& owners) {
  if (task.pass == Pass::backward) {
    arena.fragments().for_each(task, [&](const auto& fragment, std::size_t) {
      owners.give_back(concat("fragment ", fragment.tokens.sample, "/", fragment.tokens.begin));
    });
  }
  for (const Release& release : task.releases) {
    if (!release.holds(Store::keys_values)) continue;
    const std::size_t last = arena.rows_below(release.sample, release.end);
    for (std::size_t t = arena.rows_below(release.sample, release.begin); t < last; ++t) {
      owners.give_back(concat("key ", release.sample, "/", t));
      owners.give_back(concat("gradient ", release.sample, "/", t));
    }
  }
}

}  // namespace

TEST_CASE(
    "nothing that a step stores lies where something else does, in an arena of little more than its most") {
  double sum = 0.0;
  int arenas = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);  // in a ring, where samples are merged
    const bool split = seed % 3 == 0;
    const Plan plan = slimpack::testing::sample_plan({.seed = seed,
                                                      .samples = 1 + seed % 12,
                                                      .merged = seed % 4,
                                                      .pipelines = 1 + seed % 2,
                                                      .stages = 1 + seed % 3,
                                                      .max_tokens = 60,
                                                      .split_weights = split});
    const Transformer model{"small", plan.model.layers, 64, 1, 1, 64, 64, 50};
    for (std::size_t s = 0; s < plan.pipelines[0].stages(); ++s) {
      const StagePart part = stage_part(model, plan, 0, s);
      const StageProgram program(plan, 0, s, {.block = 1 + static_cast<Tokens>(seed % 7)});
      ArenaPlan arena(part, {});
      arena.begin_step(program);
      Owners owners(arena);
      std::size_t tokens = 0;
      for (const StageTask& task : program.tasks()) {
        const auto task_tokens = static_cast<std::size_t>(task.owned_tokens);
        const std::size_t workspace =
            stage_workspace_bytes(part, StageOptions{}.head_chunk_tokens, task.pass, task_tokens,
                                  merged_task(task, {}, program.owners())) /
            sizeof(Bf16);
        owners.take("workspace", 0, (workspace + unit_numbers(part) - 1) / unit_numbers(part));
        begin(arena, plan, task, owners);
        if (split && task.pass == Pass::backward) {
          const std::size_t numbers = pending_width(part) * static_cast<std::size_t>(task.owned_tokens);
          owners.take(concat("factors ", task.pack), arena.pending(task.pack),
                      (numbers + unit_numbers(part) - 1) / unit_numbers(part));
        }
        end(arena, task, owners);
        owners.give_back("workspace");
        if (task.pass == Pass::weight) owners.give_back(concat("factors ", task.pack));
        tokens = std::max(tokens, static_cast<std::size_t>(task.owned_tokens));
      }
      CHECK(arena.most_tokens() == tokens);
      CHECK(arena.used_units() == owners.most());
      CHECK(arena.units() >= arena.used_units());
      const double over = static_cast<double>(arena.units()) / static_cast<double>(arena.used_units());
      CHECK(over < 1.5);
      sum += over;
      ++arenas;
    }
  }
  CHECK(sum / arenas < 1.12);  // samples are as large as all that is in flight
}

TEST_CASE("a pack that the plan runs in a ring is told of its rounds, whatever the options say") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Plan plan = slimpack::testing::sample_plan({.seed = seed, .samples = 3, .merged = 1 + seed % 3});
    for (PassPlan* pass : {&plan.forward, &plan.backward}) {
      pass->exchange.clear();
      for (std::size_t k = 0; k < pass->packs.size(); ++k)
        pass->exchange.push_back(pass->pipelines[k].size() > 1 ? KeyExchange::ring : KeyExchange::none);
    }
    const Transformer model{"small", plan.model.layers, 64, 1, 1, 64, 64, 50};
    const StagePart part = stage_part(model, plan, 0, 0);
    const StageProgram program(plan, 0, 0);
    ArenaPlan by_ring(part, {.merged = MergedAttention::ring}),
        by_heads(part, {.merged = MergedAttention::heads});
    by_ring.begin_step(program);
    by_heads.begin_step(program);
    CHECK(by_heads.data_bytes() == by_ring.data_bytes());
    CHECK(by_heads.step_data_bytes() == by_ring.step_data_bytes());
  }
}
