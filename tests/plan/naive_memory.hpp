#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/plan/plan.hpp"
#include "tests/plan/held_tokens.hpp"
#include "tests/plan/pieces.hpp"

namespace slimpack::testing {

/// Counts what comes and goes on every stage in its order, by the rules of plan/memory.hpp, from the plan's lists alone. Shares
/// nothing with the library's curves of memory.
template <class M>
class NaiveMemory {
 public:
  /// Bytes of a stage while each task of its order runs, and after it. Weight-gradient tasks hold nothing and have no entry.
  struct Stage {
    std::vector<double> during, after;
    double peak = 0.0;
  };

  NaiveMemory(const Plan& plan, const M& memory)
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
          forward_[f.pack].parts.emplace_back(b.pack, common);
          backward_[b.pack].parts.emplace_back(b.pack, common);
        }
      }
    }
  }

  [[nodiscard]] Stage stage(std::size_t p, std::size_t s) const {
    double held = memory_.static_bytes(s);
    const double gradient = memory_.kv_gradient_bytes(s);
    Stage stage{.during = {}, .after = {}, .peak = held};
    for (const Task task : plan_.pipelines[p].order[s]) {
      if (task.pass == Pass::weight) continue;
      const Load load = load_of(task, p, s);
      if (task.pass == Pass::forward) {
        held += load.kept;
      } else {
        for (const Slice& sample : backward_[task.pack].begun)
          held += gradient * held_tokens(plan_, task.pass, task.pack, p, sample);
      }
      stage.during.push_back(held + workspace(task, s, load));
      stage.peak = std::max(stage.peak, stage.during.back());
      if (task.pass == Pass::backward) held -= load.kept + load.tokens * gradient;
      stage.after.push_back(held);
    }
    return stage;
  }

  [[nodiscard]] double peak(std::size_t p, std::size_t s) const { return stage(p, s).peak; }

 private:
  struct Contents {
    std::vector<std::pair<PackId, Slice>> parts;  ///< by the backward packs that run them
    std::vector<Slice> begun;                     ///< samples whose backward pass the pack begins
  };

  /// What a task's tokens mean for a stage of one of its pipelines.
  struct Load {
    double tokens = 0.0;
    double kept = 0.0;   ///< bytes from their forward to their backward task
    double moved = 0.0;  ///< tokens that have offloaded layers
  };

  [[nodiscard]] Load load_of(Task task, std::size_t p, std::size_t s) const {
    Load load;
    for (const auto& [backward, slice] :
         (task.pass == Pass::forward ? forward_ : backward_)[task.pack].parts) {
      const double tokens = held_tokens(plan_, task.pass, task.pack, p, slice);
      const int offload = plan_.backward.offload_of(backward, s);
      load.tokens += tokens;
      load.kept +=
          tokens * activation_bytes(memory_, s, plan_.backward.recompute_layers[backward][s], offload);
      if (offload > 0) load.moved += tokens;
    }
    return load;
  }

  /// Bytes that are there only while a task runs.
  [[nodiscard]] double workspace(Task task, std::size_t s, const Load& load) const {
    const PassPlan& pass = plan_.of(task.pass);
    const auto whole = [](double tokens) { return static_cast<Tokens>(std::ceil(tokens - 1e-6)); };
    const int recompute_layers =
        task.pass == Pass::backward ? plan_.backward.recompute_layers[task.pack][s] : 0;
    return memory_.workspace_bytes(s, task.pass, whole(load.tokens), recompute_layers) +
           exchange_bytes(memory_, s, task.pass, count_tokens(pass.packs[task.pack]),
                          pass.pipelines[task.pack].size(), pass.exchange_of(task.pack)) +
           transit_bytes(memory_, s, whole(load.moved));
  }

  const Plan& plan_;
  const M& memory_;
  std::vector<Contents> forward_, backward_;
};

/// @returns peak bytes, [pipeline][stage].
template <class M>
[[nodiscard]] std::vector<std::vector<double>> naive_peak_bytes(const Plan& plan, const M& memory) {
  const NaiveMemory<M> count(plan, memory);
  std::vector<std::vector<double>> peaks;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    auto& own = peaks.emplace_back();
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) own.push_back(count.peak(p, s));
  }
  return peaks;
}

}  // namespace slimpack::testing
