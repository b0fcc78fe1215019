#include "slimpack/model/strategy.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/model/presets.hpp"

using namespace slimpack;

namespace {

Job job(Layout layout) {
  return {.model = transformer_preset("llama-7b"), .device = device_preset("h100"), .layout = layout};
}

/// Pipelines of 2, 2 and 3 stages, on devices of their own.
Strategy unequal() {
  return strategy_of({{.tp = 2, .cp = 1, .layers = {17, 15}, .devices = {{0, 1}, {2, 3}}},
                      {.tp = 2, .cp = 1, .layers = {17, 15}, .devices = {{4, 5}, {6, 7}}},
                      {.tp = 1, .cp = 2, .layers = {12, 11, 9}, .devices = {{8, 9}, {11, 10}, {12, 13}}}});
}

}  // namespace

TEST_CASE("a layout of more devices than can be listed is refused before it takes memory") {
  CHECK_THROWS_WITH(layout_strategy(job({.dp = 2000000000})),
                    "dp 2000000000, tp 1, cp 1 and pp 1 take 2000000000 devices; expected at most 4194304");
  CHECK_THROWS_WITH(layout_strategy(job({.dp = 1 << 20, .tp = 8})), Catch::Contains("take 8388608 devices"));
}

TEST_CASE("a layout's strategy: one kind, devices numbered tp, cp, dp, pp") {
  const Layout layout{.dp = 3, .tp = 2, .cp = 4, .pp = 5};
  const Strategy strategy = layout_strategy(job(layout));
  CHECK_NOTHROW(validate(strategy, job(layout).model));
  CHECK(strategy.kinds() == 1);
  CHECK(strategy == strategy_of(strategy.pipelines));
  std::set<DeviceId> all;
  for (std::int32_t d = 0; d < layout.dp; ++d) {
    const PipelineSpec& spec = strategy.pipelines[static_cast<std::size_t>(d)];
    CHECK(spec.layers == split_layers(job(layout).model.layers, layout.pp));
    for (std::int32_t p = 0; p < layout.pp; ++p) {
      for (std::int32_t c = 0; c < layout.cp; ++c) {
        for (std::int32_t t = 0; t < layout.tp; ++t) {
          const DeviceId id =
              spec.devices[static_cast<std::size_t>(p)][static_cast<std::size_t>(c * layout.tp + t)];
          CHECK(id == t + layout.tp * (c + layout.cp * (d + layout.dp * p)));
          all.insert(id);
        }
      }
    }
  }
  CHECK(static_cast<std::int64_t>(all.size()) == layout.devices());
  CHECK(*all.rbegin() + 1 == layout.devices());
}

TEST_CASE("kinds are numbered by first appearance; devices don't matter") {
  const Strategy strategy = unequal();
  CHECK(strategy.kind == std::vector<std::uint32_t>{0, 0, 1});
  CHECK(strategy.kinds() == 2);
  CHECK(strategy.spec_of_kind(1).layers == std::vector<std::int32_t>{12, 11, 9});
  CHECK_NOTHROW(validate(strategy, transformer_preset("llama-7b")));
  CHECK(strategy_of({}).kinds() == 0);
}

TEST_CASE("a strategy as text counts the pipelines of each kind") {
  CHECK(to_text(unequal().pipelines[2]) == "tp 1, cp 2, pp 3");
  CHECK(to_text(unequal()) == "2 x (tp 2, cp 1, pp 2) + 1 x (tp 1, cp 2, pp 3)");
}

TEST_CASE("a strategy that can't be is refused by what is wrong") {
  const std::vector<std::pair<std::function<void(Strategy&)>, std::string>> cases{
      {[](Strategy& s) { s = {}; }, "the strategy has no pipelines; expected at least one"},
      {[](Strategy& s) { s.pipelines[1].tp = 0; }, "tp of pipeline 1 is 0; expected a positive number"},
      {[](Strategy& s) { s.pipelines[2].cp = -1; }, "cp of pipeline 2 is -1; expected a positive number"},
      {[](Strategy& s) { s.pipelines[0].tp = 3; },
       "tp of pipeline 0 is 3; expected a divisor of the 32 heads"},
      {[](Strategy& s) { s.pipelines[0].layers.clear(); },
       "the number of stages of pipeline 0 is 0; expected at least one"},
      {[](Strategy& s) {
         s.pipelines[0].layers = {33, -1};
       },
       "stage 1 of pipeline 0 has -1 layers; expected"},
      {[](Strategy& s) {
         s.pipelines[1].layers = {16, 15};
       },
       "the stages of pipeline 1 hold 31 layers; expected the 32 of model"},
      {[](Strategy& s) { s.pipelines[2].devices.pop_back(); },
       "devices of pipeline 2 are given for 2 stages; expected 3, one for each"},
      {[](Strategy& s) { s.pipelines[2].devices[1].push_back(20); },
       "stage 1 of pipeline 2 has 3 devices; expected tp * cp = 2"},
      {[](Strategy& s) { s.pipelines[2].devices[1][0] = -2; },
       "stage 1 of pipeline 2 has device -2; expected"},
      {[](Strategy& s) { s.pipelines[2].devices[1][0] = 5; }, "device 5 is in two places; expected each in"},
      {[](Strategy& s) { s.kind.pop_back(); }, "the strategy names the kinds of 2 pipelines; expected its 3"},
      {[](Strategy& s) { s.kind[2] = 0; }, "pipeline 2 is of kind 0; expected 1, for kinds are numbered"},
      {[](Strategy& s) {
         s.kind = {1, 1, 0};
       },
       "pipeline 0 is of kind 1; expected 0"},
  };
  for (const auto& [change, message] : cases) {
    Strategy strategy = unequal();
    change(strategy);
    CHECK_THROWS_WITH(validate(strategy, transformer_preset("llama-7b")), Catch::Contains(message));
  }
  Strategy nameless = unequal();
  for (PipelineSpec& spec : nameless.pipelines) spec.devices.clear();
  CHECK_NOTHROW(validate(nameless, transformer_preset("llama-7b")));
}
