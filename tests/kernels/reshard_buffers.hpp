#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/reshard.hpp"
#include "tests/strategy/reshard_cases.hpp"

// What ranks hold of the layouts between which parameters move.
namespace slimpack::testing {

using Buffers = std::vector<std::vector<float>>;  // [unit] of a rank

/// A rank's numbers, each f(unit, place).
template <class F>
[[nodiscard]] Buffers buffers(const ParameterShards& layout, std::size_t rank, F&& f) {
  Buffers out(layout.units());
  for (std::size_t u = 0; u < layout.units(); ++u) {
    for (const ParameterShard& s : layout.of(u, static_cast<DeviceId>(rank))) {
      for (auto i = s.begin; i < s.end; ++i) out[u].push_back(f(u, i));
    }
  }
  return out;
}

[[nodiscard]] inline kernels::UnitSpans<float> spans(Buffers& numbers) {
  return {numbers.begin(), numbers.end()};
}

[[nodiscard]] inline std::size_t ranks_of(const ReshardCase& c) {
  DeviceId last = 0;
  for (const ParameterShards* layout : {&c.from, &c.to}) {
    for (const ParameterShard& s : layout->shards.values()) last = std::max(last, s.device);
  }
  return static_cast<std::size_t>(last) + 1;
}

[[nodiscard]] inline std::size_t replicas(const ParameterShards& layout, std::size_t unit, std::int64_t i) {
  const auto shards = layout.shards[unit];
  return static_cast<std::size_t>(
      std::ranges::count_if(shards, [&](const ParameterShard& s) { return s.begin <= i && i < s.end; }));
}

}  // namespace slimpack::testing
