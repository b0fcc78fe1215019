#include "slimpack/planners/group_search.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "oracle.hpp"
#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

using namespace slimpack;

namespace {

/// A job of 1 to 4 pipelines, its prices with an attention model, and a group of all pipelines.
struct Setting {
  Job job;
  std::vector<Tokens> lengths;
  GroupPrices prices;
  Memory memory;
  SampleGroup group;

  /// @param room for the longest sample on one pipeline, as a multiple of what it takes without recomputation.
  explicit Setting(std::mt19937& random, double room)
      : job(oracle::random_job(random, std::uniform_int_distribution<std::int32_t>(1, 4)(random), 1e15)),
        lengths(random_lengths(random)),
        prices(Prices(CalibratedCost(job), assumed_attention(job), job.layout.cp)),
        memory(memory_with_room(room)) {
    std::sort(lengths.rbegin(), lengths.rend());
    const auto members = static_cast<std::size_t>(job.layout.dp);
    const std::size_t merged = members > 1 ? random() % (lengths.size() / 2) : 0;
    group.local.resize(members);
    for (SampleId id = 0; id < lengths.size(); ++id)
      (id < merged ? group.merged : group.local[id % members]).push_back(id);
  }

  /// The same job with as much memory as the setting has.
  [[nodiscard]] Job tight() const {
    Job own = job;
    const double share = TransformerMemory(job).capacity_bytes() / job.device.memory_bytes;
    own.device.memory_bytes = memory.capacity_bytes() / share;
    return own;
  }

  [[nodiscard]] Memory memory_with_room(double room) const {
    const TransformerMemory wide(job);
    const auto longest = static_cast<double>(*std::max_element(lengths.begin(), lengths.end()));
    double most = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(job.layout.pp); ++s) {
      const double tokens = longest * (wide.activation_bytes(s, 0) + wide.kv_gradient_bytes(s));
      most = std::max(most, wide.static_bytes(s) + room * tokens);
    }
    Job own = job;
    own.device.memory_bytes = most / (wide.capacity_bytes() / job.device.memory_bytes);
    return Memory(TransformerMemory(own), split_layers(own.model.layers, own.layout.pp), true);
  }

  static std::vector<Tokens> random_lengths(std::mt19937& random) {
    std::vector<Tokens> lengths(8 + random() % 40);
    const bool equal = random() % 4 == 0;
    const auto length = static_cast<Tokens>(1 + random() % 4000);
    for (Tokens& l : lengths) l = equal ? length : static_cast<Tokens>(1 + random() % 8000);
    if (random() % 4 == 0) lengths.front() = 200000;  // longer than all others together
    return lengths;
  }
};

constexpr BackwardPacks all_backward_packs[] = {BackwardPacks::own, BackwardPacks::mirrored,
                                                BackwardPacks::mirrored_apart,
                                                BackwardPacks::mirrored_rising};

const char* name(BackwardPacks backward) {
  switch (backward) {
    case BackwardPacks::own:
      return ", own boundaries";
    case BackwardPacks::mirrored:
      return ", the same boundaries";
    case BackwardPacks::mirrored_apart:
      return ", the same boundaries, cut samples apart";
    case BackwardPacks::mirrored_rising:
      return ", the same boundaries, cut samples apart and last";
  }
  return "";
}

/// Calls `check` with the scheduler of each of some random settings, its group loaded.
template <class Check>
void for_each_setting(unsigned seeds, double room, const Check& check) {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Setting s(random, room);
    GroupScheduler groups(s.lengths, s.prices, s.memory, {.enough_packs = SlimPackSearch{}.enough_packs});
    groups.load(s.group);
    check(groups);
  }
}

}  // namespace

TEST_CASE("no schedule of a group takes less than its work, or than the bound of its packs",
          "[group_search]") {
  for_each_setting(150, 1e3, [](GroupScheduler& groups) {
    CHECK(groups.work().promising(128) >= 1);
    CHECK(groups.work().promising(128) <= groups.work().pieces(128));
    for (const std::size_t packs : {1u, 3u, 8u, 30u}) {
      for (const BackwardPacks backward : all_backward_packs) {
        GroupPlan plan;
        groups.schedule({.packs = packs, .tile = 128, .backward = backward}, 1e300, plan);
        if (!plan.schedule.fits()) continue;  // there are too few tiles for so many packs
        INFO("packs " << packs << name(backward));
        CHECK(plan.schedule.seconds >= groups.work().seconds());
        CHECK(plan.schedule.seconds >= groups.least_seconds(packs));
        CHECK(plan.schedule.seconds >= plan.schedule.unlimited);
      }
    }
  });
}

TEST_CASE("a limit on seconds rejects no schedule that takes less", "[group_search]") {
  std::size_t ahead = 0;
  for (const double room : {0.6, 0.95, 1.2, 1e3}) {
    for_each_setting(60, room, [&](GroupScheduler& groups) {
      for (const std::size_t packs : {4u, 12u, 40u, 160u}) {
        for (const BackwardPacks backward : all_backward_packs) {
          const GroupCut cut{.packs = packs, .tile = 16, .backward = backward};
          GroupPlan any, limited;
          groups.schedule(cut, std::numeric_limits<double>::infinity(), any);
          if (!any.schedule.fits()) continue;
          ahead += any.schedule.seconds < any.schedule.unlimited ? 1 : 0;
          INFO("room " << room << ", packs " << packs << name(backward));
          groups.schedule(cut, any.schedule.seconds * (1.0 + 1e-9), limited);
          CHECK(limited.schedule.seconds == any.schedule.seconds);
          groups.schedule(cut, any.schedule.seconds, limited);
          CHECK(!limited.schedule.fits());
        }
      }
    });
  }
  INFO("schedules that are faster with a smaller lead");
  CHECK(ahead > 0);
}

TEST_CASE("no schedule that fits takes less than its work and what memory makes it recompute",
          "[group_search]") {
  std::size_t recomputed = 0, refused = 0;
  for (const double room : {0.2, 0.6, 0.95, 1.2}) {
    for_each_setting(40, room, [&](GroupScheduler& groups) {
      const double least = groups.work().limited_seconds();
      CHECK(least >= groups.work().seconds());
      recomputed += least > groups.work().seconds() ? 1 : 0;
      refused += least == std::numeric_limits<double>::infinity() ? 1 : 0;
      for (const std::size_t packs : {1u, 4u, 12u, 40u, 160u}) {
        for (const BackwardPacks backward : all_backward_packs) {
          GroupPlan plan;
          groups.schedule({.packs = packs, .tile = 16, .backward = backward}, 1e300, plan);
          INFO("room " << room << ", packs " << packs);
          if (plan.schedule.fits()) CHECK(plan.schedule.seconds >= least * (1.0 - 1e-9));
        }
      }
    });
  }
  INFO(recomputed << " settings recompute, " << refused << " are refused");
  CHECK(recomputed > 20);
  CHECK(refused < recomputed);
}

TEST_CASE("the search ends with a schedule no longer than those of the numbers of packs it begins with",
          "[group_search]") {
  for_each_setting(60, 1e3, [](GroupScheduler& groups) {
    GroupSearch search(groups);
    GroupPlan best;
    search.search(0.0, best);
    REQUIRE(best.schedule.fits());
    for (const std::size_t packs : {groups.work().promising(128), groups.work().samples()}) {
      GroupPlan plan;
      search.try_count(packs, plan);
      CHECK(best.schedule.seconds <= plan.schedule.seconds);
    }
  });
}

TEST_CASE("a search that any schedule satisfies finds one wherever the whole search does", "[group_search]") {
  for (const double room : {0.3, 0.8, 1e3}) {
    for_each_setting(30, room, [](GroupScheduler& groups) {
      GroupSearch search(groups);
      GroupPlan best, any;
      search.search(0.0, best);
      search.search(std::numeric_limits<double>::max(), any);
      CHECK(any.schedule.fits() == best.schedule.fits());
      CHECK(any.schedule.seconds >= best.schedule.seconds);
    });
  }
}

TEST_CASE("in little memory, more freedom makes no plan longer", "[slimpack][slow]") {
  std::size_t starved = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Setting s(random, 0.15 + 0.05 * static_cast<double>(random() % 6));
    const auto seconds = [&](const SlimPackOptions& options, double memory = 1.0) {
      Job job = s.tight();
      job.device.memory_bytes *= memory;
      try {
        return plan_slimpack(s.lengths, job, options).step.seconds;
      } catch (const InvalidInput&) {
        return std::numeric_limits<double>::infinity();
      }
    };
    const double free = seconds({.tile = 16});
    CHECK(seconds({.tile = 16}, 1.25) <= 1.01 * free);
    CHECK(seconds({.tile = 16}, 2.0) <= 1.01 * free);
    CHECK(free <= seconds({.tile = 32}));
    CHECK(free <= seconds({.tile = 128}));
    CHECK(free <= seconds({.tile = 16, .asymmetric = false}));
    CHECK(free <= seconds({.tile = 16, .merge = false}));
    starved += free > 1.5 * plan_slimpack(s.lengths, s.job, SlimPackOptions{.tile = 16}).step.seconds ? 1 : 0;
  }
  CHECK(starved > 2);
}

TEST_CASE("equal numbers of packs distribute samples for the number that is tried", "[slimpack]") {
  // One sample holds most tokens. Split into few packs, more pipelines share it.
  for (unsigned seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<Tokens> lengths(400);
    for (Tokens& l : lengths) l = static_cast<Tokens>(200 + random() % 4000);
    lengths[random() % lengths.size()] = 400000;
    const Job job{.model = transformer_preset("llama-7b"),
                  .device = device_preset("h200"),
                  .layout = {.dp = 32, .tp = 8, .pp = 2}};
    const double seconds = plan_slimpack(lengths, job).step.seconds;
    for (const std::size_t packs : {1u, 2u, 4u})
      CHECK(seconds <= 1.1 * plan_slimpack(lengths, job, SlimPackOptions{.packs = packs}).step.seconds);
  }
}
