#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "slimpack/schedule/checkpoint_windows.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "tests/schedule/random_rows.hpp"

namespace oracle {

/// Random packs with full leads, in memory that is often short.
struct CheckpointInstance {
  RandomRows rows;
  UnevenMemory model;
  Schedule schedule;
  std::vector<std::uint32_t> required;

  /// @param block of shared samples; the default is that of schedulers without an attention model.
  explicit CheckpointInstance(std::mt19937& random, bool equal_stages = false,
                              Tokens block = default_ownership_block)
      : rows(random), schedule(rows.schedule(block)) {
    std::uniform_int_distribution<std::int32_t> layers(1, 3);
    const std::int32_t all = layers(random);
    for (std::size_t s = 0; s < rows.stages; ++s) model.layers.push_back(equal_stages ? all : layers(random));
    std::vector<std::uint32_t> ended;
    required_rows(rows.lengths, rows.forward, rows.backward, ended, required);
    packflow_leads(required, rows.forward.rows.size(), rows.stages, schedule.leads);
    schedule.recompute = Recompute(std::vector<std::int32_t>(rows.stages, 0));
    double most = 0.0;
    for (std::size_t p = 0; p < rows.pipelines; ++p) {
      for (std::size_t s = 0; s < rows.stages; ++s)
        most = std::max(most, peak_bytes(schedule, rows.lengths, p, s, model));
    }
    model.capacity = std::uniform_real_distribution<double>(0.3, 1.1)(random) * most;
    model.capacity = std::max(model.capacity, 20.0);
  }

  [[nodiscard]] Memory memory() const { return Memory(model, model.layers, true); }

  [[nodiscard]] std::vector<CheckpointWindows> windows(const Memory& memory) const {
    MemoryFit fit(rows.lengths, memory);
    fit.load(schedule);
    std::vector<CheckpointWindows> all;
    checkpoint_windows(schedule.leads, memory, fit, all);
    return all;
  }

  [[nodiscard]] bool fits(const Recompute& recompute) const {
    Schedule own = schedule;
    own.recompute = recompute;
    for (std::size_t p = 0; p < rows.pipelines; ++p) {
      for (std::size_t s = 0; s < rows.stages; ++s) {
        if (peak_bytes(own, rows.lengths, p, s, model) > model.capacity * (1.0 + 1e-12)) return false;
      }
    }
    return true;
  }
};

}  // namespace oracle
