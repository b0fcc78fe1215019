#include "slimpack/schedule/makespan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/plan/naive_run.hpp"
#include "tests/planners/oracle.hpp"
#include "tests/planners/rules.hpp"
#include "tests/schedule/random_rows.hpp"

using namespace slimpack;

namespace {

/// Samples of 8 tokens, each a pack of its own in both passes.
PackRows single_packs(std::size_t count) {
  Packs packs;
  for (SampleId id = 0; id < count; ++id) {
    packs.add({id, 0, 8});
    packs.close();
  }
  return in_rows(std::move(packs));
}

PassTimes equal_times(std::size_t packs, std::size_t stages, double seconds, double transfer) {
  return {std::vector<double>(packs * stages, seconds), std::vector<double>(packs * (stages - 1), transfer)};
}

LeadTable packflow(const std::vector<std::uint32_t>& required, std::size_t forward_rows, std::size_t stages) {
  LeadTable leads;
  packflow_leads(required, forward_rows, stages, leads);
  return leads;
}

/// Seconds of equal packs in 1F1B order.
double one_f_one_b(std::size_t packs, std::size_t stages, double forward, double backward, double transfer) {
  const PackRows rows = single_packs(packs);
  std::vector<std::uint32_t> required(packs);
  std::iota(required.begin(), required.end(), 1u);
  return Makespan()(rows, equal_times(packs, stages, forward, transfer), rows,
                    equal_times(packs, stages, backward, transfer), packflow(required, packs, stages), 1);
}

/// A plan of one schedule on equal pipelines.
Plan plan_of(const oracle::RandomRows& rows, Schedule schedule) {
  const auto stages = static_cast<std::int32_t>(rows.stages);
  const Transformer model{"tiny", 2 * stages, 64, 4, 2, 16, 160, 500};
  std::vector<PipelineSpec> specs(rows.pipelines,
                                  {.layers = std::vector<std::int32_t>(rows.stages, 2), .devices = {}});
  std::vector<PlacedSchedule> placed;
  placed.push_back(placed_from(0, std::move(schedule)));
  return assemble_plan("test", rows.lengths, model, device_preset("h100"), strategy_of(std::move(specs)),
                       std::move(placed), 0.5);
}

}  // namespace

TEST_CASE("equal packs in 1F1B take the closed form's time") {
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    for (std::size_t packs = stages; packs <= 12; ++packs) {
      const double steady = static_cast<double>(packs + stages - 1) * (2.0 + 3.0);
      CHECK(one_f_one_b(packs, stages, 2.0, 3.0, 0.0) == Approx(steady).epsilon(1e-14));
    }
  }
}

TEST_CASE("a single pack passes all stages and all transfers twice") {
  CHECK(one_f_one_b(1, 4, 2.0, 3.0, 0.5) == Approx(4 * 5.0 + 6 * 0.5).epsilon(1e-14));
}

TEST_CASE("shared packs start when the slowest member is there") {
  // Two pipelines of one stage share pack 0; the second has a pack of its own that takes 3 and 4 seconds.
  Packs packs;
  packs.add({0, 0, 8});
  packs.close();
  packs.add({1, 0, 8});
  packs.close();
  Ragged<std::uint32_t> members;
  members.add(0);
  members.add(1);
  members.close();
  members.add_row(1, 1);
  const PackRows rows = in_rows(packs, members, 2);
  const PassTimes forward{{1.0, 3.0}, {}}, backward{{2.0, 4.0}, {}};
  CHECK(Makespan()(rows, forward, rows, backward, packflow({1, 2}, 2, 1), 2) == Approx(10.0).epsilon(1e-14));
  // If the member runs its own forward pack ahead of the shared backward pack, the other waits for it.
  LeadTable ahead = packflow({1, 2}, 2, 1);
  ahead(0, 0) = 2;
  const PassTimes short_backward{{2.0, 0.5}, {}};
  CHECK(Makespan()(rows, forward, rows, short_backward, ahead, 2) == Approx(6.5).epsilon(1e-14));
}

TEST_CASE(
    "schedules of overlapping groups take the time of running their tasks one by one, and keep the rules") {
  int overlapping = 0;
  for (unsigned seed = 1; seed <= 600; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const oracle::RandomRows rows(random);
    const oracle::UnevenCost cost = oracle::random_cost(random, rows.stages);
    GroupPrices prices{Prices(cost)};
    const std::vector<std::int32_t> layers(rows.stages, 2);
    const Memory memory(oracle::UnevenMemory{.layers = layers}, layers, true);
    Scheduler scheduler(rows.lengths, prices, memory);
    for (const PassOrder order : {PassOrder::packflow, PassOrder::eager, PassOrder::gpipe}) {
      INFO((order == PassOrder::gpipe ? "GPipe" : "PackFlow"));
      Schedule schedule = rows.schedule();
      scheduler(schedule, {.order = order});
      REQUIRE(schedule.fits());
      CHECK_FALSE(schedule.memory_bound);
      const double seconds = schedule.seconds;
      const Plan plan = plan_of(rows, scheduler.with_peaks(schedule));
      const auto found = violations(plan);
      INFO((found.empty() ? "" : found.front()));
      CHECK(found.empty());
      CHECK(oracle::broken_rule(plan).empty());
      CHECK(plan.step.pipeline_seconds == seconds);
      CHECK(slimpack::testing::naive_seconds(plan) == Approx(seconds).epsilon(1e-12));
      CHECK(time_plan(plan).seconds == Approx(seconds).epsilon(1e-12));
      // Durations are those of the model, for as many pipelines as run the pack.
      for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
        const auto own =
            cost.with_context_parallel(static_cast<std::int32_t>(plan.backward.pipelines[k].size()));
        for (std::size_t s = 0; s < rows.stages; ++s) {
          double expected = own.pack_seconds(s, Pass::backward);
          for (const Slice& slice : plan.backward.packs[k])
            expected += own.slice_seconds(s, slice.begin, slice.end, Pass::backward);
          CHECK(plan.backward.seconds[k][s] == Approx(expected));
        }
      }
    }
    overlapping += rows.teams.size() > 1 && rows.pipelines > 1 ? 1 : 0;
  }
  CHECK(overlapping > 200);
}
