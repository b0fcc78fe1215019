#include "slimpack/dag/memory_profile.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

using Event = MemoryEvent<int, std::int64_t>;
using Step = MemoryStep<int, std::int64_t>;

}  // namespace

TEST_CASE("events at one moment take effect in the order given") {
  const std::vector<std::int64_t> initial = {100, 10};
  const std::vector<Event> free_first = {{0, 5, 0}, {3, -5, 0}, {3, 7, 0}, {4, 1, 1}};
  const auto profiles = memory_profiles<int, std::int64_t>(initial, free_first);
  REQUIRE(profiles.size() == 2);
  CHECK(profiles[0].steps == std::vector<Step>{{0, 100}, {0, 105}, {3, 100}, {3, 107}});
  CHECK(profiles[0].peak == 107);
  CHECK(profiles[0].peak_time == 3);
  CHECK(profiles[1].steps == std::vector<Step>{{0, 10}, {4, 11}});
  const std::vector<Event> take_first = {{0, 5, 0}, {3, 7, 0}, {3, -5, 0}};
  CHECK(memory_profiles<int, std::int64_t>(initial, take_first)[0].peak == 112);
}

TEST_CASE("what a resource holds is the sum of all events so far, however they are ordered") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const std::vector<std::int64_t> initial = {3, 0, 50};
    std::vector<Event> events;
    for (int i = 0; i < 40; ++i) {
      // Distinct times: the order in which events are listed must not matter.
      events.push_back(
          {i, static_cast<std::int64_t>(random() % 21) - 10, static_cast<std::uint32_t>(random() % 3)});
    }
    const std::vector<Event> sorted = events;
    std::shuffle(events.begin(), events.end(), random);
    const auto profiles = memory_profiles<int, std::int64_t>(initial, events);
    for (std::uint32_t r = 0; r < 3; ++r) {
      std::int64_t held = initial[r], peak = held;
      std::vector<Step> steps = {{0, held}};
      for (const Event& event : sorted) {
        if (event.resource != r) continue;
        held += event.delta;
        steps.push_back({event.time, held});
        peak = std::max(peak, held);
      }
      CHECK(profiles[r].steps == steps);
      CHECK(profiles[r].peak == peak);
    }
  }
}

TEST_CASE("without events a resource holds what it had") {
  const std::vector<std::int64_t> initial = {4};
  const auto profiles = memory_profiles<int, std::int64_t>(initial, {});
  REQUIRE(profiles.size() == 1);
  CHECK(profiles[0].steps == std::vector<Step>{{0, 4}});
  CHECK(profiles[0].peak == 4);
  CHECK(memory_profiles<int, std::int64_t>({}, {}).empty());
}

TEST_CASE("an event of an unknown resource is named") {
  const std::vector<std::int64_t> initial = {4};
  const std::vector<Event> events = {{0, 1, 0}, {0, 1, 1}};
  CHECK_THROWS_WITH((memory_profiles<int, std::int64_t>(initial, events)),
                    "event 1 is of resource 1; expected below 1");
}
