#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/schedule/packflow.hpp"

namespace slimpack {

/// Durations of one pass of one pipeline's packs.
struct PassTimes {
  std::vector<double> seconds;   ///< [pack * stages + stage]
  std::vector<double> transfer;  ///< [pack] from a stage's end until the next stage may start

  void clear() {
    seconds.clear();
    transfer.clear();
  }
};

/// One pipeline as the makespan recurrence sees it.
struct PipelineTimes {
  PassTimes forward;
  PassTimes backward;
  LeadTable leads;
};

/// Length of a group of pipelines whose first packs are merged: `merged_forward` and `merged_backward`
/// leading packs run on all members in lockstep, everything else locally. A single pipeline is a group of
/// one. No graph is built: the lead table's rounds are a topological order, so each task costs one maximum
/// and one addition (SlimPack, Eq. 1 and 2). Keeps its memory between calls.
class GroupMakespan {
 public:
  /// @param members their lead tables agree on all merged packs.
  /// @returns seconds from 0 to the end of the last task. O(tasks).
  double operator()(std::span<const PipelineTimes> members, std::size_t stages, std::size_t merged_forward,
                    std::size_t merged_backward) {
    begin(members, stages);
    std::size_t rounds = 0;
    for (const PipelineTimes& member : members) rounds = std::max(rounds, member.leads.backward_packs());
    for (std::size_t k = 0; k < rounds; ++k) {
      for (std::size_t s = 0; members.size() > 1 && s < stages; ++s)
        merged_forward_round(members, k, s, stages, merged_forward);
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (k < members[i].leads.backward_packs()) forward_round(members[i], state_[i], k, stages);
      }
      if (k < merged_backward && members.size() > 1) {
        for (std::size_t s = stages; s-- > 0;) lockstep_backward(members, k, s, stages);
      } else {
        for (std::size_t i = 0; i < members.size(); ++i) {
          if (k < members[i].leads.backward_packs()) backward_pack(members[i], state_[i], k, stages);
        }
      }
    }
    double end = 0.0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (std::size_t s = 0; s < stages; ++s) end = std::max(end, state_[i].free[s]);
    }
    return end;
  }

 private:
  struct State {
    std::vector<double> free;              // [stage] end of its latest task
    std::vector<double> forward_ready;     // [pack] when the next stage may start it
    std::vector<std::uint32_t> forwarded;  // [stage] forward packs done
    double backward_ready = 0.0;           // of the current backward pack
  };

  void begin(std::span<const PipelineTimes> members, std::size_t stages) {
    if (state_.size() < members.size()) state_.resize(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      state_[i].free.assign(stages, 0.0);
      state_[i].forward_ready.assign(members[i].forward.transfer.size(), 0.0);
      state_[i].forwarded.assign(stages, 0);
      state_[i].backward_ready = 0.0;
    }
  }

  /// The forward packs that a member runs alone before backward pack `k`.
  static void forward_round(const PipelineTimes& member, State& state, std::size_t k, std::size_t stages) {
    const double* const transfer = member.forward.transfer.data();
    double* const ready = state.forward_ready.data();
    for (std::size_t s = 0; s < stages; ++s) {
      const std::uint32_t until = member.leads(k, s);
      std::uint32_t j = state.forwarded[s];
      if (j >= until) continue;
      double free = state.free[s];
      const double* seconds = member.forward.seconds.data() + j * stages + s;
      for (; j < until; ++j, seconds += stages) {
        free = std::max(free, ready[j]) + *seconds;
        ready[j] = free + transfer[j];
      }
      state.free[s] = free;
      state.forwarded[s] = until;
    }
  }

  void merged_forward_round(std::span<const PipelineTimes> members, std::size_t k, std::size_t s,
                            std::size_t stages, std::size_t merged) {
    if (state_[0].forwarded[s] >= merged) return;
    const std::uint32_t until = std::min(members[0].leads(k, s), static_cast<std::uint32_t>(merged));
    for (std::uint32_t j = state_[0].forwarded[s]; j < until; ++j) {
      double start = 0.0;
      for (std::size_t i = 0; i < members.size(); ++i) {
        start = std::max({start, state_[i].free[s], state_[i].forward_ready[j]});
      }
      const double end = start + members[0].forward.seconds[j * stages + s];
      for (std::size_t i = 0; i < members.size(); ++i) {
        state_[i].free[s] = end;
        state_[i].forward_ready[j] = end + members[0].forward.transfer[j];
      }
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      state_[i].forwarded[s] = std::max(state_[i].forwarded[s], until);
    }
  }

  void lockstep_backward(std::span<const PipelineTimes> members, std::size_t k, std::size_t s,
                         std::size_t stages) {
    double start = s + 1 == stages ? 0.0 : state_[0].backward_ready;
    for (std::size_t i = 0; i < members.size(); ++i) start = std::max(start, state_[i].free[s]);
    const double end = start + members[0].backward.seconds[k * stages + s];
    for (std::size_t i = 0; i < members.size(); ++i) state_[i].free[s] = end;
    state_[0].backward_ready = end + members[0].backward.transfer[k];
  }

  static void backward_pack(const PipelineTimes& member, State& state, std::size_t k, std::size_t stages) {
    double ready = 0.0;
    for (std::size_t s = stages; s-- > 0;) {
      const double end = std::max(state.free[s], ready) + member.backward.seconds[k * stages + s];
      state.free[s] = end;
      ready = end + member.backward.transfer[k];
    }
  }

  std::vector<State> state_;
};

}  // namespace slimpack
