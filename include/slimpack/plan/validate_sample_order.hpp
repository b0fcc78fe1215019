#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/plan/graph.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack::detail {

/// What a stage has to run in this order, because of a sample. A forward and a backward task: rule 3.
struct Precedence {
  Task before, after;
  SampleId sample;
};

/// Rules 2 and 3, stage by stage, in plans that keep rules 4 and 8.
class SampleOrderCheck {
 public:
  SampleOrderCheck(const Plan& plan, const SampleSlices& forward, const SampleSlices& backward,
                   Violations& found)
      : plan_(plan), found_(found), required_(plan.pipelines.size()) {
    require_neighbours(Pass::forward, forward);
    require_neighbours(Pass::backward, backward);
    for (SampleId id = 0; id < plan.tokens.size(); ++id) {
      if (forward[id].empty() || backward[id].empty()) continue;
      require_order({Pass::forward, forward[id].back().pack}, {Pass::backward, backward[id].back().pack}, id);
    }
  }

  void run() {
    place_[0].resize(plan_.forward.packs.size());
    place_[1].resize(plan_.backward.packs.size());
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      for (std::size_t s = 0; s < pipeline.stages(); ++s) check_order(pipeline, s);
    }
  }

 private:
  /// Slices of a sample in token order, or in reverse.
  void require_neighbours(Pass pass, const SampleSlices& slices) {
    for (SampleId id = 0; id < slices.size(); ++id) {
      for (std::size_t i = 1; i < slices[id].size(); ++i) {
        const Task lower{pass, slices[id][i - 1].pack}, upper{pass, slices[id][i].pack};
        pass == Pass::forward ? require_order(lower, upper, id) : require_order(upper, lower, id);
      }
    }
  }

  void require_order(Task before, Task after, SampleId sample) {
    if (before == after) return;
    for (const PipelineId p : plan_.of(before.pass).pipelines[before.pack])
      required_[p].push_back({before, after, sample});
  }

  [[nodiscard]] std::uint32_t& place(Task t) { return place_[static_cast<std::size_t>(t.pass)][t.pack]; }

  void check_order(const PipelinePlan& pipeline, std::size_t s) {
    const auto& order = pipeline.order[s];
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].pass != Pass::weight) place(order[i]) = static_cast<std::uint32_t>(i);
    }
    for (const Precedence& p : required_[pipeline.id]) {
      const bool loss = p.before.pass != p.after.pass;
      if (loss && s + 1 < pipeline.stages()) continue;
      found_.expect(place(p.before) < place(p.after), "rule ", loss ? 3 : 2, ": stage ", s, " of pipeline ",
                    pipeline.id, " runs ", to_string(p.after), " before ", to_string(p.before), "; expected ",
                    loss ? "all forward slices" : pass_name(p.after.pass), " of sample ", p.sample,
                    loss                            ? " before its backward"
                    : p.after.pass == Pass::forward ? " in token order"
                                                    : " in reverse token order");
    }
  }

  const Plan& plan_;
  Violations& found_;
  std::vector<std::vector<Precedence>> required_;  ///< by pipeline
  std::vector<std::uint32_t> place_[2];            ///< of each pass, in the stage's order
};

}  // namespace slimpack::detail
