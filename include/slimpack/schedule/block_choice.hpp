#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/scheduler.hpp"

namespace slimpack {

/// Tokens of a chunk that are tried where ranks share packs by position. Shorter ones divide tokens more equally, longer ones
/// fill the attention kernel's tiles.
inline constexpr std::array<Tokens, 4> position_blocks{32, 64, 128, 256};

/// Whether ranks share some pack of a schedule by position.
[[nodiscard]] inline bool shares_by_position(const Schedule& schedule) {
  const auto some = [](const PackSharing& sharing) {
    return std::find(sharing.sharding.begin(), sharing.sharding.end(), Sharding::by_position) !=
           sharing.sharding.end();
  };
  return some(schedule.forward_times.sharing) || some(schedule.backward_times.sharing);
}

/// Lets ranks share packs by position in chunks of as many tokens as make the slowest of some schedules, which run at the same
/// time, fastest. A plan's chunks are all of one size. The schedules stay as they are unless that is faster.
/// @pre they fit. @param blocks sizes to try. O(blocks) times that of `Scheduler::share_in_blocks`.
inline void choose_block(std::span<Schedule* const> schedules, Scheduler& scheduler,
                         std::span<const Tokens> blocks = position_blocks) {
  const auto by_position = [](const Schedule* s) { return shares_by_position(*s); };
  if (std::none_of(schedules.begin(), schedules.end(), by_position)) return;
  double least = 0.0;
  for (const Schedule* const schedule : schedules) least = std::max(least, schedule->seconds);
  std::vector<Schedule> best;
  for (const Tokens block : blocks) {
    std::vector<Schedule> trial;
    double slowest = 0.0;
    for (const Schedule* const schedule : schedules) {
      trial.push_back(*schedule);
      if (shares_by_position(*schedule)) scheduler.share_in_blocks(trial.back(), block);
      slowest = std::max(slowest, trial.back().seconds);
    }
    if (slowest >= least) continue;
    least = slowest;
    best = std::move(trial);
  }
  for (std::size_t i = 0; i < best.size(); ++i) *schedules[i] = std::move(best[i]);
}

}  // namespace slimpack
