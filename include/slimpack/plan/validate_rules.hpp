#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/plan/graph.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/validate_sample_order.hpp"
#include "slimpack/plan/validate_sharding.hpp"
#include "slimpack/plan/validate_times.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack::detail {

/// Pipelines for a message: `0, 1`.
inline std::string ids_text(std::span<const PipelineId> ids) {
  std::string text;
  for (const PipelineId p : ids) text += concat(text.empty() ? "" : ", ", p);
  return text;
}

/// FLOPs follow the plan format's formula.
inline void check_flops(const Plan& plan, Violations& found) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PassPlan& packs = plan.of(pass);
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      const auto check = [&](const char* field, double said, double expected) {
        if (close(said, expected, 1e-9)) return;
        found.expect(false, pass_name(pass), "[", k, "].flops.", field, " is ", all_digits(said),
                     "; expected ", all_digits(expected));
      };
      const Flops expected = pack_flops(plan.model, packs.packs[k], pass);
      check("linear", packs.flops[k].linear, expected.linear);
      check("attention", packs.flops[k].attention, expected.attention);
    }
  }
}

/// Rule 1: every token of every sample that is not deferred is in exactly one pack of the pass.
inline void check_tokens(const Plan& plan, Pass pass, const SampleSlices& slices, Violations& found) {
  std::vector<std::uint8_t> deferred(plan.tokens.size(), 0);
  for (const SampleId id : plan.deferred) deferred[id] = 1;
  for (SampleId id = 0; id < plan.tokens.size(); ++id) {
    Tokens reached = 0;
    for (const auto& piece : slices[id]) {
      found.expect(piece.begin == reached, "rule 1: ", pass_name(pass), "[", piece.pack, "] holds sample ",
                   id, " from token ", piece.begin, "; expected from ", reached,
                   ", where the slice before it ends");
      reached = piece.end;
    }
    const Tokens expected = deferred[id] != 0 ? 0 : plan.tokens[id];
    found.expect(reached == expected, "rule 1: ", pass_name(pass), " packs hold sample ", id, " up to token ",
                 reached, "; expected ", expected,
                 deferred[id] != 0 ? ", for it is deferred" : ", its length");
  }
}

/// Rule 4: every stage runs each of its pipeline's packs once. Rule 7: weight-gradient tasks follow their backward
/// tasks.
class OrderCheck {
 public:
  OrderCheck(const Plan& plan, Violations& found) : plan_(plan), found_(found) {}

  void run() {
    std::vector<std::vector<Task>> held(plan_.pipelines.size());
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        for (const PipelineId p : packs.pipelines[k]) held[p].push_back({pass, static_cast<PackId>(k)});
      }
    }
    const std::size_t most = std::max(plan_.forward.packs.size(), plan_.backward.packs.size());
    for (auto& runs : runs_) runs.assign(most, 0);
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      for (std::size_t s = 0; s < pipeline.stages(); ++s) check_order(pipeline, s, held[pipeline.id]);
    }
  }

 private:
  [[nodiscard]] std::uint32_t& runs(Task t) { return runs_[static_cast<std::size_t>(t.pass)][t.pack]; }
  [[nodiscard]] bool exists(Task t) const { return t.pack < plan_.of(t.pass).packs.size(); }

  /// `runs_` holds zeros before and after.
  void check_order(const PipelinePlan& pipeline, std::size_t s, std::span<const Task> held) {
    const auto expect = [&](bool ok, Task t, const auto&... rest) {
      found_.expect(ok, "rule 4: stage ", s, " of pipeline ", pipeline.id, " runs ", to_string(t), rest...);
    };
    for (const Task t : pipeline.order[s]) {
      expect(exists(t), t, "; expected ", t.pass == Pass::forward ? "forward" : "backward", " packs below ",
             plan_.of(t.pass).packs.size());
      if (!exists(t)) continue;
      ++runs(t);
      found_.expect(t.pass != Pass::weight || (runs(t) == 1 && runs({Pass::backward, t.pack}) > 0),
                    "rule 7: stage ", s, " of pipeline ", pipeline.id, " runs ", to_string(t),
                    "; expected it once, after its backward task");
    }
    for (const Task t : held) {
      if (t.pass == Pass::backward) check_weight_task(pipeline, s, t.pack);
      expect(runs(t) == 1, t, " ", runs(t), " times; expected once");
      runs(t) = 0;
    }
    for (const Task t : pipeline.order[s]) {
      if (!exists(t)) continue;
      expect(t.pass == Pass::weight || runs(t) == 0, t, "; expected packs of this pipeline only");
      runs(t) = 0;
    }
  }

  /// What a pack's weight gradients take must be spent somewhere.
  void check_weight_task(const PipelinePlan& pipeline, std::size_t s, PackId k) {
    const Ragged<double>& seconds = plan_.backward.weight_seconds;
    if (seconds.empty() || seconds[k].empty() || seconds[k][s] == 0.0) return;
    found_.expect(runs({Pass::weight, k}) > 0, "rule 7: stage ", s, " of pipeline ", pipeline.id,
                  " does not run W", k, "; expected it, for backward[", k, "].weight_seconds[", s, "] is ",
                  seconds[k][s]);
  }

  const Plan& plan_;
  Violations& found_;
  std::vector<std::uint32_t> runs_[3];  ///< how often a stage runs each pack, by pass
};

/// Rule 8: all packs of a sample name the same pipelines in the same order.
inline void check_groups(const Plan& plan, const SampleSlices& forward, const SampleSlices& backward,
                         Violations& found) {
  for (SampleId id = 0; id < plan.tokens.size(); ++id) {
    if (forward[id].empty()) continue;
    const Task first{Pass::forward, forward[id].front().pack};
    const auto members = plan.forward.pipelines[first.pack];
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const auto& piece : (pass == Pass::forward ? forward : backward)[id]) {
        const auto others = plan.of(pass).pipelines[piece.pack];
        if (std::equal(members.begin(), members.end(), others.begin(), others.end())) continue;
        found.expect(false, "rule 8: sample ", id, " is in ", to_string(first), " of pipelines ",
                     ids_text(members), " and in ", to_string(Task{pass, piece.pack}), " of ",
                     ids_text(others), "; expected all its packs on the same pipelines in the same order");
        break;
      }
    }
  }
}

/// The plan format's rules, for a plan whose shapes and values are right. A check relies on those before it:
/// what they find keeps it from running on nonsense.
inline void check_rules(const Plan& plan, Violations& found) {
  check_flops(plan, found);
  const SampleSlices forward(plan.forward.packs, plan.tokens.size());
  const SampleSlices backward(plan.backward.packs, plan.tokens.size());
  check_tokens(plan, Pass::forward, forward, found);
  check_tokens(plan, Pass::backward, backward, found);
  OrderCheck(plan, found).run();
  check_groups(plan, forward, backward, found);
  ShardingCheck(plan, forward, backward, found).run();
  if (found.none()) SampleOrderCheck(plan, forward, backward, found).run();
  if (found.none()) check_times(plan, found);
  found.expect(plan.step.lower_bound_seconds <= plan.step.seconds * (1.0 + 1e-12),
               "rule 6: step.lower_bound_seconds is ", all_digits(plan.step.lower_bound_seconds),
               "; expected at most step.seconds = ", all_digits(plan.step.seconds));
}

}  // namespace slimpack::detail
