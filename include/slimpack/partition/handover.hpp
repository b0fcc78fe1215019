#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"

namespace slimpack {

/// A sample that one pipeline hands to another, and perhaps one in return.
struct Handover {
  SampleId given = 0;
  std::optional<SampleId> back = {};
};

/// One of two pipelines that may exchange samples.
struct HandoverSide {
  std::span<const SampleId> samples = {};  ///< that it has
  std::span<const double> seconds = {};    ///< [sample of the batch] on this pipeline
  Tokens max_tokens = 0;                   ///< of a sample that it holds
};

/// The handover for which the seconds that one pipeline loses and the other gains, averaged over both, are closest to `wanted`;
/// the first one if several are. None if doing nothing is as close. @param wanted seconds. @param lengths [sample of the batch].
/// O(samples of from * samples of to).
[[nodiscard]] inline std::optional<Handover> closest_handover(std::span<const Tokens> lengths,
                                                              const HandoverSide& from,
                                                              const HandoverSide& to, double wanted) {
  std::optional<Handover> best;
  double least = wanted;
  const auto moves = [&](SampleId i) { return from.seconds[i] + to.seconds[i]; };
  const auto look = [&](double moved, const Handover& handover) {
    const double off = std::abs(moved / 2.0 - wanted);
    if (!(moved > 0.0 && off < least)) return;
    least = off;
    best = handover;
  };
  for (const SampleId given : from.samples) {
    if (lengths[given] > to.max_tokens) continue;
    look(moves(given), {given});
    for (const SampleId back : to.samples) {
      if (lengths[back] <= from.max_tokens) look(moves(given) - moves(back), {given, back});
    }
  }
  return best;
}

/// Does a handover. @param from, to the pipelines' samples, ascending, before and after it. O(samples log(samples)).
inline void hand_over(const Handover& handover, std::vector<SampleId>& from, std::vector<SampleId>& to) {
  std::erase(from, handover.given);
  to.push_back(handover.given);
  if (handover.back) {
    std::erase(to, *handover.back);
    from.push_back(*handover.back);
  }
  std::sort(from.begin(), from.end());
  std::sort(to.begin(), to.end());
}

}  // namespace slimpack
