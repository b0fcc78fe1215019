#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/plan/plan.hpp"
#include "tests/plan/held_tokens.hpp"

namespace oracle {

using namespace slimpack;

/// Seconds of a plan by running it: again and again, every pipeline's every stage starts its next task if all
/// that the rules ask for is done; a phase begins when all tasks of the ones before it are, and its switch. Knows nothing of graphs; quadratic and proud of it. Infinite if the plan
/// gets stuck.
inline double run(const Plan& plan) {
  const std::size_t passes = 2;
  const auto index = [](Pass p) { return p == Pass::forward ? std::size_t{0} : std::size_t{1}; };
  std::vector<std::vector<std::vector<double>>> finish(passes);  // [pass][pack][stage], < 0: not yet
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (std::size_t k = 0; k < plan.of(pass).packs.size(); ++k) {
      finish[index(pass)].emplace_back(plan.of(pass).seconds[k].size(), -1.0);
    }
  }
  std::vector<std::vector<std::size_t>> next(plan.pipelines.size());
  std::vector<std::vector<double>> free(plan.pipelines.size());
  std::size_t left = 0;
  for (const PipelinePlan& p : plan.pipelines) {
    next[p.id].assign(p.stages(), 0);
    free[p.id].assign(p.stages(), 0.0);
    for (const auto& order : p.order) left += order.size();
  }
  // When a task's slices allow it to start on a stage; infinite if something before it isn't done.
  const auto ready = [&](Task task, std::size_t s) {
    const bool forward = task.pass == Pass::forward;
    const PassPlan& pass = plan.of(task.pass);
    double at = 0.0;
    const auto wait = [&](double done) {
      at = std::max(at, done < 0.0 ? std::numeric_limits<double>::infinity() : done);
    };
    const std::size_t last = pass.seconds[task.pack].size() - 1;
    if (forward ? s > 0 : s < last) {
      const double done = finish[index(task.pass)][task.pack][forward ? s - 1 : s + 1];
      wait(done < 0.0 ? done : done + pass.transfer_seconds[task.pack][forward ? s - 1 : s]);
    }
    for (const Slice& own : pass.packs[task.pack]) {
      for (std::size_t k = 0; k < pass.packs.size(); ++k) {
        if (k == task.pack) continue;
        for (const Slice& other : pass.packs[k]) {
          if (other.sample == own.sample && (forward ? other.end <= own.begin : other.begin >= own.end)) {
            wait(finish[index(task.pass)][k][s]);
          }
        }
      }
      if (forward || s < last) continue;
      for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
        for (const Slice& other : plan.forward.packs[k]) {
          if (other.sample == own.sample) wait(finish[0][k][s]);
        }
      }
    }
    return at;
  };
  double end = 0.0, begin = 0.0;
  std::vector<std::size_t> left_in(plan.phases(), 0);
  for (const PipelinePlan& p : plan.pipelines) {
    for (const auto& order : p.order) left_in[static_cast<std::size_t>(p.phase)] += order.size();
  }
  std::size_t phase = 0;
  const auto next_phase = [&] {
    for (; left_in[phase] == 0 && phase + 1 < plan.phases(); ++phase)
      end = begin = end + plan.step.switch_seconds[phase];
  };
  next_phase();
  for (bool moved = true; left > 0 && moved;) {
    moved = false;
    for (const PipelinePlan& p : plan.pipelines) {
      if (static_cast<std::size_t>(p.phase) != phase) continue;
      for (std::size_t s = 0; s < p.stages(); ++s) {
        if (next[p.id][s] == p.order[s].size()) continue;
        const Task task = p.order[s][next[p.id][s]];
        const auto members = plan.of(task.pass).pipelines[task.pack];
        double start = std::max(begin, ready(task, s));
        for (const PipelineId m : members) {
          const auto& order = plan.pipelines[m].order[s];
          const bool there = next[m][s] < order.size() && order[next[m][s]] == task;
          start = there ? std::max(start, free[m][s]) : std::numeric_limits<double>::infinity();
        }
        if (start == std::numeric_limits<double>::infinity()) continue;
        const double done = start + plan.of(task.pass).seconds[task.pack][s];
        finish[index(task.pass)][task.pack][s] = done;
        for (const PipelineId m : members) {
          free[m][s] = done;
          ++next[m][s];
          --left;
          --left_in[phase];
        }
        end = std::max(end, done);
        moved = true;
      }
    }
    next_phase();
  }
  return left == 0 ? end : std::numeric_limits<double>::infinity();
}

/// Peak bytes of a stage by counting single tokens: which hold activations, which KV gradients, which have layers on their way
/// to the host's memory.
template <class M>
double peak_bytes(const Plan& plan, PipelineId pipeline, std::size_t s, const M& memory) {
  std::vector<std::vector<PackId>> backward_of(plan.tokens.size());
  for (std::size_t i = 0; i < plan.tokens.size(); ++i)
    backward_of[i].resize(static_cast<std::size_t>(plan.tokens[i]));
  for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
    for (const Slice& slice : plan.backward.packs[k]) {
      for (Tokens t = slice.begin; t < slice.end; ++t)
        backward_of[slice.sample][static_cast<std::size_t>(t)] = static_cast<PackId>(k);
    }
  }
  double held = memory.static_bytes(s), peak = held;
  std::vector<char> started(plan.tokens.size(), 0);
  for (const Task task : plan.pipelines[pipeline].order[s]) {
    const PassPlan& pass = plan.of(task.pass);
    const bool backward = task.pass == Pass::backward;
    const auto own = [&](SampleId id, Tokens begin, Tokens end) {
      return testing::held_tokens(plan, task.pass, task.pack, pipeline, {id, begin, end});
    };
    double freed = 0.0, tokens = 0.0, moving = 0.0;
    for (const Slice& slice : pass.packs[task.pack]) {
      if (backward && !started[slice.sample]) {
        started[slice.sample] = 1;
        held += memory.kv_gradient_bytes(s) * own(slice.sample, 0, plan.tokens[slice.sample]);
      }
      for (Tokens t = slice.begin; t < slice.end; ++t) {
        const PackId b = backward_of[slice.sample][static_cast<std::size_t>(t)];
        const int offload = plan.backward.offload_of(b, s);
        const double share = own(slice.sample, t, t + 1);
        const double bytes =
            activation_bytes(memory, s, plan.backward.recompute_layers[b][s], offload) * share;
        if (backward) {
          freed += bytes + memory.kv_gradient_bytes(s) * share;
        } else {
          held += bytes;
        }
        tokens += share;
        if (offload > 0) moving += share;
      }
    }
    const int recompute_layers = backward ? plan.backward.recompute_layers[task.pack][s] : 0;
    const auto whole = [](double count) { return static_cast<Tokens>(count + 0.999999); };
    peak = std::max(peak, held + memory.workspace_bytes(s, task.pass, whole(tokens), recompute_layers) +
                              transit_bytes(memory, s, whole(moving)));
    held -= freed;
  }
  return peak;
}

/// Lengths of a kind of batch: 0 heavy tail, 1 all equal, 2 one giant, 3 uniform.
inline std::vector<Tokens> random_lengths(std::mt19937& random, std::size_t n, int kind, Tokens most) {
  std::vector<Tokens> lengths;
  std::lognormal_distribution<double> tail(4.0, 1.6);
  std::uniform_int_distribution<Tokens> uniform(1, most);
  const Tokens equal = std::uniform_int_distribution<Tokens>(1, most / 4 + 1)(random);
  for (std::size_t i = 0; i < n; ++i) {
    const Tokens heavy = std::clamp<Tokens>(static_cast<Tokens>(tail(random)), 1, most);
    lengths.push_back(kind == 0   ? heavy
                      : kind == 1 ? equal
                      : kind == 2 ? std::min<Tokens>(heavy, 40)
                                  : uniform(random));
  }
  if (kind == 2) lengths[n / 2] = most;
  return lengths;
}

/// A small model on small devices, on which memory and compute both bind.
inline Job random_job(std::mt19937& random, std::int32_t dp, double memory_bytes) {
  const auto pick = [&](std::int32_t lo, std::int32_t hi) {
    return std::uniform_int_distribution<std::int32_t>(lo, hi)(random);
  };
  const std::int32_t pp = pick(1, 4);
  return {.model = {"tiny", pp * pick(1, 3), 64, 4, 2, 16, 160, 500},
          .device = {.name = "small",
                     .peak_flops = 1e12,
                     .gemm_efficiency = 0.5,
                     .gemm_backward_efficiency = 0.6,
                     .attention_forward = 0.4,
                     .attention_backward = 0.3,
                     .memory_bytes = memory_bytes,
                     .memory_bandwidth = 1e11,
                     .pack_overhead = 2e-6,
                     .intra_node = {1e10, 1e-6},
                     .inter_node = {1e9, 2e-6},
                     .host = {1e9, 1e-6},
                     .devices_per_node = 4},
          .layout = {.dp = dp, .tp = pick(0, 3) == 0 ? 2 : 1, .cp = 1, .pp = pp}};
}

}  // namespace oracle
