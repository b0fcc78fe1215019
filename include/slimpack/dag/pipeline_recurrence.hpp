#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace slimpack {

/// Makespan of plain 1F1B without a graph. Stage s of p runs min(m, p - 1 - s) forward passes, then
/// alternates one forward and one backward pass, then drains. With h counting half-rounds, stage s runs its
/// pair (forward j, backward k) in half-round h = 2k + (p - 1 - s); what its neighbours hand to it was done
/// in half-round h - 1. So the stages of a half-round, every second one, don't depend on each other, and a
/// processor overlaps them. Keeps its memory between calls.
template <class Time = double>
class PipelineRecurrence {
 public:
  /// @param stages p. @param micro_batches m.
  /// @param forward `Time forward(stage, micro_batch)`, the duration. @param backward the same of the
  /// backward pass.
  /// @param transfer from a pass's end on one stage until the next stage may start it.
  /// @returns time from 0 to the end of the last pass; 0 without stages or micro-batches.
  /// Complexity: O(stages * micro_batches), one maximum and one addition a task.
  template <class Forward, class Backward>
  [[nodiscard]] Time operator()(std::size_t stages, std::size_t micro_batches, Forward&& forward,
                                Backward&& backward, Time transfer = Time{}) {
    if (stages == 0 || micro_batches == 0) return Time{};
    free_.assign(stages, Time{});
    to_next_.assign(stages + 1, Time{});
    to_previous_.assign(stages + 1, Time{});
    fill(stages, micro_batches, forward, transfer);
    const std::size_t half_rounds = 2 * micro_batches + stages - 2;
    for (std::size_t h = 0; h < half_rounds; ++h) {
      // Distance d = p - 1 - s from the last stage; h - d has to be even and its half a micro-batch.
      const std::size_t lowest = h > 2 * (micro_batches - 1) ? h - 2 * (micro_batches - 1) : h % 2;
      for (std::size_t d = lowest; d <= std::min(h, stages - 1); d += 2) {
        const std::size_t s = stages - 1 - d, k = (h - d) / 2, j = k + d;
        Time now = free_[s];
        if (j < micro_batches) {
          now = std::max(now, to_next_[s]) + forward(s, j);
          to_next_[s + 1] = now + transfer;
        }
        now = std::max(now, to_previous_[s + 1]) + backward(s, k);
        free_[s] = now;
        to_previous_[s] = now + transfer;
      }
    }
    return *std::max_element(free_.begin(), free_.end());
  }

 private:
  /// The forward passes before each stage's first backward pass, except the last of them.
  template <class Forward>
  void fill(std::size_t stages, std::size_t micro_batches, Forward&& forward, Time transfer) {
    for (std::size_t j = 0; j < std::min(micro_batches, stages - 1); ++j) {
      Time ready{};
      for (std::size_t s = 0; s + 1 + j < stages; ++s) {
        free_[s] = std::max(free_[s], ready) + forward(s, j);
        ready = free_[s] + transfer;
      }
      to_next_[stages - 1 - j] = ready;
    }
  }

  std::vector<Time> free_;         // [stage] end of its latest task
  std::vector<Time> to_next_;      // [stage] when it may start its next forward pass
  std::vector<Time> to_previous_;  // [stage + 1] when the stage may start its next backward pass
};

}  // namespace slimpack
