#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "slimpack/schedule/leads.hpp"
#include "slimpack/schedule/pack_pricer.hpp"
#include "slimpack/schedule/recompute.hpp"
#include "slimpack/schedule/task.hpp"

namespace slimpack {

/// Packs of both passes on pipelines that share some of them: which pipelines run them, in which order, what is recomputed,
/// how long it takes, and how much memory.
struct Schedule {
  std::size_t pipelines = 0;
  PackRows forward, backward;
  PassTimes forward_times, backward_times;  ///< recomputation included
  LeadTable leads;
  Recompute recompute;
  double seconds = std::numeric_limits<double>::infinity();    ///< infinite: refused by memory, or too slow
  double unlimited = std::numeric_limits<double>::infinity();  ///< seconds with enough memory
  bool memory_bound = false;  ///< memory forced recomputation or a smaller lead, or refused the packs
  /// [pipeline][stage] most in use at any time; empty: not found yet.
  std::vector<std::vector<double>> peak_bytes;

  [[nodiscard]] std::size_t stages() const { return leads.stages(); }
  [[nodiscard]] bool fits() const { return seconds < std::numeric_limits<double>::infinity(); }
};

/// Gives a schedule's samples other ids. @param names [sample]. O(slices).
inline void rename_samples(std::span<const SampleId> names, Schedule& schedule) {
  for (Packs* const packs : {&schedule.forward.packs, &schedule.backward.packs}) {
    for (std::size_t k = 0; k < packs->size(); ++k) {
      for (Slice& slice : (*packs)[k]) slice.sample = names[slice.sample];
    }
  }
}

/// The tasks of each stage in their order, [pipeline][stage]. Packs are numbered as in the schedule. O(tasks).
[[nodiscard]] inline std::vector<std::vector<std::vector<Task>>> stage_orders(const Schedule& schedule) {
  const auto forward = packs_by_row(schedule.forward, schedule.pipelines),
             backward = packs_by_row(schedule.backward, schedule.pipelines);
  std::vector<std::vector<std::vector<Task>>> orders(schedule.pipelines);
  for (std::size_t p = 0; p < orders.size(); ++p) {
    for (std::size_t s = 0; s < schedule.stages(); ++s) {
      std::vector<Task>& order = orders[p].emplace_back();
      order.reserve(forward[p].size() + backward[p].size());
      std::size_t done = 0;
      for (std::size_t k = 0; k < backward[p].size(); ++k) {
        for (; done < schedule.leads(k, s); ++done) {
          if (forward[p][done] != no_pack) order.push_back({Pass::forward, forward[p][done]});
        }
        if (backward[p][k] != no_pack) order.push_back({Pass::backward, backward[p][k]});
      }
    }
  }
  return orders;
}

/// The orders of all stages as text: a line for each stage, such as `F0 F1 B0`, and an empty line between pipelines.
/// O(tasks).
[[nodiscard]] inline std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const auto& pipeline : stage_orders(schedule)) {
    if (!text.empty()) text += '\n';
    for (const std::vector<Task>& order : pipeline) text += to_string(order) + '\n';
  }
  return text;
}

}  // namespace slimpack
