#include "slimpack/schedule/block_choice.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <vector>

#include "random_priced_rows.hpp"

using namespace slimpack;

namespace {

constexpr Tokens usual = 128;

/// Seconds of a schedule with packs priced from scratch in chunks of `block` tokens.
double seconds_in_blocks(const oracle::RandomPricedRows& c, const Schedule& schedule, Tokens block) {
  GroupPrices prices{Prices(c.cost(), c.kernel, c.job.layout.cp, block)};
  PackPricer pricer(prices);
  PassTimes forward, backward;
  pricer(c.rows.lengths, schedule.forward, schedule.backward, forward, backward);
  std::vector<double> layer;
  pricer.price_recompute(schedule.backward, backward.sharing, layer);
  const std::size_t stages = schedule.stages();
  for (std::size_t i = 0; i < layer.size(); ++i)
    backward.seconds[i] += schedule.recompute(i / stages, i % stages) * layer[i];
  return Makespan()(schedule.forward, forward, schedule.backward, backward, schedule.leads,
                    schedule.pipelines);
}

}  // namespace

TEST_CASE("of all sizes of chunks, the one is taken that makes the slowest schedule fastest",
          "[block_choice]") {
  std::map<Tokens, int> chosen;
  int recomputed = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const oracle::RandomPricedRows c = oracle::random_priced_rows(seed);
    GroupPrices prices{Prices(c.cost(), c.kernel, c.job.layout.cp, usual)};
    const std::vector<std::int32_t> layers(c.rows.stages, 2);
    Tokens tokens = 0;
    for (const Tokens length : c.rows.lengths) tokens += length;
    const double capacity = seed % 3 == 0 ? 5.0 * static_cast<double>(tokens) : 1e9;
    const Memory memory(oracle::UnevenMemory{.capacity = capacity, .layers = layers}, layers, true);
    Scheduler scheduler(c.rows.lengths, prices, memory);
    // Two schedules that run at the same time, on other pipelines.
    std::vector<Schedule> both(2, c.rows.schedule());
    scheduler(both[0]);
    scheduler(both[1], ScheduleOptions{.order = PassOrder::gpipe});
    if (!both[0].fits() || !both[1].fits()) continue;
    const double before = std::max(both[0].seconds, both[1].seconds);
    const std::vector<Schedule> given = both;
    Schedule* const schedules[] = {&both[0], &both[1]};
    choose_block(schedules, scheduler);
    double least = std::numeric_limits<double>::infinity();
    for (const Tokens block : position_blocks) {
      double slowest = 0.0;
      for (const Schedule& each : given) slowest = std::max(slowest, seconds_in_blocks(c, each, block));
      least = std::min(least, slowest);
    }
    const double after = std::max(both[0].seconds, both[1].seconds);
    CHECK(after <= before);
    CHECK(after == Approx(least).epsilon(1e-9));
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(both[i].leads == given[i].leads);
      CHECK(both[i].recompute == given[i].recompute);
      recomputed += both[i].recompute.any() ? 1 : 0;
    }
    if (!shares_by_position(both[0])) {
      CHECK(both[0].forward_times.seconds == given[0].forward_times.seconds);
      continue;
    }
    const Tokens block = both[0].forward_times.sharing.block;
    for (const Schedule& each : both) {
      CHECK(each.forward_times.sharing.block == block);
      CHECK(each.backward_times.sharing.block == block);
      CHECK(each.seconds == Approx(seconds_in_blocks(c, each, block)).epsilon(1e-9));
    }
    ++chosen[block];
  }
  CHECK(chosen.size() == position_blocks.size());
  CHECK(recomputed > 5);
}
