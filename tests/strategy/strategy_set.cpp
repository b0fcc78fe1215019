#include "slimpack/strategy/strategy_set.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <utility>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/strategy/calibrated_kinds.hpp"
#include "slimpack/strategy/place_pipelines.hpp"

using namespace slimpack;

namespace {

/// llama-7b on 16 A800.
struct SetCase {
  Transformer model = transformer_preset("llama-7b");
  Device device = device_preset("a800");
  MakeKindModels make = calibrated_kinds(model, device);

  [[nodiscard]] Strategy place(std::vector<SchemeCount> counts,
                               Placement placement = Placement::by_pipeline) const {
    return place_pipelines(model, device, 16, std::move(counts), placement);
  }
};

}  // namespace

TEST_CASE("strategies that differ only in devices of the same nodes are one") {
  const SetCase c;
  std::vector<Strategy> strategies{c.place({{{4, 1, 1}, 4}}), c.place({{{8, 1, 1}, 1}, {{2, 1, 2}, 2}})};
  strategies.push_back(strategies[0]);
  std::swap(strategies[2].pipelines[0].devices, strategies[2].pipelines[1].devices);
  const StrategySet set(c.model, strategies, c.make);
  REQUIRE(set.size() == 2);
  CHECK(set.strategy(0) == strategies[0]);
  CHECK(set.strategy(1) == strategies[1]);
}

TEST_CASE("pipelines that differ in transfers alone price samples alike, and others do not") {
  const SetCase c;
  // Two stages in a node, and in two.
  const std::vector<Strategy> strategies{
      c.place({{{4, 1, 2}, 2}}), c.place({{{4, 1, 2}, 2}}, Placement::by_stage), c.place({{{8, 1, 1}, 2}})};
  const StrategySet set(c.model, strategies, c.make);
  REQUIRE(set.pipelines().size() == 3);
  CHECK(set.alike(0) == 0);
  CHECK(set.alike(1) == 0);
  CHECK(set.alike(2) == 2);
  const std::vector<Tokens> lengths{100, 3000, 20000};
  std::vector<double> work;
  const auto latencies = [&](std::size_t k) { return set.pipelines()[k].latencies(lengths, work); };
  CHECK(latencies(0) == latencies(1));
  CHECK(latencies(0) != latencies(2));
}

TEST_CASE("a strategy that its models refuse is left out, with the first reason") {
  const SetCase c;
  const std::vector<Strategy> strategies{c.place({{{4, 1, 2}, 2}}), c.place({{{8, 1, 1}, 2}}),
                                         c.place({{{2, 1, 4}, 2}})};
  const MakeKindModels refuses = [&](const Strategy& strategy, std::uint32_t kind) {
    const auto stages = strategy.spec_of_kind(kind).stages();
    require(stages == 1, stages, " stages are out of order");
    return c.make(strategy, kind);
  };
  const StrategySet set(c.model, strategies, refuses);
  REQUIRE(set.size() == 1);
  CHECK(set.strategy(0) == strategies[1]);
  CHECK(set.reason() == "2 stages are out of order");
  CHECK(StrategySet(c.model, strategies, c.make).reason().empty());
}
