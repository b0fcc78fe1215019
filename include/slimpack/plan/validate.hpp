#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack {

namespace detail {

/// Checks a plan against the rules of the plan format. Each check relies only on those before it; the first group
/// that finds something ends the check.
class PlanChecker {
 public:
  PlanChecker(const Plan& plan, std::size_t most) : plan_(plan), most_(most) {}

  [[nodiscard]] std::vector<std::string> violations() {
    for (const auto check : {&PlanChecker::check_lists, &PlanChecker::check_values, &PlanChecker::check_orders,
                             &PlanChecker::check_tokens, &PlanChecker::check_flops, &PlanChecker::check_times}) {
      if (found_.empty()) (this->*check)();
    }
    return std::move(found_);
  }

 private:
  template <class... Parts>
  void expect(bool ok, const Parts&... parts) {
    if (!ok && found_.size() < most_) found_.push_back(concat(parts...));
  }

  static const char* name(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

  [[nodiscard]] std::size_t deferred_count() const { return plan_.deferred.size(); }

  /// Lists have one entry per pack, ids are in range, merged pipelines have equally many stages.
  void check_lists() {
    for (std::size_t p = 0; p < plan_.pipelines.size(); ++p) {
      const PipelinePlan& pipeline = plan_.pipelines[p];
      expect(pipeline.id == p, "pipelines[", p, "].id is ", pipeline.id, "; expected ", p);
      expect(pipeline.order.size() == pipeline.stages(), "pipelines[", p, "] orders ", pipeline.order.size(),
             " stages; expected ", pipeline.stages());
      expect(pipeline.tp > 0 && pipeline.cp > 0, "pipelines[", p, "] has tp ", pipeline.tp, " and cp ", pipeline.cp,
             "; expected positive numbers");
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      const std::size_t n = packs.packs.size();
      expect(packs.pipelines.size() == n && packs.flops.size() == n && packs.seconds.size() == n &&
                 packs.transfer_seconds.size() == n && packs.sharding.size() == n,
             name(pass), ": lists differ in length; expected one entry for each of ", n, " packs");
      expect(packs.recompute_layers.size() == (pass == Pass::forward ? 0 : n), name(pass), ": ",
             packs.recompute_layers.size(), " rows of recompute_layers; expected ", pass == Pass::forward ? 0 : n);
      for (std::size_t k = 0; k < n && found_.empty(); ++k) check_members(pass, k);
    }
    for (const SampleId id : plan_.deferred) {
      expect(id < plan_.tokens.size(), "deferred sample ", id, "; expected ids below ", plan_.tokens.size());
    }
  }

  void check_members(Pass pass, std::size_t k) {
    const PassPlan& packs = plan_.of(pass);
    expect(!packs.pipelines[k].empty(), name(pass), "[", k, "] has no pipeline; expected at least one");
    for (const PipelineId p : packs.pipelines[k]) {
      expect(p < plan_.pipelines.size(), name(pass), "[", k, "] runs on pipeline ", p, "; expected ids below ",
             plan_.pipelines.size());
      if (p >= plan_.pipelines.size()) return;
      const std::size_t stages = plan_.pipelines[p].stages();
      expect(packs.seconds[k].size() == stages, name(pass), "[", k, "] has ", packs.seconds[k].size(),
             " seconds; expected one for each of the ", stages, " stages of pipeline ", p);
      if (pass == Pass::backward) {
        expect(packs.recompute_layers[k].size() == stages, name(pass), "[", k, "] has ",
               packs.recompute_layers[k].size(), " recompute_layers; expected ", stages);
      }
    }
    for (const Slice& slice : packs.packs[k]) {
      expect(slice.sample < plan_.tokens.size(), name(pass), "[", k, "] holds sample ", slice.sample,
             "; expected ids below ", plan_.tokens.size());
      if (slice.sample >= plan_.tokens.size()) return;
      expect(0 <= slice.begin && slice.begin < slice.end && slice.end <= plan_.tokens[slice.sample], name(pass), "[", k,
             "] holds tokens ", slice.begin, " to ", slice.end, " of sample ", slice.sample, "; expected a part of its ",
             plan_.tokens[slice.sample], " tokens");
    }
  }

  void check_values() {
    for (std::size_t i = 0; i < plan_.tokens.size(); ++i) {
      expect(plan_.tokens[i] > 0, "tokens[", i, "] is ", plan_.tokens[i], "; expected a positive number");
    }
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      std::int64_t layers = 0;
      for (const std::int32_t l : pipeline.layers) layers += l;
      expect(layers == plan_.model.layers && std::all_of(pipeline.layers.begin(), pipeline.layers.end(),
                                                         [](std::int32_t l) { return l >= 0; }),
             "pipelines[", pipeline.id, "].layers sum to ", layers, "; expected the model's ", plan_.model.layers);
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        for (const double seconds : packs.seconds[k]) {
          expect(seconds > 0.0 && std::isfinite(seconds), name(pass), "[", k, "].seconds holds ", seconds,
                 "; expected positive numbers");
        }
        expect(packs.transfer_seconds[k] >= 0.0 && std::isfinite(packs.transfer_seconds[k]), name(pass), "[", k,
               "].transfer_seconds is ", packs.transfer_seconds[k], "; expected a number, not negative");
        if (pass == Pass::backward) check_recompute(k);
      }
    }
    const StepPlan& step = plan_.step;
    for (const double value : {step.seconds, step.sync_seconds, step.pipeline_seconds, step.lower_bound_seconds}) {
      expect(value >= 0.0 && std::isfinite(value), "step holds ", value, " seconds; expected numbers, not negative");
    }
    expect(step.peak_bytes.empty() || step.peak_bytes.size() == plan_.pipelines.size(), "step.peak_bytes has ",
           step.peak_bytes.size(), " rows; expected one for each of ", plan_.pipelines.size(), " pipelines");
  }

  void check_recompute(std::size_t k) {
    const auto& layers = plan_.pipelines[plan_.backward.pipelines[k].front()].layers;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const std::int32_t again = plan_.backward.recompute_layers[k][s];
      expect(again >= 0 && again <= layers[s], "backward[", k, "].recompute_layers is ", again, " on stage ", s,
             "; expected 0 to ", layers[s]);
    }
  }

  /// Rule 4: every stage of a pipeline runs each of the pipeline's packs once.
  void check_orders() {
    std::vector<std::vector<Task>> owned(plan_.pipelines.size());
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        for (const PipelineId p : packs.pipelines[k]) owned[p].push_back({pass, static_cast<PackId>(k)});
      }
    }
    const auto less = [](Task a, Task b) { return std::pair(a.pass, a.pack) < std::pair(b.pass, b.pack); };
    std::vector<Task> order;
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      for (std::size_t s = 0; s < pipeline.order.size(); ++s) {
        check_weight_tasks(pipeline, s);
        order.clear();
        for (const Task task : pipeline.order[s]) {
          if (task.pass != Pass::weight) order.push_back(task);
        }
        std::sort(order.begin(), order.end(), less);
        if (order == owned[pipeline.id]) continue;
        const auto at = std::mismatch(order.begin(), order.end(), owned[pipeline.id].begin(), owned[pipeline.id].end());
        expect(false, "rule 4: stage ", s, " of pipeline ", pipeline.id, " does not run each of its packs once; first at ",
               at.first != order.end() ? to_string(*at.first) : "the missing " + to_string(*at.second));
      }
    }
  }

  /// Weight gradients come once, behind their backward task.
  void check_weight_tasks(const PipelinePlan& pipeline, std::size_t s) {
    std::vector<std::uint8_t> state(plan_.backward.packs.size(), 0);  // 1: backward ran, 2: weight gradient, too
    for (const Task task : pipeline.order[s]) {
      if (task.pass == Pass::forward) continue;
      if (task.pass == Pass::weight || task.pack >= state.size()) {
        expect(task.pack < state.size() && state[task.pack] == 1, "rule 4: stage ", s, " of pipeline ", pipeline.id, " runs ", to_string(task),
               " without one backward task before it");
        if (task.pack >= state.size()) continue;
      }
      state[task.pack] = task.pass == Pass::weight ? 2 : 1;
    }
  }

  /// Rule 1: every token of every sample that is not deferred once in each pass.
  void check_tokens() {
    std::vector<std::uint8_t> deferred(plan_.tokens.size(), 0);
    for (const SampleId id : plan_.deferred) deferred[id] = 1;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto& all = plan_.of(pass).packs.slices();
      std::vector<Slice> slices(all.begin(), all.end());
      std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
        return std::pair(a.sample, a.begin) < std::pair(b.sample, b.begin);
      });
      std::size_t next = 0;
      for (SampleId id = 0; id < plan_.tokens.size(); ++id) {
        Tokens reached = 0;
        for (; next < slices.size() && slices[next].sample == id; ++next) {
          expect(slices[next].begin == reached, "rule 1: ", name(pass), " slice of sample ", id, " begins at ",
                 slices[next].begin, "; expected ", reached);
          reached = slices[next].end;
        }
        const Tokens expected = deferred[id] != 0 ? 0 : plan_.tokens[id];
        expect(reached == expected, "rule 1: ", name(pass), " packs hold ", reached, " tokens of sample ", id,
               "; expected ", expected);
      }
    }
  }

  static bool close(double a, double b, double tolerance) {
    return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
  }

  void check_flops() {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        const Flops expected = pack_flops(plan_.model, packs.packs[k], pass);
        expect(close(packs.flops[k].linear, expected.linear, 1e-9) &&
                   close(packs.flops[k].attention, expected.attention, 1e-9),
               name(pass), "[", k, "].flops are ", packs.flops[k].linear, " and ", packs.flops[k].attention,
               "; expected ", expected.linear, " and ", expected.attention);
      }
    }
  }

  /// Rules 2, 3 and 4 hold where the graph of all dependencies and orders has no cycle; then 5 and 6.
  void check_times() {
    const StepPlan& step = plan_.step;
    try {
      const double longest = time_plan(plan_).seconds;
      expect(close(step.seconds - step.sync_seconds, longest, 1e-6), "rule 5: step.seconds - step.sync_seconds is ",
             step.seconds - step.sync_seconds, "; expected the longest path of ", longest);
      expect(close(step.pipeline_seconds, longest, 1e-6), "rule 5: step.pipeline_seconds is ", step.pipeline_seconds,
             "; expected the longest path of ", longest);
    } catch (const InvalidInput& error) {
      expect(false, "rules 2 to 4: ", std::string(error.what()));
    }
    expect(step.lower_bound_seconds <= step.seconds * (1.0 + 1e-12), "rule 6: step.lower_bound_seconds is ",
           step.lower_bound_seconds, "; expected at most step.seconds = ", step.seconds);
  }

  const Plan& plan_;
  std::size_t most_;
  std::vector<std::string> found_;
};

}  // namespace detail

/// What a plan breaks of the plan format's rules, each with its place and values; empty for a valid plan. Independent
/// of how the plan was made.
/// @param most stops after so many. O(tasks + slices log slices).
[[nodiscard]] inline std::vector<std::string> violations(const Plan& plan, std::size_t most = 20) {
  return detail::PlanChecker(plan, most).violations();
}

/// @throws InvalidInput with the first violation.
inline void validate(const Plan& plan) {
  const auto found = violations(plan, 1);
  if (!found.empty()) throw InvalidInput("invalid plan: " + found.front());
}

}  // namespace slimpack
