// Schedules of packs that leave layers in the host's memory: what they hold, and how long they take.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/milp/covering.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "tests/plan/naive_run.hpp"
#include "tests/planners/oracle.hpp"

using namespace slimpack;

namespace {

/// Samples in chunks of which one or two pipelines run all together; each backward pack recomputes and offloads numbers of
/// layers of its own.
struct OffloadCase {
  Job job;
  std::vector<Tokens> lengths;
  Packs forward, backward;
  std::vector<std::int32_t> recompute, offload;  // [backward pack * stages + stage]

  explicit OffloadCase(unsigned seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution(lo, hi)(random); };
    job = oracle::random_job(random, pick(1, 2), 1e12);
    job.layout.tp = 1;
    job.device.host.bandwidth = 1e8;  // so that dense compute does not hide the way
    const auto samples = static_cast<std::size_t>(pick(2, 9));
    lengths = oracle::random_lengths(random, samples, pick(0, 3), 500);
    cut(random, Pass::forward, forward);
    cut(random, Pass::backward, backward);
    const auto layers = split_layers(job.model.layers, job.layout.pp);
    for (std::size_t k = 0; k < backward.size(); ++k) {
      for (const std::int32_t held : layers) {
        recompute.push_back(pick(0, held));
        offload.push_back(pick(0, 2) == 0 ? 0 : pick(0, held));
      }
    }
  }

  [[nodiscard]] std::size_t stages() const { return static_cast<std::size_t>(job.layout.pp); }

  [[nodiscard]] Schedule schedule(Scheduler& scheduler, const Recompute& how,
                                  const ScheduleOptions& options = {}) const {
    Schedule out;
    out.pipelines = static_cast<std::size_t>(job.layout.dp);
    out.forward = in_rows(forward, out.pipelines);
    out.backward = in_rows(backward, out.pipelines);
    scheduler(out, how, options);
    return out;
  }

 private:
  void cut(std::mt19937& random, Pass pass, Packs& packs) {
    for (SampleId id = 0; id < lengths.size(); ++id) {
      std::vector<Slice> slices;
      for (Tokens at = 0; at < lengths[id];) {
        const Tokens end = std::min(lengths[id], at + std::uniform_int_distribution<Tokens>(40, 200)(random));
        slices.push_back({id, at, end});
        at = end;
      }
      if (pass == Pass::backward) std::reverse(slices.begin(), slices.end());
      for (const Slice& slice : slices) packs.add_row(1, slice);
    }
  }
};

struct Parts {
  GroupPrices prices;
  Memory memory;

  Parts(const Job& job, const MemoryOptions& options)
      : prices{Prices{CalibratedCost(job)}},
        memory(TransformerMemory(job, options), split_layers(job.model.layers, job.layout.pp), true) {}
};

Plan plan_of(const OffloadCase& c, Scheduler& scheduler, Schedule schedule) {
  std::vector<PlacedSchedule> placed;
  placed.push_back(placed_from(0, scheduler.with_peaks(std::move(schedule))));
  return assemble_plan("offload", c.lengths, c.job.model, c.job.device, layout_strategy(c.job),
                       std::move(placed), 0.0);
}

}  // namespace

TEST_CASE("plans of offloaded layers hold and take what their schedules say") {
  const MemoryOptions options{.reserve_bytes = 0.0};
  int merged = 0, moved = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const OffloadCase c(seed);
    Parts parts(c.job, options);
    Scheduler scheduler(c.lengths, parts.prices, parts.memory);
    constexpr PassOrder orders[] = {PassOrder::packflow, PassOrder::steady, PassOrder::gpipe};
    const Schedule schedule =
        c.schedule(scheduler, Recompute(c.stages(), c.recompute, c.offload), {.order = orders[seed % 3]});
    REQUIRE(schedule.fits());
    const Plan plan = plan_of(c, scheduler, schedule);
    const auto found = violations(plan);
    INFO((found.empty() ? "" : found.front()));
    REQUIRE(found.empty());
    CHECK(violations(read_json(to_json(plan))).empty());
    CHECK(time_plan(plan).seconds == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
      for (std::size_t s = 0; s < c.stages(); ++s)
        CHECK(plan.backward.offload_of(k, s) == c.offload[k * c.stages() + s]);
    }
    const TransformerMemory memory(c.job, options);
    const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < c.stages(); ++s) {
        CHECK(plan.step.peak_bytes[p][s] == Approx(curves.peak_bytes[p][s]).epsilon(1e-9));
        moved += curves.host_peak_bytes[p][s] > 0.0 ? 1 : 0;
      }
    }
    merged += plan.pipelines.size() > 1 ? 1 : 0;
  }
  CHECK(merged > 10);
  CHECK(moved > 60);
}

TEST_CASE("each offloaded layer takes its time in both passes, token by token") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const OffloadCase c(seed);
    Parts parts(c.job, {.reserve_bytes = 0.0});
    Scheduler scheduler(c.lengths, parts.prices, parts.memory);
    const Schedule kept = c.schedule(scheduler, Recompute(c.stages(), c.recompute));
    const Schedule schedule = c.schedule(scheduler, Recompute(c.stages(), c.recompute, c.offload));
    const Prices& prices = parts.prices.shared_by(schedule.pipelines);
    std::vector<double> forward = kept.forward_times.seconds, backward = kept.backward_times.seconds;
    for (std::size_t k = 0; k < c.backward.size(); ++k) {
      const Slice& back = c.backward[k][0];
      for (std::size_t s = 0; s < c.stages(); ++s) {
        const double layers = c.offload[k * c.stages() + s];
        backward[k * c.stages() + s] += layers * prices.offload_seconds(s, back.size(), Pass::backward);
        for (std::size_t f = 0; f < c.forward.size(); ++f) {
          const Slice& from = c.forward[f][0];
          const Tokens common = std::min(back.end, from.end) - std::max(back.begin, from.begin);
          if (from.sample == back.sample && common > 0)
            forward[f * c.stages() + s] += layers * prices.offload_seconds(s, common, Pass::forward);
        }
      }
    }
    for (std::size_t i = 0; i < forward.size(); ++i)
      CHECK(schedule.forward_times.seconds[i] == Approx(forward[i]).epsilon(1e-9));
    for (std::size_t i = 0; i < backward.size(); ++i)
      CHECK(schedule.backward_times.seconds[i] == Approx(backward[i]).epsilon(1e-9));
    CHECK(schedule.seconds >= kept.seconds);
    // Without it, the same scheduler gives the same times as before.
    Schedule again = schedule;
    scheduler(again, Recompute(c.stages(), c.recompute));
    CHECK(again.forward_times.seconds == kept.forward_times.seconds);
    CHECK(again.backward_times.seconds == kept.backward_times.seconds);
    CHECK(again.seconds == kept.seconds);
  }
}

TEST_CASE("what does not fit on the device fits once its layers wait in the host's memory") {
  int gained = 0;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    OffloadCase c(seed);
    const MemoryOptions options{.reserve_bytes = 0.0};
    const std::vector<std::int32_t> none(c.recompute.size(), 0);
    std::vector<std::int32_t> all;
    const auto layers = split_layers(c.job.model.layers, c.job.layout.pp);
    for (std::size_t k = 0; k < c.backward.size(); ++k) all.insert(all.end(), layers.begin(), layers.end());
    const auto most = [&](const std::vector<std::int32_t>& offload) {
      Parts parts(c.job, options);
      Scheduler scheduler(c.lengths, parts.prices, parts.memory);
      double bytes = 0.0;
      for (const auto& stages : scheduler.peak_bytes(
               c.schedule(scheduler, Recompute(c.stages(), none, offload), {.fit = FitPolicy::recompute})))
        bytes = std::max(bytes, *std::max_element(stages.begin(), stages.end()));
      return bytes;
    };
    const double kept = most(none), moved = most(all);
    if (moved > 0.98 * kept) continue;  // few tokens at a time: layers on their way take as much
    ++gained;
    c.job.device.memory_bytes = 0.5 * (kept + moved);
    Parts parts(c.job, options);
    Scheduler scheduler(c.lengths, parts.prices, parts.memory);
    const ScheduleOptions full{.fit = FitPolicy::recompute};
    CHECK_FALSE(c.schedule(scheduler, Recompute(c.stages(), none, none), full).fits());
    CHECK(c.schedule(scheduler, Recompute(c.stages(), none, all), full).fits());
  }
  CHECK(gained > 5);
}

namespace {

struct NoHost {
  [[nodiscard]] std::size_t stages() const { return 1; }
  [[nodiscard]] double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    return double(end - begin);
  }
  [[nodiscard]] double pack_seconds(std::size_t, Pass) const { return 1.0; }
  [[nodiscard]] double transfer_seconds(std::size_t, Tokens, Pass) const { return 0.0; }
};

}  // namespace

TEST_CASE("a cost model that knows of no host is named, and so are lists of unlike sizes") {
  OffloadCase c(1);
  c.job.layout = {};
  GroupPrices prices{Prices{NoHost{}}};
  const Memory memory(TransformerMemory(c.job, {.reserve_bytes = 0.0}), std::vector{c.job.model.layers},
                      true);
  Scheduler scheduler(c.lengths, prices, memory);
  const std::vector<std::int32_t> none(c.backward.size(), 0), one(c.backward.size(), 1);
  CHECK(c.schedule(scheduler, Recompute(1, none, none)).fits());
  CHECK_THROWS_WITH(c.schedule(scheduler, Recompute(1, none, one)),
                    Catch::Contains("expected offload_seconds"));
  CHECK_THROWS_WITH(Recompute(1, none, {1}), Catch::Contains("1 numbers of offloaded layers; expected the "));
}

TEST_CASE("a host's link that is fast enough costs nothing") {
  OffloadCase c(2);
  const auto seconds = [&](double bandwidth, double share, Pass pass) {
    c.job.device.host.bandwidth = bandwidth;
    return CalibratedCost(c.job, {.offload = share}).offload_seconds(0, 1000, pass);
  };
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    CHECK(seconds(1e15, 0.0, pass) == 0.0);
    CHECK(seconds(1e6, 0.0, pass) > seconds(2e6, 0.0, pass));
    CHECK(seconds(2e6, 0.0, pass) > seconds(2e6, 0.5, pass));
    CHECK(seconds(1e6, 1.0, pass) == Approx(0.0).margin(1e-12));
  }
}

namespace {

/// Rows of a case, not scheduled yet.
Schedule rows_of(const OffloadCase& c) {
  Schedule out;
  out.pipelines = static_cast<std::size_t>(c.job.layout.dp);
  out.forward = in_rows(c.forward, out.pipelines);
  out.backward = in_rows(c.backward, out.pipelines);
  return out;
}

/// The most bytes that any stage holds if all layers are kept, and if all are recomputed.
std::pair<double, double> peaks_of(const OffloadCase& c, const MemoryOptions& options) {
  Parts parts(c.job, options);
  Scheduler scheduler(c.lengths, parts.prices, parts.memory);
  const auto most = [&](const Recompute& how) {
    double bytes = 0.0;
    for (const auto& stages : scheduler.peak_bytes(c.schedule(scheduler, how)))
      bytes = std::max(bytes, *std::max_element(stages.begin(), stages.end()));
    return bytes;
  };
  return {most(Recompute(std::vector<std::int32_t>(c.stages(), 0))),
          most(Recompute(split_layers(c.job.model.layers, c.job.layout.pp)))};
}

}  // namespace

TEST_CASE("a third choice never makes a schedule longer, and a fast host's link makes it shorter") {
  const MemoryOptions memory_options{.reserve_bytes = 0.0};
  int moved = 0, shorter = 0, only = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    OffloadCase c(seed);
    c.job.device.host.bandwidth = seed % 3 == 0 ? 1e8 : seed % 3 == 1 ? 1e10 : 1e13;
    const auto [kept, least] = peaks_of(c, memory_options);
    c.job.device.memory_bytes = least + 0.1 * static_cast<double>(seed % 10) * (kept - least);
    Parts parts(c.job, memory_options);
    Scheduler scheduler(c.lengths, parts.prices, parts.memory);
    constexpr PassOrder orders[] = {PassOrder::packflow, PassOrder::steady, PassOrder::gpipe};
    ScheduleOptions options{.order = orders[seed % 3],
                            .fit = seed % 2 == 0 ? FitPolicy::fastest : FitPolicy::recompute,
                            .each_pack = seed % 5 < 3};
    Schedule two = rows_of(c), three = rows_of(c);
    scheduler(two, options);
    options.offload = true;
    scheduler(three, options);
    const CoveringSolver solver{};
    if (seed % 4 == 0) {
      options.offload = false;
      (void)scheduler.checkpoint_each_pack(two, options, solver);
      options.offload = true;
      (void)scheduler.checkpoint_each_pack(three, options, solver);
    }
    CHECK(three.seconds <= two.seconds * (1.0 + 1e-12));
    if (!three.fits()) continue;
    only += two.fits() ? 0 : 1;
    moved += three.recompute.offloads() ? 1 : 0;
    shorter += three.seconds < 0.999 * two.seconds ? 1 : 0;
    for (const auto& stages : scheduler.peak_bytes(three)) {
      for (const double bytes : stages) CHECK(bytes <= c.job.device.memory_bytes * (1.0 + 1e-12));
    }
    const Plan plan = plan_of(c, scheduler, three);
    const auto found = violations(plan);
    INFO((found.empty() ? "" : found.front()));
    CHECK(found.empty());
    CHECK(time_plan(plan).seconds == Approx(three.seconds).epsilon(1e-9));
  }
  INFO("moved " << moved << " shorter " << shorter << " only " << only);
  CHECK(moved > 15);
  CHECK(shorter > 10);
}

TEST_CASE(
    "with a host's link that costs nothing, a stage recomputes only where layers on their way do not fit") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    OffloadCase c(seed);
    Parts parts(c.job, {.reserve_bytes = 0.0});
    const Recompute needed(c.stages(), c.recompute);
    std::vector<double> recompute_seconds, offload_seconds;
    for (std::size_t i = 0; i < c.recompute.size(); ++i) {
      recompute_seconds.push_back(std::uniform_real_distribution(0.0, 1.0)(random));
      offload_seconds.push_back(std::uniform_real_distribution(0.0, 1.0)(random));
    }
    const auto choose = [&](auto&& fits) {
      return choose_offload(c.backward.size(), parts.memory, needed, recompute_seconds, offload_seconds,
                            fits);
    };
    const Recompute none = choose([](std::size_t, const Recompute&) { return false; });
    const Recompute free = choose([](std::size_t, const Recompute&) { return true; });
    CHECK_FALSE(none.offloads());
    for (std::size_t k = 0; k < c.backward.size(); ++k) {
      for (std::size_t s = 0; s < c.stages(); ++s) {
        const std::size_t i = k * c.stages() + s;
        const std::int32_t offload = free.offload(k, s);
        CHECK(none(k, s) == needed(k, s));
        // Either all or none of a pack's recomputed layers are exchanged, for as few as free as much.
        if (offload == 0) {
          CHECK(free(k, s) == needed(k, s));
          const std::int32_t instead = offload_in_place_of(parts.memory, s, needed(k, s));
          CHECK((needed(k, s) == 0 || needed(k, s) * recompute_seconds[i] <= instead * offload_seconds[i] ||
                 instead == 0));
          continue;
        }
        CHECK(free(k, s) == 0);
        const double held = parts.memory.activation_bytes(s, needed(k, s));
        CHECK(parts.memory.activation_bytes(s, 0, offload) <= held);
        CHECK(parts.memory.activation_bytes(s, 0, offload - 1) > held);
        CHECK(offload * offload_seconds[i] < needed(k, s) * recompute_seconds[i]);
      }
    }
  }
}
