#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/schedule/packflow.hpp"

namespace slimpack {

/// Durations of one pass of packs.
struct PassTimes {
  std::vector<double> seconds;   ///< [pack * stages + stage]
  std::vector<double> transfer;  ///< [pack] from a stage's end until the next stage may start

  [[nodiscard]] std::size_t packs() const { return transfer.size(); }
  void clear() {
    seconds.clear();
    transfer.clear();
  }
};

/// Durations of a pipeline's own packs, and its order of all packs: in both passes its group's merged ones come first.
struct PipelineTimes {
  PassTimes forward;
  PassTimes backward;
  LeadTable leads;
};

/// A group of pipelines as the makespan recurrence sees it; a single pipeline is a group of one.
struct GroupTimes {
  PassTimes merged_forward, merged_backward;  ///< of packs that all members run in lockstep
  std::vector<PipelineTimes> members;         ///< their lead tables agree on all merged packs
};

/// Length of a group of pipelines. No graph is built: the lead table's rounds are a topological order, so each
/// task costs one maximum and one addition (SlimPack, Eq. 1 and 2). Keeps its memory between calls.
class GroupMakespan {
 public:
  /// @returns seconds from 0 to the end of the last task. O(tasks).
  double operator()(const GroupTimes& group, std::size_t stages) {
    begin(group, stages);
    const std::size_t merged_forward = group.merged_forward.packs(), merged = group.merged_backward.packs();
    std::size_t rounds = 0;
    for (const PipelineTimes& member : group.members)
      rounds = std::max(rounds, member.leads.backward_packs());
    for (std::size_t k = 0; k < rounds; ++k) {
      if (merged_forward > 0) merged_forward_round(group, k, stages);
      for (std::size_t i = 0; i < group.members.size(); ++i) {
        if (k < group.members[i].leads.backward_packs())
          forward_round(group.members[i], state_[i], k, merged_forward, stages);
      }
      if (k < merged) {
        lockstep_backward(group.merged_backward, k, stages);
        continue;
      }
      for (std::size_t i = 0; i < group.members.size(); ++i) {
        if (k < group.members[i].leads.backward_packs())
          backward_pack(group.members[i].backward, state_[i], k - merged, stages);
      }
    }
    double end = 0.0;
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      for (std::size_t s = 0; s < stages; ++s) end = std::max(end, state_[i].free[s]);
    }
    return end;
  }

 private:
  struct State {
    std::vector<double> free;              // [stage] end of its latest task
    std::vector<double> forward_ready;     // [own pack] when the next stage may start it
    std::vector<std::uint32_t> forwarded;  // [stage] own forward packs done
  };

  void begin(const GroupTimes& group, std::size_t stages) {
    const std::size_t members = group.members.size();
    if (state_.size() < members) state_.resize(members);
    members_ = members;
    for (std::size_t i = 0; i < members; ++i) {
      state_[i].free.assign(stages, 0.0);
      state_[i].forward_ready.assign(group.members[i].forward.packs(), 0.0);
      state_[i].forwarded.assign(stages, 0);
    }
    merged_ready_.assign(group.merged_forward.packs(), 0.0);
    merged_forwarded_.assign(stages, 0);
  }

  /// The forward packs that a member runs alone before backward pack `k`.
  static void forward_round(const PipelineTimes& member, State& state, std::size_t k, std::size_t merged,
                            std::size_t stages) {
    const double* const transfer = member.forward.transfer.data();
    double* const ready = state.forward_ready.data();
    for (std::size_t s = 0; s < stages; ++s) {
      const std::size_t lead = member.leads(k, s);
      std::size_t j = state.forwarded[s];
      if (merged + j >= lead) continue;
      const std::size_t until = lead - merged;
      double free = state.free[s];
      const double* seconds = member.forward.seconds.data() + j * stages + s;
      for (; j < until; ++j, seconds += stages) {
        free = std::max(free, ready[j]) + *seconds;
        ready[j] = free + transfer[j];
      }
      state.free[s] = free;
      state.forwarded[s] = static_cast<std::uint32_t>(until);
    }
  }

  /// When all members have done what they did before on a stage.
  [[nodiscard]] double all_free(std::size_t s) const {
    double latest = 0.0;
    for (std::size_t i = 0; i < members_; ++i) latest = std::max(latest, state_[i].free[s]);
    return latest;
  }

  void merged_forward_round(const GroupTimes& group, std::size_t k, std::size_t stages) {
    const PassTimes& merged = group.merged_forward;
    const auto all = static_cast<std::uint32_t>(merged.packs());
    for (std::size_t s = 0; s < stages; ++s) {
      std::uint32_t& j = merged_forwarded_[s];
      if (j == all) continue;
      const std::uint32_t until = std::min(group.members[0].leads(k, s), all);
      if (j >= until) continue;
      double free = all_free(s);
      for (; j < until; ++j) {
        free = std::max(free, merged_ready_[j]) + merged.seconds[j * stages + s];
        merged_ready_[j] = free + merged.transfer[j];
      }
      for (std::size_t i = 0; i < members_; ++i) state_[i].free[s] = free;
    }
  }

  void lockstep_backward(const PassTimes& merged, std::size_t k, std::size_t stages) {
    double ready = 0.0;
    for (std::size_t s = stages; s-- > 0;) {
      const double end = std::max(all_free(s), ready) + merged.seconds[k * stages + s];
      for (std::size_t i = 0; i < members_; ++i) state_[i].free[s] = end;
      ready = end + merged.transfer[k];
    }
  }

  static void backward_pack(const PassTimes& own, State& state, std::size_t k, std::size_t stages) {
    double ready = 0.0;
    for (std::size_t s = stages; s-- > 0;) {
      const double end = std::max(state.free[s], ready) + own.seconds[k * stages + s];
      state.free[s] = end;
      ready = end + own.transfer[k];
    }
  }

  std::size_t members_ = 0;
  std::vector<State> state_;                     // [member]
  std::vector<double> merged_ready_;             // [merged forward pack] when the next stage may start it
  std::vector<std::uint32_t> merged_forwarded_;  // [stage] merged forward packs done
};

}  // namespace slimpack
