// What packs recompute at least, by which a scheduler rejects schedules without choosing: held against the exact least of the same
// windows, and against what is chosen.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "slimpack/schedule/checkpoint_windows.hpp"
#include "slimpack/schedule/checkpointing.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "tests/milp/exhaustive.hpp"
#include "tests/schedule/checkpoint_instance.hpp"

using namespace slimpack;
using oracle::CheckpointInstance;

namespace {

std::vector<double> bounds_of(const CheckpointInstance& in, const Memory& memory) {
  MemoryFit fit(in.rows.lengths, memory);
  fit.load(in.schedule);
  std::vector<double> needed;
  least_recomputed(in.schedule.leads, memory, fit, needed);
  return needed;
}

/// Tokens of a backward pack that a pipeline holds.
double pack_tokens(const Schedule& schedule, std::size_t k, std::size_t p) {
  const auto members = schedule.backward.members[k];
  const auto place = std::find(members.begin(), members.end(), p);
  double tokens = 0.0;
  for (const Slice& slice : schedule.backward.packs[k])
    tokens += place == members.end() ? 0.0
                                     : oracle::held_tokens(slice, members.size(),
                                                           static_cast<std::size_t>(place - members.begin()),
                                                           schedule.backward_times.sharing);
  return tokens;
}

/// The same of each backward row.
std::vector<double> row_tokens(const Schedule& schedule, std::size_t p) {
  std::vector<double> tokens(schedule.backward.rows.size(), 0.0);
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    for (const PackId pack : schedule.backward.rows[r]) tokens[r] += pack_tokens(schedule, pack, p);
  }
  return tokens;
}

/// The program of one stage of one pipeline, each backward row of which recomputes what it likes: fewest tokens times layers.
MilpModel stage_program(const CheckpointWindows& windows, std::span<const double> tokens, std::int32_t most) {
  MilpModel model;
  std::vector<Term> terms;
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    model.add_variable({}, 0.0, most, VariableKind::integer);
    terms.push_back({static_cast<VariableId>(k), tokens[k]});
  }
  model.set_objective(Direction::minimise, terms);
  for (std::size_t k = 0; k < windows.needed.size(); ++k) {
    if (windows.needed[k] <= 0.0) continue;
    terms.clear();
    for (const HeldTokens& held : windows.held[k])
      terms.push_back({static_cast<VariableId>(held.backward_row), held.tokens});
    model.add_row({}, windows.needed[k], no_bound, terms);
  }
  return model;
}

/// Calls `check(memory, stage, layers of each backward row, least tokens times layers by the bound)` of instances where something is
/// chosen.
template <class Check>
void for_each_choice(const CheckpointInstance& in, const Memory& memory, const Check& check) {
  const std::vector<CheckpointWindows> windows = in.windows(memory);
  const auto quick = quick_checkpoints(in.rows.backward, windows, memory);
  if (!quick) return;
  const std::vector<double> bound = bounds_of(in, memory);
  REQUIRE(bound.size() == windows.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::size_t p = i / in.rows.stages, s = i % in.rows.stages;
    const std::vector<double> tokens = row_tokens(in.schedule, p);
    double chosen = 0.0;
    for (std::size_t k = 0; k < in.rows.backward.packs.size(); ++k)
      chosen += (*quick)(k, s) * pack_tokens(in.schedule, k, p);
    check(windows[i], tokens, memory.recompute_limit(s), bound[i], chosen);
  }
}

}  // namespace

TEST_CASE("what a stage recomputes at least is at most the exact least, which is at most what is chosen") {
  std::size_t compared = 0, positive = 0;
  double bounds = 0.0, least = 0.0;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const CheckpointInstance in(random, seed % 2 == 0, seed % 6);
    if (in.rows.backward.rows.size() > 6) continue;
    const auto check = [&](const CheckpointWindows& windows, std::span<const double> tokens,
                           std::int32_t most, double bound, double chosen) {
      const auto exact = test::best_objective(stage_program(windows, tokens, most));
      REQUIRE(exact.has_value());
      CHECK(bound <= *exact * (1.0 + 1e-9) + 1e-9);
      CHECK(*exact <= chosen * (1.0 + 1e-9) + 1e-9);
      CHECK((bound > 0.0) == (*exact > 0.0));
      ++compared;
      positive += bound > 0.0 ? 1 : 0;
      bounds += bound;
      least += *exact;
    };
    for_each_choice(in, in.memory(), check);
  }
  CHECK(compared > 500);
  CHECK(positive > 100);
  CHECK(bounds > 0.5 * least);  // it says something
}

TEST_CASE("a scheduler that rejects by what packs recompute at least loses nothing") {
  std::size_t compared = 0, shorter = 0;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const CheckpointInstance in(random, seed % 2 == 0);
    const oracle::UnevenCost cost = oracle::random_cost(random, in.rows.stages);
    GroupPrices prices{Prices(cost)};
    const Memory memory = in.memory();
    const auto quick = quick_checkpoints(in.rows.backward, in.windows(memory), memory);
    if (!quick || !quick->any()) continue;
    Scheduler scheduler(in.rows.lengths, prices, memory);
    const ScheduleOptions alike{.fit = FitPolicy::recompute};
    Schedule chosen = in.schedule, stages = in.schedule, each = in.schedule;
    scheduler(chosen, *quick, alike);
    scheduler(stages, alike);
    scheduler(each, {.fit = FitPolicy::recompute, .each_pack = true});
    REQUIRE(chosen.fits());
    CHECK(each.seconds <= std::min(chosen.seconds, stages.seconds) * (1.0 + 1e-12));
    ++compared;
    shorter += each.seconds < stages.seconds ? 1 : 0;
  }
  CHECK(compared > 100);
  CHECK(shorter > 30);
}
