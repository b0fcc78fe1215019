#include "slimpack/strategy/reshard.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/strategy/reshard_seconds.hpp"
#include "slimpack/strategy/reshard_steps.hpp"
#include "tests/strategy/reshard_cases.hpp"

using namespace slimpack;
using slimpack::testing::Holding, slimpack::testing::ReshardCase, slimpack::testing::reshard_case,
    slimpack::testing::run_steps, slimpack::testing::seeds, slimpack::testing::small_transformer,
    slimpack::testing::uniform;

namespace {

/// Per number of a unit, who holds it.
std::vector<std::set<DeviceId>> holders(const ParameterShards& layout, std::size_t unit) {
  std::vector<std::set<DeviceId>> out(static_cast<std::size_t>(layout.sizes[unit]));
  for (const ParameterShard& s : layout.shards[unit]) {
    for (auto i = s.begin; i < s.end; ++i) out[static_cast<std::size_t>(i)].insert(s.device);
  }
  return out;
}

double total(const ParameterShards& layout) {
  return double(std::accumulate(layout.sizes.begin(), layout.sizes.end(), std::int64_t{0}));
}

}  // namespace

TEST_CASE("mutual slices are all numbers, each with the devices that hold it") {
  for (unsigned seed = 1; seed <= seeds(60, 15); ++seed) {
    INFO("seed " << seed);
    const ReshardCase c = reshard_case(seed);
    for (std::size_t u = 0; u < c.from.units(); ++u) {
      const auto before = holders(c.from, u), after = holders(c.to, u);
      std::int64_t at = 0;
      for (const MutualSlice& slice : mutual_slices(c.from, c.to, u)) {
        CHECK(slice.begin == at);
        CHECK(slice.size() > 0);
        at = slice.end;
        for (auto i = slice.begin; i < slice.end; ++i) {
          const auto at_i = static_cast<std::size_t>(i);
          CHECK(std::ranges::equal(before[at_i], slice.from));
          CHECK(std::ranges::equal(after[at_i], slice.to));
        }
      }
      CHECK(at == c.from.sizes[u]);
    }
  }
}

TEST_CASE("slices are cut where the paper's equal slices are") {
  const Transformer model = small_transformer(4);
  const std::vector<DeviceId> devices{0, 1, 2, 3};
  const Strategy strategy = strategy_of({{.tp = 2, .cp = 1, .layers = {4}, .devices = {{0, 1}}},
                                         {.tp = 1, .cp = 1, .layers = {3, 1}, .devices = {{2}, {3}}}});
  const ParameterShards from = full_shards(devices, model), to = propagation_shards(strategy, model);
  for (std::size_t u = 0; u < from.units(); ++u) {
    const std::int64_t equal = std::lcm<std::int64_t>(4, 2);
    if (from.sizes[u] % equal != 0) continue;
    for (const MutualSlice& slice : mutual_slices(from, to, u)) {
      CHECK(slice.begin % (from.sizes[u] / equal) == 0);
      CHECK(slice.end % (from.sizes[u] / equal) == 0);
    }
  }
}

TEST_CASE("a pull gives every device what it needs, and what leaves a node is the least possible") {
  for (unsigned seed = 1; seed <= seeds(80, 20); ++seed) {
    INFO("seed " << seed);
    ReshardCase c = reshard_case(seed);
    for (const bool by_node : {true, false}) {
      c.options.by_node = by_node;
      const ReshardPlan plan = plan_reshard(c.from, c.to, c.device, c.options);
      double crossing = 0.0, within = 0.0, copied = 0.0;
      for (std::size_t u = 0; u < c.from.units(); ++u) {
        const auto before = holders(c.from, u), after = holders(c.to, u);
        auto reached = std::vector<std::set<DeviceId>>(before.size());
        for (const bool forwarded : {false, true}) {
          const auto earlier = reached;
          for (const ReshardMove& m : plan.moves[u]) {
            if (m.forwarded != forwarded) continue;
            for (auto i = static_cast<std::size_t>(m.begin); i < static_cast<std::size_t>(m.end); ++i) {
              CHECK((forwarded ? earlier : before)[i].count(m.from) == 1);
              CHECK(reached[i].insert(m.to).second);  // once only
            }
          }
        }
        CHECK(reached == after);
        for (std::size_t i = 0; i < before.size(); ++i) {
          std::set<DeviceId> nodes_before, nodes_missing;
          for (const DeviceId d : before[i]) nodes_before.insert(d / c.device.devices_per_node);
          for (const DeviceId d : after[i]) {
            const DeviceId node = d / c.device.devices_per_node;
            copied += double(before[i].count(d));
            if (before[i].count(d) == 0) (nodes_before.count(node) > 0 ? within : crossing) += 1.0;
            if (nodes_before.count(node) == 0) nodes_missing.insert(node);
          }
          if (by_node) {  // all but one of each node get it from that one
            double missing = 0.0;
            for (const DeviceId d : after[i])
              missing += double(nodes_missing.count(d / c.device.devices_per_node));
            crossing += double(nodes_missing.size()) - missing;
            within += missing - double(nodes_missing.size());
          }
        }
      }
      CHECK(reshard_bytes(plan, c.device, 1.0) == ReshardBytes{within, crossing, copied});
    }
  }
}

TEST_CASE("numbers that are pulled and pushed back come back as they were, times their replicas") {
  for (unsigned seed = 1; seed <= seeds(80, 20); ++seed) {
    INFO("seed " << seed);
    const ReshardCase c = reshard_case(seed, true);
    const ReshardPlan plan = plan_reshard(c.from, c.to, c.device, c.options);
    Holding first(c.from), second(c.to);
    first.fill([](std::size_t unit, std::int64_t i, DeviceId) { return double(unit * 1000) + double(i); });
    run_steps(plan, ReshardDirection::pull, first, second);
    second.check([](std::size_t unit, std::int64_t i, DeviceId) { return double(unit * 1000) + double(i); });
    const auto gradient = [](std::size_t unit, std::int64_t i, DeviceId d) {
      return double(i % 97) * double(d + 1) + double(unit);
    };
    second.fill(gradient);
    run_steps(plan, ReshardDirection::push, first, second);
    std::vector<std::vector<std::set<DeviceId>>> replicas;
    for (std::size_t u = 0; u < c.to.units(); ++u) replicas.push_back(holders(c.to, u));
    first.check([&](std::size_t unit, std::int64_t i, DeviceId) {
      double sum = 0.0;  // of small integers: exact in any order
      for (const DeviceId d : replicas[unit][static_cast<std::size_t>(i)]) sum += gradient(unit, i, d);
      return sum;
    });
  }
}

TEST_CASE("with an aligned optimiser a pull is an all-gather and a push a reduce-scatter") {
  const Transformer model = small_transformer(6);
  for (const std::int32_t dp : {1, 2, 4}) {
    for (const std::int32_t tp : {1, 2}) {
      for (const std::int32_t pp : {1, 3}) {
        INFO("dp " << dp << " tp " << tp << " pp " << pp);
        Device device = device_preset("h100");
        device.devices_per_node = 64;
        const Strategy strategy = layout_strategy({model, device, {.dp = dp, .tp = tp, .cp = 1, .pp = pp}});
        const ParameterShards needed = propagation_shards(strategy, model);
        const ReshardPlan plan = plan_reshard(aligned_shards(strategy, model), needed, device);
        // Each device sends its own share of a unit to its dp - 1 replicas, keeps it itself, and forwards nothing.
        for (std::size_t u = 0; u < plan.moves.size(); ++u) {
          std::map<DeviceId, std::set<DeviceId>> sent;
          for (const ReshardMove& m : plan.moves[u]) {
            CHECK_FALSE(m.forwarded);
            CHECK(sent[m.from].insert(m.to).second);
            const auto share = plan.from.of(u, m.from);
            REQUIRE(share.size() == 1);
            CHECK((m.begin == share[0].begin && m.end == share[0].end));
          }
          for (const ParameterShard& s : needed.shards[u]) {
            std::set<DeviceId> replicas;
            for (const ParameterShard& other : needed.shards[u]) {
              if (other.begin == s.begin) replicas.insert(other.device);
            }
            CHECK(replicas.size() == static_cast<std::size_t>(dp));
            CHECK(sent[s.device] == replicas);
          }
        }
        const ReshardBytes bytes = reshard_bytes(plan, device, 1.0);
        CHECK(bytes.within_nodes == double(dp - 1) * total(needed));
        CHECK(bytes.in_place == total(needed));
        CHECK(bytes.between_nodes == 0.0);
      }
    }
  }
}

TEST_CASE("between equal layouts nothing leaves a device") {
  for (unsigned seed = 1; seed <= seeds(30, 10); ++seed) {
    INFO("seed " << seed);
    const ReshardCase c = reshard_case(seed);
    for (const ParameterShards* layout : {&c.from, &c.to}) {
      const ReshardPlan plan = plan_reshard(*layout, *layout, c.device, c.options);
      for (const ReshardMove& move : plan.moves.values()) CHECK(move.local());
      const ReshardBytes bytes = reshard_bytes(plan, c.device, 2.0);
      CHECK(bytes.within_nodes + bytes.between_nodes == 0.0);
    }
  }
}

TEST_CASE("replicas share the sending, and the devices of a node the receiving") {
  const Transformer model = small_transformer(6);
  Device device = device_preset("h100");
  device.devices_per_node = 4;
  // Four replicas in a node give the whole model to four devices of another.
  const auto all_on = [&](DeviceId first) {
    std::vector<PipelineSpec> pipelines;
    for (DeviceId d = first; d < first + 4; ++d)
      pipelines.push_back({.tp = 1, .cp = 1, .layers = {6}, .devices = {{d}}});
    return propagation_shards(strategy_of(pipelines), model);
  };
  const ReshardPlan plan = plan_reshard(all_on(0), all_on(4), device, {.least_part = 1});
  std::map<DeviceId, double> sent, received;
  for (const ReshardMove& m : plan.moves.values()) {
    sent[m.from] += double(m.size());
    if (!m.forwarded) received[m.to] += double(m.size());
  }
  for (DeviceId d = 0; d < 4; ++d) {
    CHECK(sent[d] == Approx(total(plan.from) / 4).epsilon(0.05));
    CHECK(received[d + 4] == Approx(total(plan.from) / 4).epsilon(0.05));
    CHECK(sent[d + 4] == Approx(3 * total(plan.from) / 4).epsilon(0.05));
  }
}

TEST_CASE("seconds follow the links") {
  const Transformer model = small_transformer(2);
  Device device = device_preset("h100");
  device.devices_per_node = 2;
  const std::vector<DeviceId> one{0}, near{1}, far{2};
  const ParameterShards from = full_shards(one, model);
  const auto seconds = [&](std::span<const DeviceId> to) {
    return reshard_seconds(plan_reshard(from, full_shards(to, model), device), device, 2.0).slowest();
  };
  const double bytes = 2.0 * total(from), units = double(from.units());
  CHECK(seconds(near) == Approx(units * device.intra_node.latency + bytes / device.intra_node.bandwidth));
  CHECK(seconds(far) == Approx(units * device.inter_node.latency + bytes / device.inter_node.bandwidth));
  CHECK(seconds(one) == Approx(2.0 * bytes / device.memory_bandwidth));
}

TEST_CASE("more bytes never take less time, and no device waits for less than its own bytes") {
  for (unsigned seed = 1; seed <= seeds(40, 10); ++seed) {
    INFO("seed " << seed);
    const ReshardCase c = reshard_case(seed);
    const ReshardPlan plan = plan_reshard(c.from, c.to, c.device, c.options);
    const ReshardSeconds two = reshard_seconds(plan, c.device, 2.0),
                         four = reshard_seconds(plan, c.device, 4.0);
    CHECK(two.slowest() <= four.slowest());
    std::map<DeviceId, double> received;
    for (const ReshardMove& m : plan.moves.values()) {
      if (m.local()) continue;
      const bool is_far = m.from / c.device.devices_per_node != m.to / c.device.devices_per_node;
      received[m.to] += 2.0 * double(m.size()) /
                        std::max(c.device.intra_node.bandwidth, is_far ? c.device.inter_node.bandwidth : 0.0);
    }
    for (const auto& [id, least] : received) CHECK(two.slowest() >= 0.5 * least * (1 - 1e-12));
  }
}

TEST_CASE("layouts of different models are refused, and what is wrong is named") {
  const std::vector<DeviceId> devices{0, 1};
  const Device device = device_preset("h100");
  const ParameterShards six = full_shards(devices, small_transformer(6));
  Transformer wider = small_transformer(6);
  wider.ffn += 1;
  CHECK_THROWS_WITH(plan_reshard(six, full_shards(devices, small_transformer(7)), device),
                    Catch::Contains("8 units") && Catch::Contains("9") && Catch::Contains("one model"));
  CHECK_THROWS_WITH(plan_reshard(six, full_shards(devices, wider), device),
                    Catch::Contains("unit 1 has") && Catch::Contains("one model"));
  ParameterShards hole = six;
  hole.shards.clear();
  for (std::size_t u = 0; u < six.units(); ++u) {
    hole.shards.add(six.shards[u][0]);
    hole.shards.close();
  }
  CHECK_THROWS_WITH(plan_reshard(six, hole, device), Catch::Contains("to no device"));
  ParameterShards twice = six;
  twice.shards.clear();
  for (std::size_t u = 0; u < six.units(); ++u) {
    twice.shards.add({0, 0, six.sizes[u]});
    twice.shards.add({0, 1, six.sizes[u]});
    twice.shards.close();
  }
  CHECK_THROWS_WITH(plan_reshard(six, twice, device), Catch::Contains("twice"));
  CHECK_THROWS_WITH(plan_reshard(six, six, device, {.least_part = 0}), Catch::Contains("least_part is 0"));
  const std::vector<DeviceId> doubled{0, 1, 0};
  CHECK_THROWS_WITH(full_shards(doubled, small_transformer(2)), Catch::Contains("device 0 is listed twice"));
  CHECK_THROWS_WITH(full_shards({}, small_transformer(2)), Catch::Contains("expected at least one"));
  const ParameterShards replicated =
      propagation_shards(uniform(small_transformer(6), 2, 1, 1), small_transformer(6));
  CHECK_THROWS_WITH(rank_steps(plan_reshard(replicated, six, device), 0, ReshardDirection::push),
                    Catch::Contains("both hold number 0"));
}
