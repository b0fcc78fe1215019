#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/strategy/length_histogram.hpp"
#include "slimpack/strategy/place_pipelines.hpp"
#include "slimpack/strategy/round_proposal.hpp"
#include "slimpack/strategy/schemes.hpp"

using namespace slimpack;

TEST_CASE("schemes divide the model, and tensor parallelism stays in a node") {
  const Transformer model = transformer_preset("llama-13b");  // 40 layers and heads
  const Device device = device_preset("a800");
  const std::vector<Scheme> all = schemes(model, device, {.devices = 64});
  CHECK(std::is_sorted(all.begin(), all.end(), [](const Scheme& a, const Scheme& b) {
    return std::tuple(a.tp, a.cp, a.pp) < std::tuple(b.tp, b.cp, b.pp);
  }));
  for (const Scheme& scheme : all) {
    CHECK(scheme.ranks() <= 64);
    CHECK(model.heads % scheme.tp == 0);
    CHECK(scheme.tp <= device.devices_per_node);
    CHECK((model.layers % scheme.pp == 0 || (scheme.pp & (scheme.pp - 1)) == 0));
  }
  const auto has = [](std::span<const Scheme> in, const Scheme& scheme) {
    return std::find(in.begin(), in.end(), scheme) != in.end();
  };
  CHECK(has(all, {8, 1, 5}));
  CHECK(has(all, {1, 8, 1}));
  CHECK_FALSE(has(all, {16, 1, 1}));
  CHECK_FALSE(has(all, {1, 3, 1}));
  const std::vector<Scheme> of_48 = schemes(model, device, {.devices = 48});
  CHECK(has(of_48, {8, 3, 2}));
  CHECK(has(of_48, {8, 6, 1}));
  CHECK(has(of_48, {4, 1, 3}));  // unequal stages, but no idle device
  CHECK_FALSE(has(of_48, {8, 3, 4}));
  CHECK(schemes(model, device, {.devices = 1}) == std::vector<Scheme>{{1, 1, 1}});
  Transformer wide = model;
  wide.heads = 64;
  wide.kv_heads = 64;
  CHECK(has(schemes(wide, device, {.devices = 64, .tp_across_nodes = true}), {16, 1, 1}));
  CHECK_THROWS_WITH(schemes(model, device, {.devices = 0}), Catch::Contains("number of devices is 0"));
  CHECK_THROWS_WITH(schemes(model, device, {.devices = 4, .most_cp = 0}), Catch::Contains("most_cp is 0"));
}

TEST_CASE("placed pipelines use each device once, and stages stay in a node") {
  const Transformer model = transformer_preset("llama-13b");
  const Device device = device_preset("a800");
  const std::vector<Scheme> all = schemes(model, device, {.devices = 64});
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<SchemeCount> counts;
    std::int64_t left = 64;
    for (int kind = 0; kind < 3; ++kind) {
      const Scheme scheme = all[random() % all.size()];
      const auto repeated = [&](const SchemeCount& each) { return each.scheme == scheme; };
      if (scheme.ranks() > left || std::any_of(counts.begin(), counts.end(), repeated)) continue;
      const auto pipelines =
          1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(left / scheme.ranks()));
      counts.push_back({scheme, pipelines});
      left -= pipelines * scheme.ranks();
    }
    if (counts.empty()) continue;
    const Strategy strategy = place_pipelines(model, device, 64, counts);
    CHECK_NOTHROW(validate(strategy, model));
    std::set<DeviceId> used;
    for (const PipelineSpec& spec : strategy.pipelines) {
      for (const auto& stage : spec.devices) {
        for (const DeviceId id : stage) {
          CHECK(id < 64);
          CHECK(used.insert(id).second);
        }
        for (std::size_t rank = 0; rank < stage.size(); ++rank) {  // tensor-parallel groups
          const std::size_t first = rank - rank % static_cast<std::size_t>(spec.tp);
          CHECK(stage[rank] / 8 == stage[first] / 8);
        }
        if (stage.size() <= 8) CHECK(stage.front() / 8 == stage.back() / 8);
      }
    }
    for (const SchemeCount& each : counts) {
      const auto same = [&](const PipelineSpec& spec) {
        return same_kind(spec, scheme_pipeline(model, each.scheme));
      };
      CHECK(std::count_if(strategy.pipelines.begin(), strategy.pipelines.end(), same) == each.pipelines);
    }
  }
}

TEST_CASE("pipelines that fit into a node lie in one where all sizes are powers of two") {
  const Transformer model = transformer_preset("llama-7b");
  const Strategy strategy =
      place_pipelines(model, device_preset("a800"), 32, {{{1, 1, 4}, 2}, {{8, 1, 1}, 1}, {{2, 1, 2}, 4}});
  REQUIRE(strategy.pipelines.size() == 7);
  for (const PipelineSpec& spec : strategy.pipelines) {
    for (const auto& stage : spec.devices) {
      for (const DeviceId id : stage) CHECK(id / 8 == spec.devices[0][0] / 8);
    }
  }
}

TEST_CASE("equal pipelines placed by stage have the devices of the layout") {
  const Transformer model = transformer_preset("llama-7b");
  const Device device = device_preset("a800");
  for (const Layout& layout : {Layout{.dp = 2, .tp = 4, .cp = 1, .pp = 2},
                               {.dp = 4, .tp = 2, .cp = 2, .pp = 4},
                               {.dp = 1, .tp = 8, .cp = 2, .pp = 2}}) {
    const Job job{.model = model, .device = device, .layout = layout};
    const Scheme scheme{layout.tp, layout.cp, layout.pp};
    CHECK(place_pipelines(model, device, scheme.ranks() * layout.dp, {{scheme, layout.dp}},
                          Placement::by_stage) == layout_strategy(job));
  }
}

TEST_CASE("impossible numbers of pipelines are refused") {
  const Transformer model = transformer_preset("llama-7b");
  const Device device = device_preset("a800");
  CHECK_THROWS_WITH(place_pipelines(model, device, 8, {{{4, 1, 1}, 3}}),
                    Catch::Contains("take 12 devices; expected at most 8"));
  CHECK_THROWS_WITH(place_pipelines(model, device, 8, {{{4, 1, 1}, 0}}), Catch::Contains("no pipelines"));
  CHECK_THROWS_WITH(place_pipelines(model, device, 8, {{{4, 1, 1}, -1}}), Catch::Contains("there are -1"));
}

TEST_CASE(
    "rounding gives all whole numbers next to a proposal that fit, and leaves no device idle that a scheme "
    "can use") {
  int neighbours = 0;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    std::vector<ProposalScheme> schemes;
    ProposedStrategy proposed{.seconds = 1.0, .steps = {}};
    std::int64_t steps = 0;
    for (int k = pick(1, 4); k > 0; --k) {
      schemes.push_back({.ranks = std::int64_t{1} << pick(0, 3),
                         .max_tokens = pick(1, 100),
                         .seconds = {1.0 * pick(1, 9)}});
      proposed.steps.push_back(pick(0, 35));
      steps += proposed.steps.back() * schemes.back().ranks;
    }
    const std::int64_t devices = (steps + 9) / 10 + pick(0, 5);
    if (devices == 0) continue;
    const Tokens longest = pick(1, 100);
    const auto rounded = round_proposal(proposed, schemes, longest, devices);
    CHECK(std::is_sorted(rounded.begin(), rounded.end()));
    CHECK(std::adjacent_find(rounded.begin(), rounded.end()) == rounded.end());
    std::int64_t smallest = schemes[0].ranks;
    for (const ProposalScheme& scheme : schemes) smallest = std::min(smallest, scheme.ranks);
    // Each pipeline left out or made whole: what fits and holds the longest sample is there, with more pipelines at most.
    for (unsigned up = 0; up < 1U << schemes.size(); ++up) {
      std::vector<std::int64_t> whole;
      std::int64_t used = 0;
      bool holds = false;
      for (std::size_t k = 0; k < schemes.size(); ++k) {
        const bool part = proposed.steps[k] % 10 != 0;
        whole.push_back(proposed.steps[k] / 10 + (part && (up >> k & 1) != 0 ? 1 : 0));
        used += whole[k] * schemes[k].ranks;
        holds = holds || (whole[k] > 0 && schemes[k].max_tokens >= longest);
      }
      if (used > devices || !holds) continue;
      ++neighbours;
      CHECK(std::any_of(rounded.begin(), rounded.end(), [&](const std::vector<std::int64_t>& pipelines) {
        return std::equal(whole.begin(), whole.end(), pipelines.begin(), std::less_equal<>());
      }));
    }
    for (const auto& pipelines : rounded) {
      std::int64_t used = 0;
      bool holds = false;
      for (std::size_t k = 0; k < schemes.size(); ++k) {
        CHECK(pipelines[k] >= proposed.steps[k] / 10);
        used += pipelines[k] * schemes[k].ranks;
        holds = holds || (pipelines[k] > 0 && schemes[k].max_tokens >= longest);
      }
      CHECK(used <= devices);
      CHECK(devices - used < smallest);
      CHECK(holds);
    }
  }
  CHECK(neighbours > 500);
}

TEST_CASE("a histogram counts lengths, and sums by interval") {
  const LengthHistogram histogram(std::vector<Tokens>{5, 300, 5, 128, 129});
  REQUIRE(histogram.entries().size() == 4);
  CHECK(histogram.entries()[0] == LengthHistogram::Entry{5, 2});
  CHECK(histogram.longest() == 300);
  const std::vector<Tokens> ends = histogram.interval_ends(128);
  CHECK(ends == std::vector<Tokens>{128, 256, 384});
  CHECK(histogram.sum_by_interval(ends, [](Tokens length) { return length; }) ==
        std::vector<double>{138.0, 129.0, 300.0});
  CHECK_THROWS_WITH(LengthHistogram(std::vector<Tokens>{}), Catch::Contains("no samples"));
  CHECK_THROWS_WITH(LengthHistogram(std::vector<Tokens>{0}),
                    Catch::Contains("of length 0; expected more than 0"));
  CHECK_THROWS_WITH(LengthHistogram(std::vector<LengthHistogram::Entry>{{5, 0}}),
                    Catch::Contains("has 0 samples"));
}
