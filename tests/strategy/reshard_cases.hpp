#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/strategy/reshard.hpp"
#include "slimpack/strategy/reshard_steps.hpp"
#include "tests/effort.hpp"

// Layouts of small models, and a plain way to carry out plans between them.
namespace slimpack::testing {

[[nodiscard]] inline Transformer small_transformer(std::int32_t layers) {
  return {.name = "small",
          .layers = layers,
          .hidden = 4,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 2,
          .ffn = 5,
          .vocab = 11};
}

[[nodiscard]] inline Strategy uniform(const Transformer& model, std::int32_t dp, std::int32_t tp,
                                      std::int32_t pp) {
  return layout_strategy({model, device_preset("h100"), {.dp = dp, .tp = tp, .cp = 1, .pp = pp}});
}

/// Pipelines of random shapes on devices from the given ones, which are used up in random order.
[[nodiscard]] inline Strategy random_strategy(std::mt19937& random, const Transformer& model,
                                              std::vector<DeviceId> devices) {
  std::shuffle(devices.begin(), devices.end(), random);
  std::vector<PipelineSpec> pipelines;
  while (!devices.empty()) {
    PipelineSpec spec{.tp = 1 << (random() % 3),
                      .cp = 1 + static_cast<std::int32_t>(random() % 2),
                      .layers = {},
                      .devices = {}};
    while (spec.ranks_per_stage() > static_cast<std::int64_t>(devices.size())) spec.tp = spec.cp = 1;
    const auto width = static_cast<std::size_t>(spec.ranks_per_stage());
    const std::size_t stages = 1 + random() % std::min<std::size_t>(4, devices.size() / width);
    std::int32_t left = model.layers;
    for (std::size_t s = 0; s < stages; ++s) {
      spec.layers.push_back(
          s + 1 == stages ? left : static_cast<std::int32_t>(random() % static_cast<unsigned>(left + 1)));
      left -= spec.layers.back();
      spec.devices.emplace_back(devices.end() - static_cast<std::ptrdiff_t>(width), devices.end());
      devices.resize(devices.size() - width);
    }
    pipelines.push_back(spec);
  }
  return strategy_of(std::move(pipelines));
}

struct ReshardCase {
  Transformer model;
  Device device;
  ParameterShards from, to;
  ReshardOptions options;
};

/// A random pair of layouts. All of it follows from the seed. @param push whether the first has no replicas.
[[nodiscard]] inline ReshardCase reshard_case(unsigned seed, bool push = false) {
  std::mt19937 random(seed);
  ReshardCase c{.model = small_transformer(1 + static_cast<std::int32_t>(random() % 6)),
                .device = device_preset("h100"),
                .from = {},
                .to = {},
                .options = {}};
  c.device.devices_per_node = 1 + static_cast<int>(random() % 5);
  std::vector<DeviceId> devices(1 + random() % 14);
  std::iota(devices.begin(), devices.end(), static_cast<DeviceId>(random() % 4));
  switch (random() % (push ? 2 : 3)) {
    case 0:
      c.from = full_shards(devices, c.model);
      break;
    case 1:
      c.from = aligned_shards(random_strategy(random, c.model, devices), c.model);
      break;
    default:
      c.from = propagation_shards(random_strategy(random, c.model, devices), c.model);
  }
  if (random() % 4 == 0) devices.resize(1 + random() % devices.size());
  c.to = propagation_shards(random_strategy(random, c.model, devices), c.model);
  c.options = {.by_node = random() % 4 != 0, .least_part = 1 + static_cast<std::int64_t>(random() % 40)};
  return c;
}

/// The numbers that devices hold in a layout.
class Holding {
 public:
  explicit Holding(const ParameterShards& layout) : layout_(layout) {}

  /// Sets each number to f(unit, place, device).
  template <class F>
  void fill(F&& f) {
    for_each([&](std::size_t unit, std::int64_t i, DeviceId d) { numbers_[{unit, i, d}] = f(unit, i, d); });
  }
  template <class F>
  void check(F&& f) const {
    for_each([&](std::size_t unit, std::int64_t i, DeviceId d) {
      const auto at = numbers_.find({unit, i, d});
      REQUIRE(at != numbers_.end());
      if (at->second != f(unit, i, d)) CHECK(at->second == f(unit, i, d));
    });
  }
  [[nodiscard]] double& at(std::size_t unit, std::int64_t i, DeviceId d) { return numbers_[{unit, i, d}]; }

 private:
  template <class F>
  void for_each(F&& f) const {
    for (std::size_t u = 0; u < layout_.units(); ++u) {
      for (const ParameterShard& s : layout_.shards[u]) {
        for (std::int64_t i = s.begin; i < s.end; ++i) f(u, i, s.device);
      }
    }
  }

  const ParameterShards& layout_;
  std::map<std::tuple<std::size_t, std::int64_t, DeviceId>, double> numbers_;
};

/// Carries out all ranks' lists, round by round, with messages in queues.
inline void run_steps(const ReshardPlan& plan, ReshardDirection direction, Holding& first, Holding& second) {
  std::map<DeviceId, Ragged<ReshardStep>> lists;
  for (const ParameterShards* layout : {&plan.from, &plan.to}) {
    for (const ParameterShard& s : layout->shards.values()) {
      if (lists.count(s.device) == 0) lists[s.device] = rank_steps(plan, s.device, direction);
    }
  }
  const auto buffer = [&](ReshardBuffer b) -> Holding& { return b == ReshardBuffer::first ? first : second; };
  for (std::size_t u = 0; u < plan.moves.size(); ++u) {
    for (const int round : {0, 1}) {
      std::map<std::pair<DeviceId, DeviceId>, std::deque<std::vector<double>>> mail;
      for (const ReshardPrimitive phase : {ReshardPrimitive::send, ReshardPrimitive::receive}) {
        for (auto& [rank, steps] : lists) {
          for (const ReshardStep& s : steps[u]) {
            const bool sends = s.primitive == ReshardPrimitive::send;
            if (s.round != round || sends != (phase == ReshardPrimitive::send)) continue;
            std::vector<double> numbers;
            if (s.primitive != ReshardPrimitive::receive) {
              for (auto i = s.begin; i < s.end; ++i) numbers.push_back(buffer(s.source).at(u, i, rank));
            }
            if (sends) {
              mail[{rank, s.peer}].push_back(numbers);
              continue;
            }
            if (s.primitive == ReshardPrimitive::receive) {
              auto& box = mail[{s.peer, rank}];
              REQUIRE_FALSE(box.empty());
              numbers = box.front();
              box.pop_front();
            }
            REQUIRE(static_cast<std::int64_t>(numbers.size()) == s.size());
            for (auto i = s.begin; i < s.end; ++i) {
              double& target = buffer(s.target).at(u, i, rank);
              const double value = numbers[static_cast<std::size_t>(i - s.begin)];
              target = s.adds ? target + value : value;
            }
          }
        }
      }
      for (const auto& [pair, box] : mail) CHECK(box.empty());
    }
  }
}

}  // namespace slimpack::testing
