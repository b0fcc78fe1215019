#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/schedule/leads.hpp"
#include "slimpack/schedule/pack_pricer.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// Length of the schedule of some pipelines: the longest path through their tasks. No graph is built; the lead table's
/// rounds are a topological order, so that each task costs a maximum and an addition (SlimPack, Eq. 1 and 2). Keeps
/// its memory between calls.
class Makespan {
 public:
  /// @returns seconds from 0 to the end of the last task. O(tasks).
  double operator()(const PackRows& forward, const PassTimes& forward_times, const PackRows& backward,
                    const PassTimes& backward_times, const LeadTable& leads, std::size_t pipelines) {
    stages_ = leads.stages();
    free_.assign(pipelines * stages_, 0.0);
    ready_.assign(forward.packs.size(), 0.0);
    done_.assign(stages_, 0);
    if (pipelines == 1) {
      run_rows<true>(forward, forward_times, backward, backward_times, leads);
    } else {
      run_rows<false>(forward, forward_times, backward, backward_times, leads);
    }
    return free_.empty() ? 0.0 : *std::max_element(free_.begin(), free_.end());
  }

 private:
  /// @tparam Alone whether there is one pipeline only, which then is the member of all packs.
  template <bool Alone>
  void run_rows(const PackRows& forward, const PassTimes& forward_times, const PackRows& backward,
                const PassTimes& backward_times, const LeadTable& leads) {
    const auto members = [](const PackRows& rows, PackId pack) {
      return Alone ? std::span<const std::uint32_t>() : rows.members[pack];
    };
    for (std::size_t k = 0; k < leads.backward_rows(); ++k) {
      for (std::size_t s = 0; s < stages_; ++s) {
        const std::size_t until = leads(k, s);
        for (std::size_t r = done_[s]; r < until; ++r) {
          for (const PackId pack : forward.rows[r])
            run_forward<Alone>(pack, s, members(forward, pack), forward_times);
        }
        done_[s] = std::max(done_[s], until);
      }
      for (const PackId pack : backward.rows[k])
        run_backward<Alone>(pack, members(backward, pack), backward_times);
    }
  }

  /// Starts a task when all members are free. @returns when it ends.
  template <bool Alone>
  double run(std::size_t stage, std::span<const std::uint32_t> members, double ready, double seconds) {
    if constexpr (Alone) return free_[stage] = std::max(ready, free_[stage]) + seconds;
    double start = ready;
    for (const std::uint32_t p : members) start = std::max(start, free_[p * stages_ + stage]);
    const double end = start + seconds;
    for (const std::uint32_t p : members) free_[p * stages_ + stage] = end;
    return end;
  }

  template <bool Alone>
  void run_forward(PackId pack, std::size_t s, std::span<const std::uint32_t> members,
                   const PassTimes& times) {
    const double end = run<Alone>(s, members, ready_[pack], times.seconds[pack * stages_ + s]);
    if (s + 1 < stages_) ready_[pack] = end + times.transfer[pack * (stages_ - 1) + s];
  }

  template <bool Alone>
  void run_backward(PackId pack, std::span<const std::uint32_t> members, const PassTimes& times) {
    double ready = 0.0;
    for (std::size_t s = stages_; s-- > 0;) {
      const double end = run<Alone>(s, members, ready, times.seconds[pack * stages_ + s]);
      if (s > 0) ready = end + times.transfer[pack * (stages_ - 1) + s - 1];
    }
  }

  std::size_t stages_ = 0;
  std::vector<double> free_;       // [pipeline * stages + stage] end of its latest task
  std::vector<double> ready_;      // [forward pack] when its next stage may start it
  std::vector<std::size_t> done_;  // [stage] forward rows
};

}  // namespace slimpack
