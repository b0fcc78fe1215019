#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ragged.hpp"
#include "slimpack/strategy/reshard.hpp"

namespace slimpack {

/// The two interactions of the optimiser and the pipelines (Hydraulis, Figure 2b).
enum class ReshardDirection : std::uint8_t {
  pull,  ///< parameters, from the plan's first layout to its second
  push,  ///< gradients, from its second layout to its first; those of replicas are added up
};

/// The three primitives of a link operator (Hydraulis, Figure 7).
enum class ReshardPrimitive : std::uint8_t { send, receive, local };

/// The buffers that a rank has: its shards of the plan's first layout, and those of its second one.
enum class ReshardBuffer : std::uint8_t { first, second };

/// One thing that a rank does with some numbers of a unit.
struct ReshardStep {
  ReshardPrimitive primitive = ReshardPrimitive::local;
  std::int64_t begin = 0, end = 0;
  DeviceId peer = 0;                            ///< who sends or receives; of a local step this rank
  std::uint8_t round = 0;                       ///< 0 or 1; those of round 1 send what has come in round 0
  ReshardBuffer source = ReshardBuffer::first;  ///< of a send and a local step
  ReshardBuffer target = ReshardBuffer::first;  ///< of a receive and a local step
  bool adds = false;                            ///< to what is in the target; otherwise takes its place

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const ReshardStep&, const ReshardStep&) = default;
};

/// @throws InvalidInput naming numbers that two devices hold: nobody would know whose sum counts. O(shards).
inline void require_exclusive(const ParameterShards& layout) {
  for (std::size_t u = 0; u < layout.units(); ++u) {
    const auto shards = layout.shards[u];
    for (std::size_t i = 1; i < shards.size(); ++i) {
      require(shards[i - 1].end <= shards[i].begin, "devices ", shards[i - 1].device, " and ",
              shards[i].device, " both hold number ", shards[i].begin, " of unit ", u,
              " in the layout that gradients are pushed to; expected each number on one device");
    }
  }
}

/// What a rank does, [unit] in order. Senders and receivers have the steps of a pair in the same order, so that messages
/// of a pair need no names. Sums are formed in a fixed order: the same bits whatever arrives first.
///
/// In a push, sums of forwarded numbers are formed in the sender's own gradients, which are used up. The plan's moves of a
/// node meet at the device that brought the parameters into it.
/// @throws InvalidInput for a push to a layout with replicas. Complexity: O(moves of the plan).
[[nodiscard]] inline Ragged<ReshardStep> rank_steps(const ReshardPlan& plan, DeviceId rank,
                                                    ReshardDirection direction) {
  const bool push = direction == ReshardDirection::push;
  if (push) require_exclusive(plan.from);
  Ragged<ReshardStep> all;
  std::vector<ReshardStep> steps;
  for (std::size_t u = 0; u < plan.moves.size(); ++u) {
    steps.clear();
    std::int64_t met = -1;  // where the slice begins that has reached this rank's first layout
    for (const ReshardMove& move : plan.moves[u]) {
      if (move.from != rank && move.to != rank) continue;
      ReshardStep step{.begin = move.begin, .end = move.end};
      const DeviceId source = push ? move.to : move.from;
      step.peer = source == rank ? (push ? move.from : move.to) : source;
      step.primitive = move.local()     ? ReshardPrimitive::local
                       : source == rank ? ReshardPrimitive::send
                                        : ReshardPrimitive::receive;
      step.round = move.forwarded != push ? 1 : 0;
      const ReshardBuffer nearer = move.forwarded ? ReshardBuffer::second : ReshardBuffer::first;
      step.source = push ? ReshardBuffer::second : nearer;
      step.target = push ? nearer : ReshardBuffer::second;
      if (push && step.primitive != ReshardPrimitive::send) {
        step.adds = move.forwarded || met == move.begin;
        if (!move.forwarded) met = move.begin;
      }
      steps.push_back(step);
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const ReshardStep& a, const ReshardStep& b) { return a.round < b.round; });
    for (const ReshardStep& step : steps) all.add(step);
    all.close();
  }
  return all;
}

}  // namespace slimpack
