#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// A change of what a resource holds.
template <class Time = double, class Amount = double>
struct MemoryEvent {
  Time time{};
  Amount delta{};  ///< positive: taken; negative: given back
  std::uint32_t resource = 0;
};

/// What a resource holds from a moment on, until the next step.
template <class Time = double, class Amount = double>
struct MemoryStep {
  Time time{};
  Amount amount{};

  friend bool operator==(const MemoryStep&, const MemoryStep&) = default;
};

/// A resource's memory over time.
template <class Time = double, class Amount = double>
struct MemoryProfile {
  std::vector<MemoryStep<Time, Amount>> steps;  ///< one per event, by time; the first is the initial amount
  Amount peak{};                                ///< largest amount of any step
  Time peak_time{};                             ///< when it is reached first
};

/// Memory over time from events (SlimPack, section 4.3.3). Events of one resource at equal times take effect
/// in the order in which they are given. So if a resource's tasks are listed in the order in which it runs
/// them, each with its events from start to end, a task gives its memory back before the next task takes its
/// own at the same moment. Every event is a step, so a peak counts even if it lasts no time.
/// @param initial amount that each resource holds from time 0. @param events in any order; deltas are added
/// up in order of time.
/// @returns a profile for each resource.
/// @throws InvalidInput naming an event whose resource doesn't exist. Complexity: O(resources + events) if
/// each resource's events come sorted by time; otherwise plus a sort of its events.
template <class Time, class Amount>
[[nodiscard]] std::vector<MemoryProfile<Time, Amount>> memory_profiles(
    std::span<const Amount> initial, std::span<const MemoryEvent<Time, Amount>> events) {
  using Step = MemoryStep<Time, Amount>;
  std::vector<MemoryProfile<Time, Amount>> profiles(initial.size());
  std::vector<std::size_t> counts(initial.size(), 0);
  for (std::size_t i = 0; i < events.size(); ++i) {
    require(events[i].resource < initial.size(), "event ", i, " is of resource ", events[i].resource,
            "; expected below ", initial.size());
    ++counts[events[i].resource];
  }
  for (std::size_t r = 0; r < initial.size(); ++r) {
    profiles[r].steps.reserve(counts[r] + 1);
    profiles[r].steps.push_back({Time{}, initial[r]});
  }
  for (const auto& event : events) profiles[event.resource].steps.push_back({event.time, event.delta});
  const auto earlier = [](const Step& a, const Step& b) { return a.time < b.time; };
  for (auto& profile : profiles) {
    auto& steps = profile.steps;
    if (!std::is_sorted(steps.begin() + 1, steps.end(), earlier)) {
      std::stable_sort(steps.begin() + 1, steps.end(), earlier);
    }
    for (std::size_t i = 1; i < steps.size(); ++i) steps[i].amount += steps[i - 1].amount;
    const auto peak = std::max_element(steps.begin(), steps.end(),
                                       [](const Step& a, const Step& b) { return a.amount < b.amount; });
    profile.peak = peak->amount;
    profile.peak_time = peak->time;
  }
  return profiles;
}

}  // namespace slimpack
