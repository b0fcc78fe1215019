#include "slimpack/exec/budget.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "slimpack/exec/context_members.hpp"
#include "tests/exec/planned_owners.hpp"
#include "tests/exec/plans.hpp"
#include "tests/plan/equal_plan.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using slimpack::testing::for_each_plan;

namespace {

/// Whole numbers, so that sums are exact in whatever order they are formed.
struct WholeBytes {
  [[nodiscard]] double capacity_bytes() const { return 1e15; }
  [[nodiscard]] double static_bytes(std::size_t stage) const { return 1000.0 + double(stage); }
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers) const {
    return 640.0 + double(stage) - 16.0 * recompute_layers;
  }
  [[nodiscard]] double activation_bytes(std::size_t stage, int recompute_layers, int offload_layers) const {
    return activation_bytes(stage, recompute_layers) - host_bytes(stage, recompute_layers, offload_layers);
  }
  [[nodiscard]] double host_bytes(std::size_t stage, int recompute_layers, int offload_layers) const {
    return offload_layers * (20.0 + double(stage)) - double(recompute_layers > 0 ? offload_layers : 0);
  }
  [[nodiscard]] double transit_bytes(std::size_t stage, Tokens tokens) const {
    return double(tokens) * (30.0 + double(stage));
  }
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const { return 40.0 + double(stage); }
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens tokens,
                                       int recompute_layers) const {
    return double(tokens) * (pass == Pass::forward ? 2.0 : 3.0 + 8.0 * recompute_layers) + double(stage);
  }
};

struct Peaks {
  double device = 0.0, host = 0.0;
};

/// The high-water marks by asking for each token at each task whether it is held.
Peaks count_token_by_token(const StageProgram& program, const WholeBytes& memory) {
  struct Life {
    std::size_t forward, backward, last;
    int recompute, offload;
  };
  const Plan& plan = program.plan();
  const testing::PlannedOwners owners(plan, program.owners().block());
  const auto tasks = program.tasks();
  const std::size_t s = program.stage();
  std::vector<Life> lives;
  std::vector<std::size_t> begun(plan.tokens.size(), tasks.size());  // first backward task of each sample
  std::vector<SampleId> sample_of;
  for (std::size_t f = 0; f < tasks.size(); ++f) {
    if (tasks[f].pass != Pass::forward) continue;
    for (const Slice& slice : tasks[f].slices) {
      for (Tokens t = slice.begin; t < slice.end; ++t) {
        if (owners.of(slice.sample, t) != tasks[f].member) continue;
        Life life{f, 0, 0, 0, 0};
        for (std::size_t b = 0; b < tasks.size(); ++b) {
          if (tasks[b].pass == Pass::forward) continue;
          for (const Slice& back : tasks[b].slices) {
            if (back.sample != slice.sample) continue;
            if (tasks[b].pass == Pass::backward) begun[back.sample] = std::min(begun[back.sample], b);
            if (t < back.begin || t >= back.end) continue;
            life.last = std::max(life.last, b);
            if (tasks[b].pass == Pass::backward) life.backward = b;
            life.recompute = plan.backward.recompute_layers[tasks[b].pack][s];
            life.offload = plan.backward.offload_of(tasks[b].pack, s);
          }
        }
        lives.push_back(life);
        sample_of.push_back(slice.sample);
      }
    }
  }
  Peaks peak{memory.static_bytes(s), 0.0};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    double bytes = memory.static_bytes(s), host = 0.0;
    Tokens moved = 0;
    if (tasks[i].pass != Pass::weight) {
      Tokens own = 0;
      for (const Slice& slice : tasks[i].slices) {
        for (Tokens t = slice.begin; t < slice.end; ++t) {
          own += owners.of(slice.sample, t) == tasks[i].member ? 1 : 0;
        }
      }
      const int recompute_layers =
          tasks[i].pass == Pass::backward ? plan.backward.recompute_layers[tasks[i].pack][s] : 0;
      bytes += memory.workspace_bytes(s, tasks[i].pass, own, recompute_layers);
    }
    for (std::size_t n = 0; n < lives.size(); ++n) {
      if (lives[n].forward <= i && i <= lives[n].last) {
        bytes += memory.activation_bytes(s, lives[n].recompute, lives[n].offload);
        host += memory.host_bytes(s, lives[n].recompute, lives[n].offload);
      }
      const bool runs = tasks[i].pass == Pass::forward ? lives[n].forward == i : lives[n].backward == i;
      moved += runs && lives[n].offload > 0 ? 1 : 0;
      if (begun[sample_of[n]] <= i && i <= lives[n].last) bytes += memory.kv_gradient_bytes(s);
    }
    bytes += memory.transit_bytes(s, moved);
    peak = {std::max(peak.device, bytes), std::max(peak.host, host)};
  }
  return peak;
}

/// The most that a stage's offloaded layers take of the host's memory.
double host_high_water(const StageProgram& program, const WholeBytes& memory) {
  TokenBudget budget(program, memory);
  for (const StageTask& task : program.tasks()) {
    budget.start(task);
    budget.finish(task);
  }
  CHECK(budget.host_in_use() == 0.0);
  return budget.host_peak();
}

/// Most tokens by which a member's part of a stage's merged slices can differ from an equal share, which the simulator assumes if
/// the plan does not say how they are shared.
Tokens slack_tokens(const StageProgram& program) {
  Tokens slack = 0;
  for (const StageTask& task : program.tasks()) {
    if (task.merged()) slack += 2 * program.owners().block() * (1 + static_cast<Tokens>(task.slices.size()));
  }
  return slack;
}

}  // namespace

TEST_CASE("the counted high-water mark is what the simulator predicts") {
  const WholeBytes memory;
  int exact = 0, named = 0, merged = 0, split = 0, offloaded = 0;
  unsigned seed = 0;
  for_each_plan(40, [&](Plan plan) {
    if (++seed % 2 == 0) testing::offload_layers(plan, seed);
    if (plan.pipelines[0].cp > 1) plan = context_ranks_as_members(plan, 1 + seed % 5);
    const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        const StageProgram program(plan, p, s, {.block = 1});
        const double counted = predicted_high_water(program, memory), simulated = curves.peak_bytes[p][s];
        const Tokens slack = plan.forward.block > 0 ? 0 : slack_tokens(program);
        if (program.has_weight_tasks()) {
          // What weight tasks still need, the simulator has given back already.
          ++split;
          CHECK(counted >= simulated - double(slack) * 1000.0);
        } else if (slack > 0) {
          ++merged;
          CHECK(std::abs(counted - simulated) <= double(slack) * 1000.0);
        } else {
          ++exact;
          named += plan.forward.block > 0 ? 1 : 0;
          CHECK(counted == simulated);
          CHECK(host_high_water(program, memory) == curves.host_peak_bytes[p][s]);
          offloaded += curves.host_peak_bytes[p][s] > 0.0 ? 1 : 0;
        }
      }
    }
  });
  CHECK(exact > 200);
  CHECK(named > 20);
  CHECK(offloaded > 100);
  CHECK(merged > 50);
  CHECK(split > 10);
}

TEST_CASE("the counted high-water mark is what counting token by token gives") {
  const WholeBytes memory;
  int merged = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("plan by hand of seed " << seed);
    Plan plan = testing::plan_by_hand(seed);
    if (seed % 2 == 0) testing::offload_layers(plan, seed);
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        const StageProgram program(plan, p, s, {.block = 1 + seed % 5});
        const Peaks counted = count_token_by_token(program, memory);
        CHECK(predicted_high_water(program, memory) == counted.device);
        CHECK(host_high_water(program, memory) == counted.host);
        for (const StageTask& task : program.tasks()) merged += task.merged() ? 1 : 0;
      }
    }
  }
  CHECK(merged > 50);
}

TEST_CASE("members of merged packs that split evenly are counted as simulated") {
  // One sample of two rounds of four chunks of one token for each of two members, cut at rounds.
  Plan plan = testing::equal_plan(2, 1, 1.0, 1.0, 8);
  plan.pipelines.push_back(plan.pipelines[0]);
  plan.pipelines[1].id = 1;
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    pass->pipelines = {};
    for (const PipelineId p : {0u, 1u}) pass->pipelines.add(p);
    pass->pipelines.close();
  }
  const WholeBytes memory;
  const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
  for (PipelineId p = 0; p < 2; ++p) {
    for (std::size_t s = 0; s < 2; ++s) {
      CHECK(predicted_high_water(StageProgram(plan, p, s, {.block = 1}), memory) == curves.peak_bytes[p][s]);
    }
  }
}

TEST_CASE("after a step only static bytes are in use") {
  const WholeBytes memory;
  for_each_plan(10, [&](const Plan& plan) {
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
        const StageProgram program(plan, p, s, {.block = 3});
        TokenBudget budget(program, memory);
        for (const StageTask& task : program.tasks()) {
          const double before = budget.in_use();
          budget.start(task);
          if (task.pass == Pass::forward && task.owned_tokens > 0) CHECK(budget.in_use() > before);
          budget.finish(task);
        }
        CHECK(budget.in_use() == memory.static_bytes(s));
      }
    }
  });
}

TEST_CASE("a stage that exceeds its budget is named with its task") {
  const WholeBytes memory;
  const Plan plan = testing::equal_plan(2, 3, 1.0, 2.0, 8);
  const StageProgram program(plan, 0, 1);
  const double peak = predicted_high_water(program, memory);
  CHECK(predicted_high_water(program, memory, peak) == peak);
  CHECK_THROWS_WITH(
      predicted_high_water(program, memory, peak - 1.0),
      Catch::StartsWith("stage 1 of pipeline 0 at B0 needs ") && Catch::EndsWith("; expected 1 bytes more"));
  CHECK_THROWS_WITH(predicted_high_water(program, memory, 10.0),
                    Catch::StartsWith("stage 1 of pipeline 0 before its first task needs "));
}
