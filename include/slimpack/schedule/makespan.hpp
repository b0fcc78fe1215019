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
    for (std::size_t k = together(group, stages); k < rounds; ++k) {
      if (merged_forward > 0) merged_forward_round(group, k, stages);
      for (std::size_t i = 0; i < group.members.size(); ++i) {
        const PipelineTimes& member = group.members[i];
        if (k < member.leads.backward_packs())
          forward_round(member.forward, member.leads, k, merged_forward, stages, state_[i]);
      }
      if (k < merged) {
        lockstep_backward(group.merged_backward, k, stages);
        continue;
      }
      for (std::size_t i = 0; i < group.members.size(); ++i) {
        if (k < group.members[i].leads.backward_packs())
          backward_pack(group.members[i].backward, k - merged, stages, state_[i].free.data());
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
    std::vector<double> forward_ready;     // [pack] when the next stage may start it
    std::vector<std::uint32_t> forwarded;  // [stage] forward packs done

    void reset(std::size_t stages, std::size_t packs) {
      free.assign(stages, 0.0);
      forward_ready.assign(packs, 0.0);
      forwarded.assign(stages, 0);
    }
  };

  void begin(const GroupTimes& group, std::size_t stages) {
    const std::size_t members = group.members.size();
    if (state_.size() < members) state_.resize(members);
    members_ = members;
    for (std::size_t i = 0; i < members; ++i) state_[i].reset(stages, group.members[i].forward.packs());
    merged_.reset(stages, group.merged_forward.packs());
  }

  /// Rounds in which members have run nothing but merged packs: they are one pipeline. No stage is further ahead than
  /// the first, so that its leads tell. @returns the first other round.
  std::size_t together(const GroupTimes& group, std::size_t stages) {
    const PassTimes& forward = group.merged_forward;
    const auto only_merged = [&](std::size_t k) {
      return k < group.merged_backward.packs() && !group.members.empty() &&
             std::all_of(group.members.begin(), group.members.end(),
                         [&](const PipelineTimes& member) { return member.leads(k, 0) <= forward.packs(); });
    };
    std::size_t k = 0;
    for (; only_merged(k); ++k) {
      forward_round(forward, group.members[0].leads, k, 0, stages, merged_);
      backward_pack(group.merged_backward, k, stages, merged_.free.data());
    }
    for (std::size_t i = 0; i < members_; ++i) state_[i].free = merged_.free;
    return k;
  }

  /// The forward packs that are run alone before backward pack `k`, behind `others` in the lead table.
  static void forward_round(const PassTimes& own, const LeadTable& leads, std::size_t k, std::size_t others,
                            std::size_t stages, State& state) {
    const double* const transfer = own.transfer.data();
    double* const ready = state.forward_ready.data();
    for (std::size_t s = 0; s < stages; ++s) {
      const std::size_t lead = leads(k, s);
      std::size_t j = state.forwarded[s];
      if (others + j >= lead) continue;
      const std::size_t until = lead - others;
      double free = state.free[s];
      const double* seconds = own.seconds.data() + j * stages + s;
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
      std::uint32_t& j = merged_.forwarded[s];
      if (j == all) continue;
      const std::uint32_t until = std::min(group.members[0].leads(k, s), all);
      if (j >= until) continue;
      double free = all_free(s);
      for (; j < until; ++j) {
        free = std::max(free, merged_.forward_ready[j]) + merged.seconds[j * stages + s];
        merged_.forward_ready[j] = free + merged.transfer[j];
      }
      for (std::size_t i = 0; i < members_; ++i) state_[i].free[s] = free;
    }
  }

  void lockstep_backward(const PassTimes& merged, std::size_t k, std::size_t stages) {
    for (std::size_t s = 0; s < stages; ++s) merged_.free[s] = all_free(s);
    backward_pack(merged, k, stages, merged_.free.data());
    for (std::size_t i = 0; i < members_; ++i) state_[i].free = merged_.free;
  }

  /// @param[in,out] free [stage] end of its latest task.
  static void backward_pack(const PassTimes& own, std::size_t k, std::size_t stages, double* free) {
    const double transfer = own.transfer[k];
    const double* const seconds = own.seconds.data() + k * stages;
    double ready = 0.0;
    for (std::size_t s = stages; s-- > 0;) {
      free[s] = std::max(free[s], ready) + seconds[s];
      ready = free[s] + transfer;
    }
  }

  std::size_t members_ = 0;
  std::vector<State> state_;  // [member] its own packs
  State merged_;              // of packs that all members run
};

}  // namespace slimpack
