#include "slimpack/cost/synchronise.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"
#include "tests/cost/random_jobs.hpp"
#include "tests/effort.hpp"

using namespace slimpack;
using slimpack::testing::Random, slimpack::testing::random_device, slimpack::testing::random_model;

namespace {

/// Pipelines of several kinds, each on devices of its own.
Strategy random_strategy(Random& random, const Transformer& model) {
  Strategy strategy;
  DeviceId next = static_cast<DeviceId>(random.tokens(0, 5));
  for (Tokens kinds = random.tokens(1, 3); kinds > 0; --kinds) {
    PipelineSpec spec{.tp = random.one_of<std::int32_t>({1, 2, 4}),
                      .cp = random.one_of<std::int32_t>({1, 1, 2}),
                      .layers = {},
                      .devices = {}};
    std::int32_t left = model.layers;
    for (Tokens stages = random.tokens(1, 4); stages > 1; --stages) {
      spec.layers.push_back(static_cast<std::int32_t>(random.tokens(0, left)));
      left -= spec.layers.back();
    }
    spec.layers.push_back(left);
    const auto kind = static_cast<std::uint32_t>(strategy.kinds());
    for (Tokens copies = random.tokens(1, 3); copies > 0; --copies) {
      spec.devices.clear();
      for (std::size_t s = 0; s < spec.stages(); ++s) {
        spec.devices.emplace_back();
        for (std::int32_t r = 0; r < spec.tp * spec.cp; ++r) spec.devices.back().push_back(next++);
      }
      strategy.pipelines.push_back(spec);
      strategy.kind.push_back(kind);
    }
  }
  return strategy;
}

/// The same with all parts of the model cut into `cells` parameters' worth that nobody splits further: who holds each,
/// who has its gradient after a reduce-scatter, who updates it.
class NaiveSync {
 public:
  NaiveSync(const Transformer& model, const Device& device, const SyncOptions& options)
      : m_(model), d_(device), o_(options) {}

  double seconds(const Strategy& trains, const Strategy& keeps, bool moves) {
    std::map<DeviceId, double> total;
    for (std::int32_t part = -1; part <= m_.layers; ++part) {
      const double parameters = part == -1          ? embedding_parameters(m_)
                                : part == m_.layers ? embedding_parameters(m_) + m_.hidden
                                                    : layer_parameters(m_);
      std::map<DeviceId, std::map<DeviceId, double>> sent;
      const std::vector<DeviceId> have = owners_of(trains, part), update = owners_of(keeps, part);
      for (int cell = 0; cell < cells; ++cell) {
        const double size = parameters / cells;
        const std::vector<DeviceId> group = holders(trains, part, cell);
        const double n = double(group.size());
        for (const DeviceId d : group) total[d] += (1 - o_.overlap) * size * 6 * (n - 1) / n / ring(group);
        const DeviceId has = have[std::size_t(cell)], updates = update[std::size_t(cell)];
        total[updates] += size * 30 / d_.memory_bandwidth;
        if (moves && has != updates) sent[has][updates] += size;
      }
      // Not per part of the model but per run of layers with the same holders: alike, as pairs repeat.
      std::map<DeviceId, std::array<double, 2>> moved;
      std::map<DeviceId, bool> far;
      for (const auto& [from, tos] : sent) {
        for (const auto& [to, size] : tos) {
          moved[from][0] += size;
          moved[to][1] += size;
          far[from] = far[from] || from / 8 != to / 8;
          far[to] = far[to] || from / 8 != to / 8;
        }
      }
      for (const auto& [d, m] : moved) {
        total[d] +=
            (1 - o_.overlap) * std::max(m[0], m[1]) * 6 / (far[d] ? d_.inter_node : d_.intra_node).bandwidth;
      }
    }
    double most = 0.0;
    for (const auto& [d, t] : total) most = std::max(most, t);
    return most;
  }

 private:
  /// Bytes per second of a ring: between nodes, as many interfaces as the node with the fewest of its devices has.
  double ring(const std::vector<DeviceId>& group) const {
    double most = d_.intra_node.bandwidth;
    for (const DeviceId d : group) {
      const auto near = std::count_if(group.begin(), group.end(), [&](DeviceId e) { return e / 8 == d / 8; });
      if (near < std::ptrdiff_t(group.size())) most = std::min(most, double(near) * d_.inter_node.bandwidth);
    }
    return most;
  }

  static constexpr int cells = 4 * 2520;  // so that tensor ranks and groups of up to 10 divide them

  /// Whose tensor rank has the cell.
  static std::vector<DeviceId> holders(const Strategy& strategy, std::int32_t part, int cell) {
    std::vector<DeviceId> out;
    for (const PipelineSpec& p : strategy.pipelines) {
      std::size_t stage = 0;
      if (part < 0) {
        stage = 0;
      } else {
        std::int32_t held = 0;
        for (stage = 0; stage < p.stages(); ++stage) {
          held += p.layers[stage];
          if (part < held) break;
        }
        stage = std::min(stage, p.stages() - 1);  // the head
      }
      for (std::int32_t c = 0; c < p.cp; ++c)
        out.push_back(p.devices[stage][std::size_t(c * p.tp + cell * p.tp / cells)]);
    }
    return out;
  }

  /// Of each cell, in whose share of the group's cells it is.
  static std::vector<DeviceId> owners_of(const Strategy& strategy, std::int32_t part) {
    std::vector<DeviceId> owners;
    for (int first = 0; first < cells;) {
      const std::vector<DeviceId> group = holders(strategy, part, first);
      int end = first;
      while (end < cells && holders(strategy, part, end) == group) ++end;
      for (int cell = first; cell < end; ++cell)
        owners.push_back(group[std::size_t((cell - first + 0.5) / (end - first) * double(group.size()))]);
      first = end;
    }
    return owners;
  }

  Transformer m_;
  Device d_;
  SyncOptions o_;
};

}  // namespace

TEST_CASE("equal pipelines synchronise each stage among its replicas") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto [on, options, members] = slimpack::testing::random_calibrated(random);
    const CalibratedCost cost(on, options);
    const auto ranks = double(on.layout.dp) * on.layout.cp;
    double slowest = 0.0;
    for (std::size_t s = 0; s < cost.stages(); ++s)
      slowest = std::max(slowest, stage_parameters(on.model, cost.layers(), s) / on.layout.tp);
    const std::int64_t span = on.layout.tp * std::int64_t(ranks);
    const double within = on.device.intra_node.bandwidth, interfaces = std::max(1.0, 8.0 / on.layout.tp);
    const double bandwidth =
        ranks == 1 || span <= 8 ? within : std::min(within, interfaces * on.device.inter_node.bandwidth);
    const double expected =
        slowest * 6 * (ranks - 1) / ranks / bandwidth + slowest / ranks * 30 / on.device.memory_bandwidth;
    if (8 % span == 0 || span % 8 == 0) {  // stages begin where nodes do, or lie within one
      CHECK(cost.sync_seconds() == Approx(expected).epsilon(1e-9));
    }
    CHECK(cost.with_context_parallel(1).sync_seconds() == cost.sync_seconds());
    CHECK(cost.sync_seconds() == sync_seconds(layout_strategy(on), on.model, on.device));
    CHECK(CalibratedCost(on, {.sync = {.overlap = 1.0}}).sync_seconds() <= cost.sync_seconds());
  }
}

TEST_CASE("unequal pipelines synchronise layer by layer, as parameters counted one by one do") {
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(40, 10); ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Transformer model = random_model(random, 4);
    model.layers = static_cast<std::int32_t>(random.tokens(1, 4));
    const Device device = random_device(random);
    const Strategy strategy = random_strategy(random, model);
    std::size_t most = 0;
    for (const PipelineSpec& p : strategy.pipelines) most += static_cast<std::size_t>(p.cp);
    if (most > 10) continue;
    const SyncOptions options{.overlap = random.chance(0.5) ? 0.0 : 0.3};
    CHECK(sync_seconds(strategy, model, device, options) ==
          Approx(NaiveSync(model, device, options).seconds(strategy, strategy, false)).epsilon(1e-9));
  }
}

TEST_CASE("optimiser states stay where they are, and gradients travel to them") {
  const Transformer model{"two", 2, 64, 4, 4, 16, 128, 100};
  Device device = device_preset("h100");
  const PipelineSpec one{.tp = 1, .cp = 1, .layers = {2}, .devices = {{0}}};
  const PipelineSpec two{.tp = 1, .cp = 1, .layers = {2}, .devices = {{1}}};
  const PipelineSpec both{.tp = 2, .cp = 1, .layers = {2}, .devices = {{0, 1}}};
  const Strategy replicas{{one, two}, {0, 0}}, pair{{both}, {0}};
  const double all = parameters(model), update = all / 2 * 30 / device.memory_bandwidth;
  CHECK(sync_seconds(replicas, model, device) == Approx(all * 6 / 2 / device.intra_node.bandwidth + update));
  CHECK(sync_seconds(pair, model, device) == Approx(update));
  // Halves of each part are with the same ranks either way.
  CHECK(sync_seconds(pair, model, device, {.shards = &replicas}) == Approx(update));
  CHECK(sync_seconds(replicas, model, device, {.shards = &pair}) == sync_seconds(replicas, model, device));
  // A rank that holds all states gets half of all gradients, and updates all.
  const Strategy alone{{one}, {0}};
  CHECK(sync_seconds(pair, model, device, {.shards = &alone}) ==
        Approx(all / 2 * 6 / device.intra_node.bandwidth + 2 * update));
  // On another node, all of them.
  const PipelineSpec away{.tp = 1, .cp = 1, .layers = {2}, .devices = {{9}}};
  const Strategy far{{away}, {0}};
  CHECK(sync_seconds(pair, model, device, {.shards = &far}) ==
        Approx(all * 6 / device.inter_node.bandwidth + 2 * update));
}

TEST_CASE("states laid out for any strategy are updated there, as parameters counted one by one are") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Transformer model = random_model(random, 4);
    model.layers = 1;  // so that the embedding, the layer and the head are three parts, each on one stage
    const Device device = random_device(random);
    const Strategy strategy = random_strategy(random, model), keeps = random_strategy(random, model);
    std::size_t most[2] = {0, 0};
    for (const PipelineSpec& p : strategy.pipelines) most[0] += static_cast<std::size_t>(p.cp);
    for (const PipelineSpec& p : keeps.pipelines) most[1] += static_cast<std::size_t>(p.cp);
    if (std::max(most[0], most[1]) > 6) continue;
    const SyncOptions options{.overlap = 0.25, .shards = &keeps};
    const double ours = sync_seconds(strategy, model, device, options);
    CHECK(ours == Approx(NaiveSync(model, device, options).seconds(strategy, keeps, true)).epsilon(1e-9));
    CHECK(sync_seconds(strategy, model, device, {.shards = &strategy}) ==
          Approx(sync_seconds(strategy, model, device)).epsilon(1e-9));
  }
}

TEST_CASE("strategies that can't train a model are refused") {
  const Transformer model = transformer_preset("tiny");
  const Device device = device_preset("h100");
  CHECK_THROWS_WITH(sync_seconds({}, model, device), Catch::Contains("no pipelines"));
  const PipelineSpec spec{.tp = 1, .cp = 1, .layers = {3}, .devices = {{0}}};
  CHECK_THROWS_WITH(sync_seconds({{spec}, {0}}, model, device),
                    Catch::Contains("hold 3 layers; expected the 4"));
  const Strategy good = layout_strategy({model, device, {}});
  CHECK_THROWS_WITH(sync_seconds(good, model, device, {.overlap = 2.0}), Catch::Contains("overlap is 2"));
}
