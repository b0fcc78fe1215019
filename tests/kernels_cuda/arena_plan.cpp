#include "kernels/cuda/arena_plan.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/arena_plan_walk.hpp"
#include "tests/kernels/random.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;
using slimpack::testing::pick;

TEST_CASE("a space of units deals out each once, pieces from below and pages from above") {
  UnitSpace space(10);
  CHECK(space.take_run(3) == 0U);
  CHECK(space.take_run(2, 4) == 4U);
  std::vector<UnitRun> pages;
  REQUIRE(space.take_pages(3, pages));
  CHECK((pages == std::vector<UnitRun>{{7, 3}}));
  CHECK_FALSE(space.take_run(2).has_value());
  CHECK(space.take_run(1) == 3U);
  CHECK(space.used() == 9);
  CHECK_THROWS_AS(space.give_back(6, 1), InvalidInput);
  CHECK_THROWS_AS(space.give_back(5, 2), InvalidInput);
  space.give_back(1, 2);
  pages.clear();
  CHECK_FALSE(space.take_pages(4, pages));
  CHECK((pages == std::vector<UnitRun>{{6, 1}, {1, 2}}));
  CHECK(space.most() == 10);
  CHECK(space.run_end() == 6);
  CHECK(UnitSpace(0).take_run(0) == 0U);
  CHECK_FALSE(UnitSpace(0).take_run(1).has_value());
}

TEST_CASE("a space of units agrees with a plain list of them") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t units = pick(random, 1, 60);
    UnitSpace space(units);
    std::vector<bool> taken(units);
    std::vector<UnitRun> runs;
    const auto fits = [&](std::size_t begin, std::size_t count) {
      for (std::size_t i = begin; i < begin + count; ++i) {
        if (i >= units || taken[i]) return false;
      }
      return true;
    };
    for (int action = 0; action < 80; ++action) {
      const std::size_t count = pick(random, 1, 8), multiple = pick(random, 1, 3);
      if (action % 3 == 0) {
        std::size_t lowest = 0;
        while (lowest < units && !fits(lowest, count)) lowest += multiple;
        const auto begin = space.take_run(count, multiple);
        REQUIRE(begin.has_value() == (lowest < units));
        if (!begin) continue;
        REQUIRE(*begin == lowest);
        runs.push_back({*begin, count});
      } else if (action % 3 == 1) {
        std::vector<UnitRun> pages;
        const bool enough = space.used() + count <= units;
        REQUIRE(space.take_pages(count, pages) == enough);
        runs.insert(runs.end(), pages.begin(), pages.end());
      } else if (!runs.empty()) {
        std::swap(runs[pick(random, 0, runs.size() - 1)], runs.back());
        space.give_back(runs.back().begin, runs.back().count);
        runs.pop_back();
      }
      taken.assign(units, false);
      std::size_t used = 0;
      for (const UnitRun& run : runs) {
        REQUIRE(fits(run.begin, run.count));
        for (std::size_t i = run.begin; i < run.begin + run.count; ++i) taken[i] = true;
        used += run.count;
      }
      REQUIRE(space.used() == used);
    }
  }
}

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
  }
  void give_back(const std::string& who) {
    for (std::string& owner : owner_) {
      if (owner == who) owner.clear();
    }
  }

 private:
  std::vector<std::string> owner_;
};

/// Takes what a task begins to keep.
void begin(const ArenaPlan& arena, const Plan& plan, const StageTask& task, Owners& owners) {
  for (const Slice& slice : task.slices) {
    const std::size_t tokens = arena.rows_below(slice.sample, plan.tokens[slice.sample]);
    const auto& rows = arena.rows(slice.sample);
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::string token = concat(slice.sample, "/", t);
      if (task.pass == Pass::forward && slice.begin == 0) owners.take("key " + token, rows.keys + t, 1);
      if (task.pass == Pass::backward && slice.end == plan.tokens[slice.sample])
        owners.take("gradient " + token, 2 * (rows.gradients + t), 2);
    }
  }
  if (task.pass != Pass::forward) return;
  arena.fragments().for_each(task, [&](const auto& fragment, std::size_t) {
    for (const UnitRun& run : fragment.memory)
      owners.take(concat("fragment ", fragment.tokens.sample, "/", fragment.tokens.begin), run.begin,
                  run.count);
  });
}

/// Gives back what nobody needs behind a task.
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
        begin(arena, plan, task, owners);
        if (split && task.pass == Pass::backward) {
          const std::size_t numbers = pending_width(part) * static_cast<std::size_t>(task.owned_tokens);
          owners.take(concat("factors ", task.pack), arena.pending(task.pack),
                      (numbers + unit_numbers(part) - 1) / unit_numbers(part));
        }
        end(arena, task, owners);
        if (task.pass == Pass::weight) owners.give_back(concat("factors ", task.pack));
        tokens = std::max(tokens, static_cast<std::size_t>(task.owned_tokens));
      }
      CHECK(arena.most_tokens() == tokens);
      CHECK(arena.units() >= arena.used_units());
      const double over = static_cast<double>(arena.units()) / static_cast<double>(arena.used_units());
      CHECK(over < 1.5);
      sum += over;
      ++arenas;
    }
  }
  CHECK(sum / arenas < 1.08);
}
