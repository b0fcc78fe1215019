#include "slimpack/schedule/checkpointing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/schedule/scheduler.hpp"
#include "tests/milp/exhaustive.hpp"
#include "tests/schedule/checkpoint_instance.hpp"

using namespace slimpack;
using oracle::CheckpointInstance;

namespace {

/// Recomputes everything: a solution of each program that has one.
MilpResult solve_at_upper(const MilpModel& model, const MilpOptions&) {
  MilpResult result;
  result.values.assign(model.upper().begin(), model.upper().end());
  result.objective =
      std::inner_product(result.values.begin(), result.values.end(), model.objective().begin(), 0.0);
  result.bound = 0.0;
  return result;
}

}  // namespace

TEST_CASE("packs that meet all windows of checkpointing fit into memory") {
  std::size_t met = 0;
  for (unsigned seed = 1; seed <= 600; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const CheckpointInstance in(random);
    const Memory memory = in.memory();
    const std::vector<CheckpointWindows> windows = in.windows(memory);
    std::vector<std::int32_t> of_row(in.rows.backward.rows.size() * in.rows.stages);
    std::vector<std::int32_t> layers(in.rows.backward.packs.size() * in.rows.stages);
    for (std::size_t k = 0; k < in.rows.backward.rows.size(); ++k) {
      for (std::size_t s = 0; s < in.rows.stages; ++s) {
        const std::int32_t own = std::uniform_int_distribution<std::int32_t>(0, in.model.layers[s])(random);
        of_row[k * in.rows.stages + s] = own;
        for (const PackId pack : in.rows.backward.rows[k]) layers[pack * in.rows.stages + s] = own;
      }
    }
    bool all = true;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      for (std::size_t k = 0; k < windows[i].needed.size(); ++k) {
        double sum = 0.0;
        for (const HeldTokens& held : windows[i].held[k])
          sum += held.tokens * of_row[held.backward_row * in.rows.stages + i % in.rows.stages];
        all = all && sum >= windows[i].needed[k];
      }
    }
    if (!all) continue;
    ++met;
    CHECK(in.fits(Recompute(in.rows.stages, layers)));
  }
  CHECK(met > 50);
}

TEST_CASE("the windows of 1F1B are those of the paper") {
  // One sample in 3 chunks, then 9 of one chunk: 3 chunks are run ahead.
  const std::size_t stages = 4, prefill = 3;
  std::vector<Tokens> lengths{30};
  Packs forward, backward;
  for (Tokens c = 0; c < 3; ++c) {
    forward.repeat_row(1, std::vector<Slice>{{0, 10 * c, 10 * c + 10}});
    backward.repeat_row(1, std::vector<Slice>{{0, 20 - 10 * c, 30 - 10 * c}});
  }
  for (SampleId id = 1; id < 10; ++id) {
    lengths.push_back(10);
    forward.repeat_row(1, std::vector<Slice>{{id, 0, 10}});
    backward.repeat_row(1, std::vector<Slice>{{id, 0, 10}});
  }
  Schedule packs;
  packs.pipelines = 1;
  packs.forward = in_rows(forward);
  packs.backward = in_rows(backward);
  std::vector<std::uint32_t> ended, required;
  required_rows(lengths, packs.forward, packs.backward, ended, required);
  LeadTable leads;
  steady_leads(required, packs.forward.rows.size(), stages, leads);
  oracle::UnevenMemory model{.capacity = 20.0, .layers = std::vector<std::int32_t>(stages, 2)};
  const Memory memory(model, model.layers, true);
  MemoryFit fit(lengths, memory);
  fit.load(packs);
  std::vector<CheckpointWindows> windows;
  checkpoint_windows(leads, memory, fit, windows);
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t k = 0; k < 12; ++k) {
      INFO("stage " << s << " row " << k);
      // Eq. 7, until all have run forward: the last window then sees to those that follow.
      const bool follows = k > 0 && leads(k, s) == leads(k - 1, s);
      CHECK(windows[s].held[k].size() == (follows ? 0 : std::min(stages - 1 - s + prefill, 12 - k)));
      CHECK(follows == (k + stages - 1 - s + prefill > 12));
      for (const HeldTokens& held : windows[s].held[k]) CHECK(held.tokens == 10.0);
    }
  }
}

TEST_CASE("chosen checkpoints fit, and cost the least that diagonals can") {
  std::size_t chosen = 0;
  for (unsigned seed = 1; seed <= 600; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const CheckpointInstance in(random, true);
    const Memory memory = in.memory();
    const CheckpointDiagonals diagonals{in.rows.backward.rows.size(), in.rows.stages};
    if (diagonals.count() > 8) continue;
    const std::vector<CheckpointWindows> windows = in.windows(memory);
    const std::vector<double> cost(diagonals.count(), 1.0);
    const auto best = choose_checkpoints(in.rows.backward, windows, memory, cost, test::solve_exhaustively);
    const auto any = choose_checkpoints(in.rows.backward, windows, memory, cost, solve_at_upper);
    REQUIRE(best.has_value() == any.has_value());
    if (!best) {
      const bool windows_are_empty = std::all_of(windows.begin(), windows.end(), [](const auto& own) {
        return *std::max_element(own.needed.begin(), own.needed.end()) <= 0.0;
      });
      CHECK_FALSE(windows_are_empty);
      continue;
    }
    ++chosen;
    CHECK(in.fits(best->recompute));
    CHECK(in.fits(any->recompute));
    CHECK(best->cost <= any->cost);
    for (std::size_t k = 0; k < in.rows.backward.packs.size(); ++k) {
      for (std::size_t s = 0; s < in.rows.stages; ++s)
        CHECK(best->recompute(k, s) <= memory.recompute_limit(s));
    }
  }
  CHECK(chosen > 60);
}

TEST_CASE("stripping leaves nothing that a window does not need") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const CheckpointInstance in(random);
    const Memory memory = in.memory();
    const std::vector<CheckpointWindows> windows = in.windows(memory);
    const auto meets = [&](std::size_t s, std::span<const std::int32_t> layers) {
      for (std::size_t i = s; i < windows.size(); i += in.rows.stages) {
        for (std::size_t k = 0; k < windows[i].needed.size(); ++k) {
          double sum = 0.0;
          for (const HeldTokens& held : windows[i].held[k]) sum += held.tokens * layers[held.backward_row];
          if (windows[i].needed[k] > 0.0 && sum < windows[i].needed[k] - 1e-9) return false;
        }
      }
      return true;
    };
    for (std::size_t s = 0; s < in.rows.stages; ++s) {
      std::vector<std::int32_t> layers(in.rows.backward.rows.size(), in.model.layers[s]);
      if (!meets(s, layers)) continue;
      std::vector<const CheckpointWindows*> of_stage;
      for (std::size_t i = s; i < windows.size(); i += in.rows.stages) of_stage.push_back(&windows[i]);
      strip_recompute(of_stage, layers);
      CHECK(meets(s, layers));
      for (std::int32_t& own : layers) {
        if (own == 0) continue;
        --own;
        CHECK_FALSE(meets(s, layers));
        ++own;
      }
    }
  }
}

TEST_CASE("what is chosen without a solver fits wherever something does, and costs little more") {
  double quick_layers = 0.0, best_layers = 0.0;
  for (unsigned seed = 1; seed <= 600; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const CheckpointInstance in(random, true);
    const Memory memory = in.memory();
    const CheckpointDiagonals diagonals{in.rows.backward.rows.size(), in.rows.stages};
    if (diagonals.count() > 8) continue;
    const std::vector<CheckpointWindows> windows = in.windows(memory);
    const std::vector<double> cost(diagonals.count(), 1.0);
    const auto best = choose_checkpoints(in.rows.backward, windows, memory, cost, test::solve_exhaustively);
    const auto quick = quick_checkpoints(in.rows.backward, windows, memory);
    REQUIRE(quick.has_value() == best.has_value());
    if (!quick) continue;
    CHECK(in.fits(*quick));
    for (std::size_t k = 0; k < in.rows.backward.packs.size(); ++k) {
      for (std::size_t s = 0; s < in.rows.stages; ++s) {
        quick_layers += (*quick)(k, s);
        best_layers += best->recompute(k, s);
      }
    }
  }
  CHECK(best_layers > 100.0);
  CHECK(quick_layers <= 1.2 * best_layers);
}

TEST_CASE("checkpointing each pack never makes a schedule longer") {
  std::size_t shorter = 0, rescued = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    CheckpointInstance in(random);
    const oracle::UnevenCost cost = oracle::random_cost(random, in.rows.stages);
    GroupPrices prices{Prices(cost)};
    const Memory memory = in.memory();
    Scheduler scheduler(in.rows.lengths, prices, memory);
    const ScheduleOptions options{.fit = seed % 2 == 0 ? FitPolicy::fastest : FitPolicy::recompute};
    Schedule out = in.schedule;
    scheduler(out, options);
    const Schedule before = out;
    (void)scheduler.checkpoint_each_pack(out, options, solve_at_upper);
    CHECK(out.seconds <= before.seconds);
    if (!out.fits()) continue;
    shorter += out.seconds < before.seconds && before.fits() ? 1 : 0;
    rescued += before.fits() ? 0 : 1;
    for (std::size_t p = 0; p < out.pipelines; ++p) {
      for (std::size_t s = 0; s < out.stages(); ++s)
        CHECK(oracle::peak_bytes(out, in.rows.lengths, p, s, in.model) <= in.model.capacity * (1 + 1e-12));
    }
    // Timing it again with the same recomputation gives the same.
    Schedule again = out;
    scheduler(again, out.recompute, {.fit = FitPolicy::fastest});
    CHECK(again.seconds >= out.seconds * (1.0 - 1e-12));
  }
  CHECK(shorter > 20);
  CAPTURE(rescued);
}

TEST_CASE("packs recompute alike where stages hold more rows than may be chosen for, and fit as often") {
  std::size_t unlike = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const CheckpointInstance in(random);
    const oracle::UnevenCost cost = oracle::random_cost(random, in.rows.stages);
    GroupPrices prices{Prices(cost)};
    const Memory memory = in.memory();
    Scheduler scheduler(in.rows.lengths, prices, memory);
    const std::size_t held = held_rows(in.schedule.leads);
    const auto schedule_with = [&](std::size_t most_held_rows) {
      Schedule out = in.schedule;
      scheduler(out, {.each_pack = true, .most_held_rows = most_held_rows});
      return out;
    };
    const Schedule each = schedule_with(held), alike = schedule_with(held - 1);
    CHECK_FALSE(alike.recompute.per_pack());
    CHECK(each.fits() == alike.fits());
    CHECK(each.seconds <= alike.seconds);
    unlike += each.fits() && each.recompute.per_pack() ? 1 : 0;
  }
  CHECK(unlike > 10);
}
