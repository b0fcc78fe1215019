#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/plan/plan.hpp"

// An event simulation of plans, written without the library's graph, and orders that no strategy would
// choose.
namespace slimpack::testing {

/// What a task waits for by the plan format's rules 2 and 3 and the pipeline's direction, read off the
/// plan's lists.
struct NaiveRules {
  struct Requirement {
    Task task;
    std::size_t stage;
    double lag;
  };

  const Plan& plan;

  [[nodiscard]] std::size_t stages(Task t) const { return plan.of(t.pass).seconds[t.pack].size(); }

  [[nodiscard]] std::vector<Requirement> of(Task t, std::size_t stage) const {
    if (t.pass == Pass::weight) return {{{Pass::backward, t.pack}, stage, 0.0}};
    std::vector<Requirement> result;
    const bool forward = t.pass == Pass::forward;
    const std::size_t last = stages(t) - 1;
    const auto lags = plan.of(t.pass).transfer_seconds[t.pack];
    if (forward && stage > 0) result.push_back({t, stage - 1, lags[stage - 1]});
    if (!forward && stage < last) result.push_back({t, stage + 1, lags[stage]});
    for (const Slice& own : plan.of(t.pass).packs[t.pack]) {
      for (PackId k = 0; k < plan.of(t.pass).packs.size(); ++k) {
        for (const Slice& other : plan.of(t.pass).packs[k]) {
          const bool before = forward ? other.begin < own.begin : other.begin > own.begin;
          if (k != t.pack && other.sample == own.sample && before)
            result.push_back({{t.pass, k}, stage, 0.0});
        }
      }
      if (forward || stage != last) continue;
      for (PackId k = 0; k < plan.forward.packs.size(); ++k) {
        for (const Slice& other : plan.forward.packs[k]) {
          if (other.sample == own.sample) result.push_back({{Pass::forward, k}, stage, 0.0});
        }
      }
    }
    return result;
  }
};

/// Gives all stages a random order that can run: any task whose requirements have run is put next.
inline void shuffle_orders(Plan& plan, std::uint64_t seed) {
  struct Item {
    Task task;
    std::size_t stage;
  };
  std::mt19937_64 random(seed);
  const NaiveRules rules{plan};
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
  const auto has_run = [&](const NaiveRules::Requirement& r) {
    return std::none_of(left.begin(), left.end(),
                        [&](const Item& item) { return item.task == r.task && item.stage == r.stage; });
  };
  while (!left.empty()) {
    const std::size_t i = random() % left.size();
    const Item item = left[i];
    const auto needs = rules.of(item.task, item.stage);
    if (!std::all_of(needs.begin(), needs.end(), has_run)) continue;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    for (const PipelineId p : plan.of(item.task.pass).pipelines[item.task.pack]) {
      plan.pipelines[p].order[item.stage].push_back(item.task);
    }
  }
}

/// Runs a plan moment by moment: whenever a task is next on the stages of all its members and its
/// requirements are met, it starts; otherwise time moves on to the next moment at which something changes.
class EventLoop {
 public:
  explicit EventLoop(const Plan& plan) : plan_(plan), rules_{plan} {
    for (const PipelinePlan& pipeline : plan.pipelines) {
      next_.emplace_back(pipeline.order.size(), 0);
      free_.emplace_back(pipeline.order.size(), 0.0);
      start.emplace_back(pipeline.order.size());
      finish.emplace_back(pipeline.order.size());
    }
    while (start_something() || advance()) {
    }
  }

  std::vector<std::vector<std::vector<double>>> start, finish;  ///< [pipeline][stage][place in the order]
  double seconds = 0.0;

  [[nodiscard]] bool complete() const {
    for (std::size_t p = 0; p < next_.size(); ++p) {
      for (std::size_t s = 0; s < next_[p].size(); ++s) {
        if (next_[p][s] != plan_.pipelines[p].order[s].size()) return false;
      }
    }
    return true;
  }

 private:
  using Key = std::pair<std::string, std::size_t>;

  [[nodiscard]] std::vector<PipelineId> members(Task t, std::size_t p) const {
    if (t.pass == Pass::weight) return {static_cast<PipelineId>(p)};
    const auto all = plan_.of(t.pass).pipelines[t.pack];
    return {all.begin(), all.end()};
  }

  [[nodiscard]] bool is_next(Task t, std::size_t p, std::size_t s) const {
    const auto& order = plan_.pipelines[p].order[s];
    return next_[p][s] < order.size() && order[next_[p][s]] == t && free_[p][s] <= now_;
  }

  [[nodiscard]] bool can_start(Task t, std::size_t p, std::size_t s) const {
    for (const PipelineId q : members(t, p)) {
      if (!is_next(t, q, s)) return false;
    }
    for (const auto& r : rules_.of(t, s)) {
      const auto ended = ended_.find({to_string(r.task), r.stage});
      if (ended == ended_.end() || ended->second + r.lag > now_) return false;
    }
    return true;
  }

  bool start_something() {
    for (std::size_t p = 0; p < next_.size(); ++p) {
      for (std::size_t s = 0; s < next_[p].size(); ++s) {
        if (next_[p][s] == plan_.pipelines[p].order[s].size()) continue;
        const Task t = plan_.pipelines[p].order[s][next_[p][s]];
        if (!can_start(t, p, s)) continue;
        const double end =
            now_ + (t.pass != Pass::weight                     ? plan_.of(t.pass).seconds[t.pack][s]
                    : plan_.backward.weight_seconds.size() > 0 ? plan_.backward.weight_seconds[t.pack][s]
                                                               : 0.0);
        for (const PipelineId q : members(t, p)) {
          start[q][s].push_back(now_);
          finish[q][s].push_back(end);
          free_[q][s] = end;
          ++next_[q][s];
        }
        moments_.push_back(end);
        if (t.pass != Pass::weight) {
          ended_[{to_string(t), s}] = end;
          for (const double lag : plan_.of(t.pass).transfer_seconds[t.pack]) moments_.push_back(end + lag);
        }
        seconds = std::max(seconds, end);
        return true;
      }
    }
    return false;
  }

  bool advance() {
    double to = std::numeric_limits<double>::infinity();
    for (const double moment : moments_) {
      if (moment > now_) to = std::min(to, moment);
    }
    if (to == std::numeric_limits<double>::infinity()) return false;
    now_ = to;
    return true;
  }

  const Plan& plan_;
  NaiveRules rules_;
  double now_ = 0.0;
  std::vector<std::vector<std::size_t>> next_;
  std::vector<std::vector<double>> free_;
  std::map<Key, double> ended_;
  std::vector<double> moments_;
};

/// One pipeline of `stages` stages in 1F1B order: `micro_batches` samples of `tokens` tokens, each its own
/// pack in both passes.
inline Plan equal_plan(std::size_t stages, std::size_t micro_batches, double forward, double backward,
                       Tokens tokens = 8) {
  Plan plan;
  PipelinePlan& pipeline = plan.pipelines.emplace_back();
  pipeline.layers.assign(stages, 2);
  for (std::size_t i = 0; i < micro_batches; ++i) {
    plan.tokens.push_back(tokens);
    for (PassPlan* pass : {&plan.forward, &plan.backward}) {
      pass->packs.add({static_cast<SampleId>(i), 0, tokens});
      pass->packs.close();
      pass->pipelines.add_row(1, 0);
      pass->flops.emplace_back();
      pass->seconds.add_row(stages, pass == &plan.forward ? forward : backward);
      pass->transfer_seconds.add_row(stages - 1, 0.0);
      pass->sharding.push_back(Sharding::none);
    }
    plan.backward.recompute_layers.add_row(stages, 0);
  }
  for (std::size_t s = 0; s < stages; ++s) {
    auto& order = pipeline.order.emplace_back();
    PackId next = 0;
    for (PackId k = 0; k < micro_batches; ++k) {
      while (next < micro_batches && next < k + stages - s) order.push_back({Pass::forward, next++});
      order.push_back({Pass::backward, k});
    }
  }
  return plan;
}

}  // namespace slimpack::testing
