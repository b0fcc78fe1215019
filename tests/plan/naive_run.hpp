#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/plan/plan.hpp"
#include "tests/plan/pieces.hpp"

// A run of plans from their lists alone, without the library's graph, and orders that no strategy would choose.
namespace slimpack::testing {

/// What tasks wait for by the plan format's rules 2 and 3 and the pipeline's direction.
class NaiveRules {
 public:
  /// The task has to have ended on the stage, and the lag to have passed since.
  struct Requirement {
    Task task;
    std::size_t stage = 0;
    double lag = 0.0;
  };

  explicit NaiveRules(const Plan& plan)
      : plan_(plan),
        forward_(pieces_of(plan.forward, plan.tokens.size())),
        backward_(pieces_of(plan.backward, plan.tokens.size())) {}

  [[nodiscard]] std::size_t stages(Task t) const { return plan_.of(t.pass).seconds[t.pack].size(); }

  /// Calls `wait` with each requirement of a task on a stage.
  template <class F>
  void for_each(Task t, std::size_t stage, F&& wait) const {
    if (t.pass == Pass::weight) return wait(Requirement{{Pass::backward, t.pack}, stage, 0.0});
    const bool forward = t.pass == Pass::forward;
    const PassPlan& pass = plan_.of(t.pass);
    const std::size_t last = stages(t) - 1;
    const auto lags = pass.transfer_seconds[t.pack];
    if (forward && stage > 0) wait(Requirement{t, stage - 1, lags[stage - 1]});
    if (!forward && stage < last) wait(Requirement{t, stage + 1, lags[stage]});
    for (const Slice& own : pass.packs[t.pack]) {
      for (const Piece& other : (forward ? forward_ : backward_)[own.sample]) {
        const bool before = forward ? other.begin < own.begin : other.begin > own.begin;
        if (before && other.pack != t.pack) wait(Requirement{{t.pass, other.pack}, stage, 0.0});
      }
      if (forward || stage < last) continue;
      for (const Piece& other : forward_[own.sample])
        wait(Requirement{{Pass::forward, other.pack}, stage, 0.0});
    }
  }

 private:
  const Plan& plan_;
  Pieces forward_, backward_;
};

/// Runs each task as soon as it is next on the stages of all its members and all that it waits for has ended, phase by phase.
class NaiveRun {
 public:
  std::vector<std::vector<std::vector<double>>> start, finish;  ///< [pipeline][stage][place in the order]
  double seconds = 0.0;                                         ///< when the last task that ran ended
  bool complete = false;                                        ///< false: stages wait for each other

  explicit NaiveRun(const Plan& plan) : plan_(plan), rules_(plan) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t k = 0; k < plan.of(pass).packs.size(); ++k)
        ended_[index(pass)].emplace_back(plan.of(pass).seconds[k].size(), not_yet);
    }
    for (const PipelinePlan& pipeline : plan.pipelines) {
      start.emplace_back(pipeline.stages());
      finish.emplace_back(pipeline.stages());
    }
    for (std::size_t phase = 0; phase < plan.phases(); ++phase) {
      if (phase > 0) seconds = begin_ = seconds + plan.step.switch_seconds[phase - 1];
      if (!run(phase)) return;
    }
    complete = true;
  }

 private:
  static constexpr double not_yet = -1.0;

  static std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  /// @returns whether all tasks of the phase ran.
  bool run(std::size_t phase) {
    bool progress = true, all = false;
    while (progress) {
      progress = false;
      all = true;
      for (std::size_t p = 0; p < start.size(); ++p) {
        if (static_cast<std::size_t>(plan_.pipelines[p].phase) != phase) continue;
        for (std::size_t s = 0; s < start[p].size(); ++s) {
          while (run_next(p, s)) progress = true;
          all = all && start[p][s].size() == plan_.pipelines[p].order[s].size();
        }
      }
    }
    return all;
  }

  [[nodiscard]] std::vector<PipelineId> members(Task t, std::size_t p) const {
    if (t.pass == Pass::weight) return {static_cast<PipelineId>(p)};
    const auto all = plan_.of(t.pass).pipelines[t.pack];
    return {all.begin(), all.end()};
  }

  [[nodiscard]] double duration(Task t, std::size_t s) const {
    if (t.pass != Pass::weight) return plan_.of(t.pass).seconds[t.pack][s];
    const auto& all = plan_.backward.weight_seconds;
    return all.empty() || all[t.pack].empty() ? 0.0 : all[t.pack][s];
  }

  bool run_next(std::size_t p, std::size_t s) {
    if (start[p][s].size() == plan_.pipelines[p].order[s].size()) return false;
    const Task task = plan_.pipelines[p].order[s][start[p][s].size()];
    const std::vector<PipelineId> all = members(task, p);
    double from = begin_;
    for (const PipelineId q : all) {
      const auto& order = plan_.pipelines[q].order[s];
      const auto& ends = finish[q][s];
      if (ends.size() == order.size() || !(order[ends.size()] == task)) return false;
      if (!ends.empty()) from = std::max(from, ends.back());
    }
    rules_.for_each(task, s, [&](const NaiveRules::Requirement& r) {
      const double ended = ended_[index(r.task.pass)][r.task.pack][r.stage];
      from = std::max(from, ended == not_yet ? std::numeric_limits<double>::infinity() : ended + r.lag);
    });
    if (from == std::numeric_limits<double>::infinity()) return false;
    const double end = from + duration(task, s);
    if (task.pass != Pass::weight) ended_[index(task.pass)][task.pack][s] = end;
    seconds = std::max(seconds, end);
    for (const PipelineId q : all) {
      start[q][s].push_back(from);
      finish[q][s].push_back(end);
    }
    return true;
  }

  const Plan& plan_;
  NaiveRules rules_;
  double begin_ = 0.0;                                     // of the phase
  std::array<std::vector<std::vector<double>>, 2> ended_;  // [pass][pack][stage]
};

/// Seconds of a plan's pipelines; infinite if stages wait for each other.
[[nodiscard]] inline double naive_seconds(const Plan& plan) {
  const NaiveRun run(plan);
  return run.complete ? run.seconds : std::numeric_limits<double>::infinity();
}

/// Gives all stages a random order that can run: any task whose requirements have run is put next.
inline void shuffle_orders(Plan& plan, std::uint64_t seed) {
  struct Item {
    Task task;
    std::size_t stage;
  };
  std::mt19937_64 random(seed);
  const NaiveRules rules(plan);
  std::vector<Item> left;
  bool weights = false;
  for (auto& pipeline : plan.pipelines) {
    for (auto& order : pipeline.order) {
      for (const Task t : order) weights = weights || t.pass == Pass::weight;
      order.clear();
    }
  }
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight}) {
    if (pass == Pass::weight && !weights) continue;
    for (PackId k = 0; k < plan.of(pass).packs.size(); ++k) {
      for (std::size_t s = 0; s < rules.stages({pass, k}); ++s) left.push_back({{pass, k}, s});
    }
  }
  while (!left.empty()) {
    const std::size_t i = random() % left.size();
    const Item item = left[i];
    bool ready = true;
    rules.for_each(item.task, item.stage, [&](const NaiveRules::Requirement& r) {
      ready = ready && std::none_of(left.begin(), left.end(), [&](const Item& other) {
                return other.task == r.task && other.stage == r.stage;
              });
    });
    if (!ready) continue;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    for (const PipelineId p : plan.of(item.task.pass).pipelines[item.task.pack]) {
      plan.pipelines[p].order[item.stage].push_back(item.task);
    }
  }
}

}  // namespace slimpack::testing
