#include "naive.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "prices_of_plan.hpp"
#include "slimpack/core/error.hpp"
#include "tests/plan/held_tokens.hpp"

namespace campaign {

namespace {

struct Piece {
  Tokens begin = 0, end = 0;
  std::uint32_t pack = 0;
};

/// [sample] its slices in a pass, in token order.
using Pieces = std::vector<std::vector<Piece>>;

Pieces pieces_of(const PassPlan& pass, std::size_t samples) {
  Pieces pieces(samples);
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    for (const Slice& slice : pass.packs[k])
      pieces[slice.sample].push_back({slice.begin, slice.end, static_cast<std::uint32_t>(k)});
  }
  for (auto& own : pieces)
    std::sort(own.begin(), own.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return pieces;
}

constexpr double not_yet = -1.0;

class NaiveLoop {
 public:
  explicit NaiveLoop(const Plan& plan)
      : plan_(plan),
        forward_(pieces_of(plan.forward, plan.tokens.size())),
        backward_(pieces_of(plan.backward, plan.tokens.size())) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t k = 0; k < plan.of(pass).packs.size(); ++k)
        finish_[index(pass)].emplace_back(plan.of(pass).seconds[k].size(), not_yet);
    }
    for (const PipelinePlan& pipeline : plan.pipelines) {
      next_.emplace_back(pipeline.stages(), 0);
      free_.emplace_back(pipeline.stages(), 0.0);
    }
  }

  void run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t p = 0; p < next_.size(); ++p) {
        for (std::size_t s = 0; s < next_[p].size(); ++s) {
          while (run_next(p, s)) progress = true;
        }
      }
    }
  }

  [[nodiscard]] bool complete() const {
    for (std::size_t p = 0; p < next_.size(); ++p) {
      for (std::size_t s = 0; s < next_[p].size(); ++s) {
        if (next_[p][s] < plan_.pipelines[p].order[s].size()) return false;
      }
    }
    return true;
  }

  [[nodiscard]] double seconds() const { return last_; }

 private:
  static std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  bool run_next(std::size_t p, std::size_t s) {
    const auto& order = plan_.pipelines[p].order[s];
    if (next_[p][s] == order.size()) return false;
    const Task task = order[next_[p][s]];
    const auto members = plan_.of(task.pass).pipelines[task.pack];
    double start = 0.0;
    for (const PipelineId q : members) {
      const auto& other = plan_.pipelines[q].order[s];
      if (next_[q][s] == other.size() || !(other[next_[q][s]] == task)) return false;
      start = std::max(start, free_[q][s]);
    }
    const double needed = ready(task, s);
    if (needed == not_yet) return false;
    const double end = std::max(start, needed) + plan_.of(task.pass).seconds[task.pack][s];
    finish_[index(task.pass)][task.pack][s] = end;
    last_ = std::max(last_, end);
    for (const PipelineId q : members) {
      free_[q][s] = end;
      ++next_[q][s];
    }
    return true;
  }

  /// When all that a task needs has come; not_yet if something has not run.
  [[nodiscard]] double ready(Task task, std::size_t s) const {
    const bool forward = task.pass == Pass::forward;
    const PassPlan& pass = plan_.of(task.pass);
    const auto& own = finish_[index(task.pass)];
    const std::size_t last = pass.seconds[task.pack].size() - 1;
    double time = 0.0;
    bool missing = false;
    const auto wait_for = [&](double finish, double lag) {
      missing = missing || finish == not_yet;
      time = std::max(time, finish + lag);
    };
    if (forward && s > 0) wait_for(own[task.pack][s - 1], boundary_lag(pass, task.pack, s - 1));
    if (!forward && s < last) wait_for(own[task.pack][s + 1], boundary_lag(pass, task.pack, s));
    for (const Slice& slice : pass.packs[task.pack]) {
      for (const Piece& other : (forward ? forward_ : backward_)[slice.sample]) {
        const bool before = forward ? other.begin < slice.begin : other.begin > slice.begin;
        if (before && other.pack != task.pack) wait_for(own[other.pack][s], 0.0);
      }
      if (forward || s < last) continue;
      for (const Piece& other : forward_[slice.sample]) wait_for(finish_[0][other.pack][s], 0.0);
    }
    return missing ? not_yet : time;
  }

  const Plan& plan_;
  Pieces forward_, backward_;
  std::array<std::vector<std::vector<double>>, 2> finish_;  // [pass][pack][stage]
  std::vector<std::vector<std::size_t>> next_;              // [pipeline][stage] place in the order
  std::vector<std::vector<double>> free_;                   // [pipeline][stage]
  double last_ = 0.0;
};

/// What a pack has in common with each pack of the other pass, and the samples that it begins to give back.
struct PackContents {
  std::vector<std::pair<std::uint32_t, Slice>> shared;
  std::vector<Slice> begun;
};

class NaiveMemory {
 public:
  NaiveMemory(const Plan& plan, const TransformerMemory& memory)
      : plan_(plan),
        memory_(memory),
        forward_(plan.forward.packs.size()),
        backward_(plan.backward.packs.size()) {
    const Pieces forward = pieces_of(plan.forward, plan.tokens.size());
    const Pieces backward = pieces_of(plan.backward, plan.tokens.size());
    for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
      if (backward[i].empty()) continue;
      const auto id = static_cast<SampleId>(i);
      backward_[backward[i].back().pack].begun.push_back({id, 0, plan.tokens[i]});
      for (const Piece& f : forward[i]) {
        for (const Piece& b : backward[i]) {
          const Slice common{id, std::max(f.begin, b.begin), std::min(f.end, b.end)};
          if (common.size() <= 0) continue;
          forward_[f.pack].shared.emplace_back(b.pack, common);
          backward_[b.pack].shared.emplace_back(f.pack, common);
        }
      }
    }
  }

  [[nodiscard]] double peak(std::size_t p, std::size_t s) const {
    double held = memory_.static_bytes(s), peak = held;
    const double gradient = memory_.kv_gradient_bytes(s);
    for (const Task task : plan_.pipelines[p].order[s]) {
      if (task.pass == Pass::forward) {
        for (const auto& [backward, slice] : forward_[task.pack].shared)
          held += own(task, p, slice) * kept(backward, s);
        peak = std::max(peak, held + beside(task, p, s));
      } else {
        for (const Slice& sample : backward_[task.pack].begun) held += gradient * own(task, p, sample);
        peak = std::max(peak, held + beside(task, p, s));
        for (const auto& [forward, slice] : backward_[task.pack].shared)
          held -= own(task, p, slice) * (kept(task.pack, s) + gradient);
      }
    }
    return peak;
  }

 private:
  [[nodiscard]] double own(Task task, std::size_t p, const Slice& slice) const {
    return testing::held_tokens(plan_, task.pass, task.pack, p, slice);
  }
  [[nodiscard]] double kept(std::size_t backward, std::size_t s) const {
    return memory_.activation_bytes(s, plan_.backward.recompute_layers[backward][s]);
  }
  /// Bytes that are there only while a task runs.
  [[nodiscard]] double beside(Task task, std::size_t p, std::size_t s) const {
    const PassPlan& pass = plan_.of(task.pass);
    double held = 0.0;
    for (const Slice& slice : pass.packs[task.pack]) held += own(task, p, slice);
    const auto tokens = static_cast<Tokens>(std::ceil(held - 1e-6));
    const int recompute_layers =
        task.pass == Pass::backward ? plan_.backward.recompute_layers[task.pack][s] : 0;
    return memory_.workspace_bytes(s, task.pass, tokens, recompute_layers) +
           exchange_bytes(memory_, s, task.pass, count_tokens(pass.packs[task.pack]),
                          pass.pipelines[task.pack].size());
  }

  const Plan& plan_;
  const TransformerMemory& memory_;
  std::vector<PackContents> forward_, backward_;
};

}  // namespace

NaiveRun run_naively(const Plan& plan, const TransformerMemory& memory) {
  NaiveLoop loop(plan);
  loop.run();
  NaiveRun run{.complete = loop.complete(), .seconds = loop.seconds(), .peak_bytes = {}};
  const NaiveMemory count(plan, memory);
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    auto& peaks = run.peak_bytes.emplace_back();
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) peaks.push_back(count.peak(p, s));
  }
  return run;
}

std::string difference(const Plan& a, const Plan& b) {
  const auto same_pass = [](const PassPlan& x, const PassPlan& y) {
    return x.packs == y.packs && x.pipelines == y.pipelines && x.seconds == y.seconds &&
           x.transfer_seconds == y.transfer_seconds && x.sharding == y.sharding &&
           x.recompute_layers == y.recompute_layers;
  };
  if (a.step.seconds != b.step.seconds)
    return concat("steps of ", a.step.seconds, " and ", b.step.seconds, " seconds");
  if (a.step.lower_bound_seconds != b.step.lower_bound_seconds) return "lower bounds";
  if (a.step.peak_bytes != b.step.peak_bytes) return "peaks of memory";
  if (!same_pass(a.forward, b.forward)) return "forward packs";
  if (!same_pass(a.backward, b.backward)) return "backward packs";
  if (a.pipelines.size() != b.pipelines.size()) return "numbers of pipelines";
  for (std::size_t p = 0; p < a.pipelines.size(); ++p) {
    if (a.pipelines[p].order != b.pipelines[p].order) return concat("orders of pipeline ", p);
  }
  return a.notes == b.notes ? "" : "notes";
}

}  // namespace campaign
