#include "slimpack/plan/validate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/cost/flops.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using testing::sample_plan;
using testing::SamplePlanOptions;

namespace {

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Edit = std::function<void(Plan&)>;

Plan changed(Plan plan, const Edit& change) {
  change(plan);
  return plan;
}

void check_one(const Plan& plan, const std::string& rule, const std::string& place) {
  const auto found = violations(plan);
  REQUIRE(found.size() == 1);
  INFO(found.front());
  CHECK(mentions(found.front(), rule));
  CHECK(mentions(found.front(), place));
  CHECK_THROWS_AS(validate(plan), InvalidInput);
}

/// Rebuilds packs, each after its slices went through `edit`.
void edit_slices(PassPlan& packs, const std::function<void(std::size_t, std::vector<Slice>&)>& edit) {
  Packs edited;
  for (std::size_t k = 0; k < packs.packs.size(); ++k) {
    std::vector<Slice> slices(packs.packs[k].begin(), packs.packs[k].end());
    edit(k, slices);
    for (const Slice& slice : slices) edited.add(slice);
    edited.close();
  }
  packs.packs = edited;
}

void correct_flops(Plan& plan) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      packs.flops[k] = {};
      for (const Slice& slice : packs.packs[k]) packs.flops[k] += testing::formula(plan.model, slice, pass);
    }
  }
}

std::vector<Task> tasks(std::initializer_list<const char*> texts) {
  std::vector<Task> list;
  for (const char* text : texts) list.push_back(parse_task(text));
  return list;
}

/// One pipeline of two stages. Sample 0 has 100 tokens: F0 and F1, and B0 (its end) and B1. Sample 1 has 40:
/// F2 and B2. All packs take a second on each stage, transfers nothing.
Plan small_plan() {
  Plan plan;
  plan.planner = "by hand";
  plan.model = {"tiny", 4, 8, 2, 1, 4, 16, 50};
  plan.tokens = {100, 40};
  const auto add = [&](Pass pass, Slice slice) {
    PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
    packs.packs.add(slice);
    packs.packs.close();
    packs.pipelines.add_row(1, 0);
    packs.flops.push_back(testing::formula(plan.model, slice, pass));
    packs.seconds.add_row(2, 1.0);
    packs.transfer_seconds.add_row(1, 0.0);
    packs.sharding.push_back(Sharding::none);
    if (pass == Pass::backward) packs.recompute_layers.add_row(2, 0);
  };
  add(Pass::forward, {0, 0, 60});
  add(Pass::forward, {0, 60, 100});
  add(Pass::forward, {1, 0, 40});
  add(Pass::backward, {0, 50, 100});
  add(Pass::backward, {0, 0, 50});
  add(Pass::backward, {1, 0, 40});
  plan.pipelines.push_back({.id = 0, .tp = 1, .cp = 1, .layers = {2, 2}, .order = {}});
  plan.pipelines[0].order = {tasks({"F0", "F1", "F2", "B0", "B1", "B2"}),
                             tasks({"F0", "F1", "B0", "F2", "B1", "B2"})};
  // Stage 1 runs from 1 to 7 without a pause; stage 0 ends with B2 at 8.
  plan.step = {.seconds = 8.5,
               .sync_seconds = 0.5,
               .pipeline_seconds = 8.0,
               .bubble_ratio = 0.25,
               .lower_bound_seconds = 7.0,
               .peak_bytes = {{1.0, 2.0}}};
  return plan;
}

}  // namespace

TEST_CASE("the plan made by hand is valid", "[validate]") {
  CHECK(violations(small_plan()).empty());
  CHECK_NOTHROW(validate(small_plan()));
}

TEST_CASE("plans with any partition are valid", "[validate]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SamplePlanOptions options{.seed = seed};
    options.pipelines = 1 + seed % 3;
    options.stages = 1 + seed % 4;
    options.merged = seed % 5;
    options.deferred = seed % 2;
    options.split_weights = seed % 7 == 0;
    options.cp = seed % 4 == 0 ? 2 : 1;
    options.details = seed % 2 == 0;
    CAPTURE(seed);
    const auto found = violations(sample_plan(options));
    for (const std::string& text : found) UNSCOPED_INFO(text);
    CHECK(found.empty());
  }
}

TEST_CASE("the library's FLOPs are the plan format's", "[validate]") {
  const Plan plan = sample_plan({.seed = 5});
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (std::size_t k = 0; k < plan.of(pass).packs.size(); ++k) {
      const Flops flops = pack_flops(plan.model, plan.of(pass).packs[k], pass);
      CHECK(flops.linear == Approx(plan.of(pass).flops[k].linear).epsilon(1e-12));
      CHECK(flops.attention == Approx(plan.of(pass).flops[k].attention).epsilon(1e-12));
    }
  }
}

TEST_CASE("rule 1: a token that is missing, twice there, or deferred", "[validate]") {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const std::string name = pass == Pass::forward ? "forward" : "backward";
    const auto edit = [&](std::size_t pack, Slice to) {
      return changed(small_plan(), [&](Plan& plan) {
        edit_slices(pass == Pass::forward ? plan.forward : plan.backward,
                    [&](std::size_t k, std::vector<Slice>& slices) {
                      if (k == pack) slices = {to};
                    });
        correct_flops(plan);
      });
    };
    check_one(edit(2, {1, 0, 39}), "rule 1: " + name, "sample 1 up to token 39; expected 40");
    check_one(edit(2, {1, 1, 40}), "rule 1: " + name + "[2]", "sample 1 from token 1; expected from 0");
    const Tokens cut = pass == Pass::forward ? 60 : 50;
    const std::size_t first = pass == Pass::forward ? 0 : 1;
    check_one(edit(first, {0, 0, cut - 7}), "rule 1: " + name, "from token " + std::to_string(cut));
    check_one(edit(first, {0, 0, cut + 7}), "rule 1: " + name, "from token " + std::to_string(cut));
  }
  const Plan deferred = changed(small_plan(), [](Plan& plan) { plan.deferred = {1}; });
  const auto found = violations(deferred);
  REQUIRE(found.size() == 2);
  CHECK(mentions(found[0],
                 "rule 1: forward packs hold sample 1 up to token 40; expected 0, for it is deferred"));
  CHECK(mentions(found[1], "rule 1: backward packs hold sample 1"));
}

TEST_CASE("rule 2: slices of a sample out of order on one stage", "[validate]") {
  for (const std::size_t stage : {0u, 1u}) {
    const std::string place = "stage " + std::to_string(stage) + " of pipeline 0 runs ";
    const auto swapped = [&](Task a, Task b) {
      return changed(small_plan(), [&](Plan& plan) {
        auto& order = plan.pipelines[0].order[stage];
        std::iter_swap(std::find(order.begin(), order.end(), a), std::find(order.begin(), order.end(), b));
      });
    };
    check_one(swapped({Pass::forward, 0}, {Pass::forward, 1}), "rule 2",
              place + "F1 before F0; expected forward of sample 0 in token order");
    check_one(swapped({Pass::backward, 0}, {Pass::backward, 1}), "rule 2",
              place + "B1 before B0; expected backward of sample 0 in reverse token order");
  }
}

TEST_CASE("rule 8: a sample in packs of different depth", "[validate]") {
  Plan plan = small_plan();
  plan.pipelines.push_back({.id = 1, .tp = 1, .cp = 1, .layers = {4}, .order = {tasks({"F1"})}});
  plan.pipelines[0].order = {tasks({"F0", "F2", "B0", "B1", "B2"}), tasks({"F0", "B0", "F2", "B1", "B2"})};
  Ragged<PipelineId> pipelines;
  Ragged<double> seconds;
  for (const PipelineId p : {0u, 1u, 0u}) {
    pipelines.add_row(1, p);
    seconds.add_row(p == 1 ? 1 : 2, 1.0);
  }
  plan.forward.pipelines = pipelines;
  plan.forward.seconds = seconds;
  plan.forward.transfer_seconds = {};
  for (const std::size_t pairs : {1u, 0u, 1u}) plan.forward.transfer_seconds.add_row(pairs);
  plan.step.peak_bytes.clear();
  const auto found = violations(plan);
  REQUIRE_FALSE(found.empty());
  CHECK(mentions(found[0], "rule 8: sample 0 is in F0 of pipelines 0 and in F1 of 1"));
}

TEST_CASE("rule 3: backward before the end of the sample's forward on the last stage", "[validate]") {
  const auto ordered = [](std::initializer_list<const char*> last) {
    return changed(small_plan(), [&](Plan& plan) { plan.pipelines[0].order[1] = tasks(last); });
  };
  check_one(ordered({"F0", "B0", "F1", "F2", "B1", "B2"}), "rule 3",
            "stage 1 of pipeline 0 runs B0 before F1; expected all forward slices of sample 0");
  check_one(ordered({"F0", "F1", "B0", "B1", "B2", "F2"}), "rule 3", "runs B2 before F2");
}

TEST_CASE("rule 4: a stage that doesn't run each of its packs once", "[validate]") {
  const auto ordered = [](std::initializer_list<const char*> first) {
    return changed(small_plan(), [&](Plan& plan) { plan.pipelines[0].order[0] = tasks(first); });
  };
  check_one(ordered({"F0", "F1", "F2", "B0", "B2"}), "rule 4",
            "stage 0 of pipeline 0 runs B1 0 times; expected once");
  check_one(ordered({"F0", "F1", "F2", "F2", "B0", "B1", "B2"}), "rule 4", "runs F2 2 times");
  check_one(ordered({"F0", "F1", "F2", "B0", "B1", "B2", "F3"}), "rule 4",
            "runs F3; expected forward packs below 3");
  check_one(ordered({"F0", "F1", "F2", "B0", "B1", "B2", "W9"}), "rule 4",
            "runs W9; expected backward packs below 3");
  check_one(ordered({"F0", "F1", "F2", "B0", "W1", "B1", "B2"}), "rule 7",
            "runs W1; expected it once, after its backward task");
  check_one(ordered({"F0", "F1", "F2", "B0", "B1", "W1", "B2", "W1"}), "rule 7", "runs W1; expected it once");

  Plan two = sample_plan({.seed = 3, .samples = 8, .pipelines = 2});
  const Task foreign = two.pipelines[1].order[2].back();
  two.pipelines[0].order[1].push_back(foreign);
  check_one(two, "rule 4",
            "stage 1 of pipeline 0 runs " + to_string(foreign) + "; expected packs of this pipeline only");
}

TEST_CASE("rule 4: a cycle", "[validate]") {
  // Each stage's order is fine alone. Stage 0 runs B0 first, which needs stage 1, and that F1 of stage 0.
  const Plan plan = changed(small_plan(), [](Plan& p) {
    p.pipelines[0].order[0] = tasks({"F0", "B0", "F1", "F2", "B1", "B2"});
  });
  check_one(plan, "rule 4", "tasks wait for each other");
  CHECK(mentions(violations(plan).front(), "pipeline 0 stage 0 B0"));
  CHECK(mentions(violations(plan).front(), "pipeline 0 stage 1 F1"));
}

TEST_CASE("rule 4: members of merged packs run them in one order", "[validate]") {
  // Two samples of one pack each, merged over both pipelines.
  Plan plan = small_plan();
  plan.tokens = {60, 40};
  plan.forward = plan.backward = {};
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
    for (const SampleId id : {0u, 1u}) {
      packs.packs.add({id, 0, plan.tokens[id]});
      packs.packs.close();
      packs.pipelines.add(0);
      packs.pipelines.add(1);
      packs.pipelines.close();
      packs.flops.emplace_back();
      packs.seconds.add_row(2, 1.0);
      packs.transfer_seconds.add_row(1, 0.0);
      packs.sharding.push_back(Sharding::per_sequence);
      if (pass == Pass::backward) packs.recompute_layers.add_row(2, 0);
    }
  }
  correct_flops(plan);
  plan.pipelines.push_back(plan.pipelines[0]);
  plan.pipelines[1].id = 1;
  for (auto& pipeline : plan.pipelines) pipeline.order.assign(2, tasks({"F0", "F1", "B0", "B1"}));
  plan.step.peak_bytes.clear();
  // Stage 1: F0 1-2, F1 2-3, B0 3-4, B1 4-5; stage 0: B1 ends at 6. Both stages wait for 2 s.
  plan.step.pipeline_seconds = 6.0;
  plan.step.seconds = 6.5;
  plan.step.bubble_ratio = 1.0 / 3.0;
  plan.step.lower_bound_seconds = 5.0;
  CHECK(violations(plan).empty());
  plan.pipelines[1].order[0] = tasks({"F1", "F0", "B0", "B1"});
  check_one(plan, "rule 4", "tasks wait for each other");
}

TEST_CASE("rule 7: weight gradients that take time are computed", "[validate]") {
  Plan plan = small_plan();
  plan.backward.weight_seconds.add_row(2, 0.25);
  plan.backward.weight_seconds.close();
  plan.backward.weight_seconds.close();
  const auto found = violations(plan);
  REQUIRE(found.size() == 2);
  CHECK(mentions(found[0], "rule 7: stage 0 of pipeline 0 does not run W0"));
  CHECK(mentions(found[1], "rule 7: stage 1 of pipeline 0 does not run W0"));
  plan.pipelines[0].order = {tasks({"F0", "F1", "F2", "B0", "W0", "B1", "B2"}),
                             tasks({"F0", "F1", "B0", "F2", "B1", "B2", "W0"})};
  // Only stage 0 is busy to the end: B0 ends there at 5, W0 at 5.25, B1 runs from 6.
  plan.step.bubble_ratio = 3.5 / 16.0;
  CHECK(violations(plan).empty());
  plan.pipelines[0].order[0] = tasks({"F0", "F1", "F2", "B0", "B1", "B2", "W0"});
  plan.step.pipeline_seconds = 8.25;
  plan.step.seconds = 8.75;
  plan.step.bubble_ratio = 4.0 / 16.5;
  CHECK(violations(plan).empty());
}

TEST_CASE("rule 8: a sample's packs are all on the same pipelines in the same order", "[validate]") {
  const Plan plan = sample_plan({.seed = 9, .samples = 6, .merged = 2, .pipelines = 3});
  const auto with = [&](std::initializer_list<PipelineId> ids) {
    return changed(plan, [&](Plan& p) {
      Ragged<PipelineId> pipelines;
      for (std::size_t k = 0; k < p.forward.packs.size(); ++k) {
        for (const PipelineId id : k == 0 ? std::span<const PipelineId>(ids.begin(), ids.size())
                                          : std::as_const(p.forward.pipelines)[k])
          pipelines.add(id);
        pipelines.close();
      }
      p.forward.pipelines = pipelines;
    });
  };
  CHECK(violations(with({0, 1})).empty());
  CHECK_FALSE(violations(with({1, 0})).empty());
  for (const std::string& text : violations(with({1, 0}))) {
    CHECK(mentions(text, "rule 8: sample "));
    CHECK(mentions(text, "F0 of pipelines 1, 0 and in "));
  }
  CHECK(mentions(violations(with({0, 2})).back(), "rule 8"));
}

TEST_CASE("groups of different samples may overlap", "[validate]") {
  // Sample 0 is run by pipelines 0 and 1, sample 1 by 1 and 2.
  Plan plan = small_plan();
  plan.tokens = {60, 40};
  plan.forward = plan.backward = {};
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (const SampleId id : {0u, 1u}) {
      pass->packs.add({id, 0, plan.tokens[id]});
      pass->packs.close();
      pass->pipelines.add(id);
      pass->pipelines.add(id + 1);
      pass->pipelines.close();
      pass->flops.emplace_back();
      pass->seconds.add_row(2, 1.0);
      pass->transfer_seconds.add_row(1);
      pass->sharding.push_back(Sharding::per_document);
      if (pass == &plan.backward) pass->recompute_layers.add_row(2, 0);
    }
  }
  correct_flops(plan);
  plan.pipelines.assign(3, plan.pipelines[0]);
  for (PipelineId p = 0; p < 3; ++p) plan.pipelines[p].id = p;
  plan.pipelines[0].order.assign(2, tasks({"F0", "B0"}));
  plan.pipelines[1].order.assign(2, tasks({"F0", "F1", "B0", "B1"}));
  plan.pipelines[2].order.assign(2, tasks({"F1", "B1"}));
  plan.step.peak_bytes.clear();
  plan.step.pipeline_seconds = 6.0;
  plan.step.seconds = 6.5;
  plan.step.bubble_ratio = 20.0 / 36.0;
  plan.step.lower_bound_seconds = 0.0;
  for (const std::string& text : violations(plan)) UNSCOPED_INFO(text);
  CHECK(violations(plan).empty());
  plan.pipelines[1].order[1] = tasks({"F0", "B0", "F1", "B1"});
  plan.step.pipeline_seconds = testing::NaiveTimes(plan).seconds;
  plan.step.seconds = plan.step.pipeline_seconds + 0.5;
  plan.step.bubble_ratio = 1.0 - 16.0 / (6.0 * plan.step.pipeline_seconds);
  CHECK(violations(plan).empty());
}

TEST_CASE("shared samples that the passes cut differently are sharded by position", "[validate]") {
  for (const bool merged : {true, false}) {
    CAPTURE(merged);
    const SamplePlanOptions options{.seed = 9,
                                    .samples = 6,
                                    .merged = merged ? std::size_t{2} : std::size_t{0},
                                    .cp = merged ? 1 : 2,
                                    .block = 8};
    const Plan plan = sample_plan(options);
    CHECK(violations(plan).empty());
    CHECK(violations(changed(plan, [](Plan& p) { p.backward.block = 0; })).empty());
    for (const Sharding kind : {Sharding::none, Sharding::per_sequence, Sharding::per_document}) {
      const auto found = violations(changed(plan, [&](Plan& p) { p.backward.sharding[0] = kind; }));
      REQUIRE_FALSE(found.empty());
      CHECK(mentions(found[0], "backward[0].sharding is " + std::string(sharding_name(kind)) +
                                   "; expected by_position, for several ranks share sample"));
    }
    check_one(changed(plan, [](Plan& p) { p.backward.block = 16; }), "forward packs have block 8",
              "backward packs 16; expected the same");
  }
}

TEST_CASE("all packs of a shared sample that name a way to exchange keys name the same one", "[validate]") {
  for (const bool merged : {true, false}) {
    CAPTURE(merged);
    Plan plan = sample_plan({.seed = 9,
                             .samples = 6,
                             .merged = merged ? std::size_t{2} : std::size_t{0},
                             .cp = merged ? 1 : 2,
                             .block = 8});
    for (PassPlan* const pass : {&plan.forward, &plan.backward}) {
      pass->exchange.assign(pass->packs.size(), KeyExchange::none);
      for (std::size_t k = 0; k < pass->packs.size(); ++k) {
        if (pass->sharding[k] != Sharding::none) pass->exchange[k] = KeyExchange::ring;
      }
    }
    CHECK(violations(plan).empty());
    CHECK(violations(changed(plan, [](Plan& p) { p.backward.exchange.clear(); })).empty());
    const auto found = violations(changed(plan, [](Plan& p) {
      for (KeyExchange& exchange : p.backward.exchange) {
        if (exchange == KeyExchange::ring) exchange = KeyExchange::all_to_all;
      }
    }));
    REQUIRE_FALSE(found.empty());
    for (const std::string& text : found)
      CHECK(mentions(text, ".exchange is all_to_all; expected ring as in forward["));
    // A pack that names none does not hide the others.
    const auto later = violations(changed(plan, [](Plan& p) {
      p.forward.exchange.clear();
      for (std::size_t k = 0; k < p.backward.exchange.size(); k += 2) {
        if (p.backward.exchange[k] == KeyExchange::ring) p.backward.exchange[k] = KeyExchange::all_to_all;
      }
    }));
    REQUIRE_FALSE(later.empty());
    for (const std::string& text : later) CHECK(mentions(text, " as in backward["));
  }
}

TEST_CASE("devices: as many as ranks, none in two stages", "[validate]") {
  const auto with = [](std::vector<std::vector<DeviceId>> devices) {
    return changed(small_plan(), [&](Plan& p) { p.pipelines[0].devices = devices; });
  };
  CHECK(violations(with({{3}, {0}})).empty());
  check_one(with({{3}}), "pipelines[0].devices has 1 entries", "expected one list for each of the 2 stages");
  check_one(with({{3}, {0, 1}}), "pipelines[0].devices[1] names 2 devices", "expected tp * cp = 1");
  check_one(with({{3}, {3}}), "names device 3 twice", "expected distinct ids");
  check_one(with({{-1}, {3}}), "pipelines[0].devices[0] holds -1", "expected ids from 0");
  const Plan two = sample_plan({.cp = 2, .details = true});
  const auto found =
      violations(changed(two, [](Plan& p) { p.pipelines[1].devices[0] = p.pipelines[0].devices[2]; }));
  REQUIRE(found.size() == 4);  // tp * cp
  for (const std::string& text : found) CHECK(mentions(text, "twice; expected distinct ids"));
}

TEST_CASE("rule 5: step seconds are the longest path", "[validate]") {
  check_one(changed(small_plan(), [](Plan& p) { p.step.seconds = 8.4; }), "rule 5",
            "step.seconds - step.sync_seconds");
  check_one(changed(small_plan(), [](Plan& p) { p.step.pipeline_seconds = 8.1; }), "rule 5",
            "step.pipeline_seconds is 8.1; expected the longest path of 8");
  CHECK(violations(changed(small_plan(), [](Plan& p) { p.step.pipeline_seconds *= 1.0 + 5e-7; })).empty());
  CHECK_FALSE(
      violations(changed(small_plan(), [](Plan& p) { p.step.pipeline_seconds *= 1.0 + 2e-6; })).empty());

  // A pack on the longest path that takes longer, or whose transfer does: stages also wait longer.
  CHECK(violations(changed(small_plan(), [](Plan& p) { p.forward.seconds[0][0] = 1.5; })).size() == 3);
  CHECK(violations(changed(small_plan(), [](Plan& p) { p.backward.transfer_seconds[2][0] = 0.5; })).size() ==
        3);
  // Stage 0 has nothing to do between F2's end at 3 and B0's start at 4.
  const Plan filled = changed(small_plan(), [](Plan& p) { p.forward.seconds[2][0] = 1.75; });
  check_one(filled, "rule 5", "step.bubble_ratio is 0.25; expected 0.203125, the share of the stages' time");
  CHECK(violations(changed(filled, [](Plan& p) { p.step.bubble_ratio = 0.203125; })).empty());
}

TEST_CASE("rule 5: the bubble ratio is the share of the stages' time in which they wait", "[validate]") {
  for (const double wrong : {0.0, 0.25 + 2e-9, 0.25 - 2e-9, 0.26, 1.0}) {
    check_one(changed(small_plan(), [=](Plan& p) { p.step.bubble_ratio = wrong; }),
              "rule 5: step.bubble_ratio is ", "expected 0.25, the share of the stages' time");
  }
  CHECK(violations(changed(small_plan(), [](Plan& p) { p.step.bubble_ratio += 5e-10; })).empty());
  Plan nothing = small_plan();
  nothing.forward = nothing.backward = {};
  nothing.deferred = {0, 1};
  nothing.pipelines[0].order.assign(2, {});
  nothing.step = {.peak_bytes = {{0.0, 0.0}}};
  CHECK(violations(nothing).empty());
  nothing.step.bubble_ratio = 0.5;
  check_one(nothing, "rule 5: step.bubble_ratio is 0.5; expected 0", "");
}

TEST_CASE("rule 5: durations of which nothing can be computed are named", "[validate]") {
  for (const double huge : {1e308, 1.7e308}) {
    const std::string number = huge == 1e308 ? "1e+308" : "1.7e+308";
    check_one(changed(small_plan(), [=](Plan& p) { p.forward.seconds[1][0] = huge; }),
              "rule 5: forward[1].seconds holds " + number,
              "expected durations whose sum over all stages is a number");
    check_one(changed(small_plan(), [=](Plan& p) { p.backward.transfer_seconds[2][0] = huge; }),
              "rule 5: backward[2].transfer_seconds holds " + number, "expected durations");
  }
  const auto found = violations(changed(small_plan(), [](Plan& p) { p.backward.seconds[0][1] = 1e300; }));
  REQUIRE(found.size() == 3);
  CHECK(found[0] == "rule 5: step.pipeline_seconds is 8; expected the longest path of 1e+300");
}

TEST_CASE("rule 6: the bound is not above the step", "[validate]") {
  check_one(changed(small_plan(), [](Plan& p) { p.step.lower_bound_seconds = 8.6; }), "rule 6",
            "step.lower_bound_seconds is 8.6; expected at most step.seconds = 8.5");
  CHECK(violations(changed(small_plan(), [](Plan& p) { p.step.lower_bound_seconds = 8.5; })).empty());
}

TEST_CASE("FLOPs follow the formula", "[validate]") {
  check_one(changed(small_plan(), [](Plan& p) { p.forward.flops[1].linear *= 1.0 + 1e-8; }),
            "forward[1].flops.linear", "expected");
  check_one(changed(small_plan(), [](Plan& p) { p.backward.flops[2].attention = NAN; }),
            "backward[2].flops.attention", "is nan; expected");
  CHECK(violations(changed(small_plan(), [](Plan& p) { p.forward.flops[1].linear *= 1.0 + 1e-11; })).empty());
}

TEST_CASE("shapes, ids and values are checked before the rules", "[validate]") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto slice = [](Slice to) {
    return [to](Plan& p) {
      edit_slices(p.forward, [&](std::size_t k, std::vector<Slice>& slices) {
        if (k == 1) slices = {to};
      });
    };
  };
  const std::vector<std::pair<Edit, std::string>> cases{
      {[](Plan& p) { p.pipelines.clear(); }, "pipelines is empty; expected at least one"},
      {[](Plan& p) { p.pipelines[0].id = 3; }, "pipelines[0].id is 3; expected 0"},
      {[](Plan& p) { p.pipelines[0].tp = 0; }, "pipelines[0] has tp 0 and cp 1; expected positive numbers"},
      {[](Plan& p) { p.pipelines[0].order.pop_back(); }, "pipelines[0] orders 1 stages; expected"},
      {[](Plan& p) { p.pipelines[0].layers = {}; }, "pipelines[0].layers is empty"},
      {[](Plan& p) { p.forward.flops.pop_back(); }, "forward: flops has 2 entries; expected 3 for 3 packs"},
      {[](Plan& p) { p.backward.seconds = {}; }, "backward: seconds has 0 entries; expected 3"},
      {[](Plan& p) { p.backward.transfer_seconds.add_row(1); }, "backward: transfer_seconds has 4 entries"},
      {[](Plan& p) { p.backward.sharding.clear(); }, "backward: sharding has 0 entries"},
      {[](Plan& p) { p.forward.sharding[0] = Sharding::mixed; }, "forward[0] shards 0 of "},
      {[](Plan& p) { p.forward.per_document.add_row(1); },
       "forward: per_document_slices has 1 entries; expected 3"},
      {[](Plan& p) {
         for (int k = 0; k < 3; ++k) p.forward.per_document.add_row(1);
       },
       "forward[0] shards 1 slices by themselves; expected none, for its sharding is not mixed"},
      {[](Plan& p) {
         edit_slices(p.forward, [](std::size_t k, std::vector<Slice>& slices) {
           if (k == 1) slices = {{0, 0, 5}, {0, 5, 9}, {0, 9, 10}};
         });
         p.forward.sharding[1] = Sharding::mixed;
         for (std::size_t k = 0; k < 3; ++k) p.forward.per_document.add_row(k == 1 ? 2 : 0, 1);
       },
       "forward[1].per_document_slices[1] is 1; expected ascending places below 3"},
      {[](Plan& p) { p.document_ids = {4}; }, "document_ids has 1 entries; expected one for each of the 2"},
      {[](Plan& p) {
         p.document_ids = {4, 4};
       },
       "document_ids holds 4 twice; expected distinct ids"},
      {[](Plan& p) { p.backward.recompute_layers = {}; },
       "backward: recompute_layers has 0 entries; expected 3"},
      {[](Plan& p) { p.forward.recompute_layers.add_row(2); },
       "forward: recompute_layers has 1 entries; expected 0"},
      {[](Plan& p) { p.forward.pipelines = {}; }, "forward: pipelines has 0 entries; expected 3"},
      {[](Plan& p) { p.forward.pipelines[1][0] = 4; }, "forward[1] runs on pipeline 4; expected ids below 1"},
      {slice({7, 0, 1}), "forward[1] holds sample 7; expected ids below 2"},
      {slice({0, 60, 101}), "forward[1] holds tokens 60 to 101 of sample 0; expected a range within its 100"},
      {slice({0, 60, 60}), "forward[1] holds tokens 60 to 60 of sample 0; expected a range"},
      {slice({0, -1, 60}), "forward[1] holds tokens -1 to 60"},
      {[](Plan& p) { p.deferred = {2}; }, "deferred holds sample 2; expected ids below 2"},
      {[](Plan& p) {
         p.deferred = {1, 1};
       },
       "deferred holds sample 1 twice"},
      {[](Plan& p) { p.model.heads = 0; }, "model 'tiny': heads is 0"},
      {[](Plan& p) { p.device.host.latency = -1.0; },
       "device.host_latency is -1; expected zero or a positive"},
      {[=](Plan& p) { p.device.memory_bytes = inf; },
       "device.memory_bytes is inf; expected zero or a positive"},
      {[](Plan& p) { p.device.devices_per_node = -8; }, "device.devices_per_node is -8; expected zero or"},
      {[](Plan& p) { p.device.gemm_efficiency = 1.1; }, "device.gemm_efficiency is 1.1; expected a fraction"},
      {[](Plan& p) { p.device.gemm_backward_efficiency = 1.1; },
       "device.gemm_backward_efficiency is 1.1; expected a fraction"},
      {[](Plan& p) {
         p.pipelines[0].layers = {2, 1};
       },
       "pipelines[0].layers sum to 3; expected the model's 4"},
      {[](Plan& p) {
         p.pipelines[0].layers = {5, -1};
       },
       "pipelines[0].layers holds -1; expected numbers from 0"},
      {[](Plan& p) { p.forward.seconds[2][1] = 0.0; }, "forward[2].seconds holds 0; expected positive"},
      {[=](Plan& p) { p.backward.seconds[2][1] = inf; }, "backward[2].seconds holds inf; expected positive"},
      {[](Plan& p) { p.backward.transfer_seconds[0][0] = -1.0; },
       "backward[0].transfer_seconds holds -1; expected"},
      {[](Plan& p) { p.backward.recompute_layers[1][0] = 3; },
       "backward[1].recompute_layers[0] is 3; expected 0 to the 2 layers of stage 0 of pipeline 0"},
      {[](Plan& p) { p.forward.transfer_seconds.truncate(2), p.forward.transfer_seconds.add_row(2); },
       "forward[2].transfer_seconds has 2 entries; expected one for each of the 1 pairs of neighbouring "
       "stages"},
      {[](Plan& p) { p.forward.exchange.assign(2, KeyExchange::ring); }, "forward: exchange has 2 entries"},
      {[](Plan& p) { p.forward.block = -1; }, "forward: block is -1; expected a positive number"},
      {[](Plan& p) { p.forward.weight_seconds.repeat_row(3, std::vector<double>(2)); },
       "forward: weight_seconds has 3 entries; expected 0"},
      {[](Plan& p) { p.backward.weight_seconds.repeat_row(3, std::vector<double>(3)); },
       "backward[0].weight_seconds has 3 entries; expected 2, or none"},
      {[=](Plan& p) { p.backward.weight_seconds.repeat_row(3, std::vector<double>(2, -inf)); },
       "backward[0].weight_seconds holds -inf; expected zero or positive"},
      {[](Plan& p) { p.backward.offload_layers.add_row(2); }, "backward: offload_layers has 1 entries"},
      {[](Plan& p) {
         p.backward.offload_layers.repeat_row(3, std::vector<std::int32_t>{0, 3});
       },
       "backward[0].offload_layers[1] is 3; expected 0 to the 2 layers of stage 1"},
      {[](Plan& p) { p.backward.recompute_layers[1][1] = -1; }, "backward[1].recompute_layers[1] is -1"},
      {[](Plan& p) { p.step.seconds = NAN; }, "step.seconds is nan; expected zero or a positive number"},
      {[](Plan& p) { p.step.sync_seconds = -1.0; }, "step.sync_seconds is -1"},
      {[](Plan& p) { p.step.bubble_ratio = 1.5; }, "step.bubble_ratio is 1.5; expected a fraction"},
      {[](Plan& p) { p.step.peak_bytes.emplace_back(); },
       "step.peak_bytes has 2 rows; expected one for each of 1"},
      {[](Plan& p) { p.step.peak_bytes[0].pop_back(); }, "step.peak_bytes[0] has 1 entries; expected"},
      {[=](Plan& p) { p.step.peak_bytes[0][1] = inf; }, "step.peak_bytes[0] holds inf"},
  };
  for (const auto& c : cases) {
    const std::string& expected = c.second;
    const auto found = violations(changed(small_plan(), c.first));
    CAPTURE(expected);
    REQUIRE_FALSE(found.empty());
    for (const std::string& text : found) UNSCOPED_INFO(text);
    CHECK(
        std::any_of(found.begin(), found.end(), [&](const auto& text) { return mentions(text, expected); }));
  }
}

TEST_CASE("a length that no sample can have", "[validate]") {
  // Its slices go first: whatever range they had would be reported instead.
  Plan plan = small_plan();
  plan.tokens.push_back(0);
  check_one(plan, "tokens[2] is 0", "expected a positive number");
  // All tokens together are also counted.
  constexpr Tokens most = std::numeric_limits<Tokens>::max();
  plan.tokens = {100, 40, most - 140};
  plan.deferred = {2};
  CHECK(violations(plan).empty());
  ++plan.tokens[2];
  check_one(plan, "tokens[2] is 9223372036854775668", "expected lengths whose sum is below 2^63");
}

TEST_CASE("merged packs: members are distinct and have equally many stages", "[validate]") {
  const auto members = [](std::initializer_list<PipelineId> ids) {
    Plan plan = sample_plan({.seed = 9, .samples = 6, .merged = 2});
    Ragged<PipelineId> pipelines;
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      const auto old = plan.forward.pipelines[k];
      for (const PipelineId p :
           k == 0 ? std::vector<PipelineId>(ids) : std::vector<PipelineId>(old.begin(), old.end()))
        pipelines.add(p);
      pipelines.close();
    }
    plan.forward.pipelines = pipelines;
    return plan;
  };
  CHECK(violations(members({0, 1})).empty());
  check_one(members({}), "forward[0].pipelines is empty", "expected at least one");
  check_one(members({0, 1, 1}), "forward[0].pipelines lists 1 twice", "expected distinct ids");
  Plan uneven = members({0, 1});
  uneven.pipelines[1].layers = {4, 2};
  uneven.pipelines[1].order.pop_back();
  Plan other = members({0, 1});
  other.pipelines[1].layers = {1, 3, 2};
  other.backward.recompute_layers = {};
  for (std::size_t k = 0; k < other.backward.packs.size(); ++k) other.backward.recompute_layers.add_row(3);
  CHECK(
      mentions(violations(other).front(),
               "forward[0] is merged over pipelines 0 and 1, whose stages hold different layers; expected"));
  CHECK(mentions(violations(uneven).front(),
                 "forward[0] is merged over pipelines 0 and 1 of 3 and 2 stages; expected equally many"));
}

TEST_CASE("no more violations than asked for; validate names the first", "[validate]") {
  const Plan plan = changed(small_plan(), [](Plan& p) {
    for (std::size_t k = 0; k < 3; ++k) p.forward.seconds[k][0] = p.backward.seconds[k][0] = -1.0;
  });
  CHECK(violations(plan).size() == 6);
  CHECK(violations(plan, 4).size() == 4);
  CHECK_THROWS_WITH(validate(plan), Catch::StartsWith("invalid plan: forward[0].seconds holds -1") &&
                                        Catch::Contains("forward[2]"));
  // What was not asked for still keeps the rules from running on nonsense.
  const Plan lost = changed(small_plan(), [](Plan& p) {
    p.forward.packs.add({4000000000u, 0, 1}), p.forward.packs.close();
  });
  CHECK(violations(lost, 0).empty());
  CHECK_FALSE(violations(lost, 1).empty());
}

TEST_CASE("a random change of the order is seen, unless the plan is still right", "[validate]") {
  std::mt19937_64 random(20);
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Plan plan = sample_plan({.seed = seed, .samples = 5, .merged = seed % 3});
    auto& order = plan.pipelines[random() % 2].order[random() % 3];
    const std::size_t a = random() % order.size(), b = random() % order.size();
    if (a == b) continue;
    std::swap(order[a], order[b]);
    const auto found = violations(plan);
    CAPTURE(seed, a, b);
    for (const std::string& text : found) CHECK(text.substr(0, 5) == "rule ");
    if (found.empty())
      CHECK(testing::NaiveTimes(plan).seconds == Approx(plan.step.pipeline_seconds).epsilon(1e-6));
    if (!found.empty()) ++seen;
  }
  CHECK(seen > 100);
}
