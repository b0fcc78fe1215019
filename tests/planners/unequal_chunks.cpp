// A planner as a user of the parts would write it: samples in chunks of equal size, the same in both passes; chunks of
// long samples are computed again in the backward pass; pipelines of several kinds side by side.

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "oracle.hpp"
#include "rules.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/schedule/schedule.hpp"
#include "tests/exec/cluster.hpp"

using namespace slimpack;

namespace chunks {

/// Packs of a pipeline, and which of them hold a part of a sample only.
struct Chunks {
  Packs forward, backward;
  std::vector<bool> part;  // [backward pack]
};

/// Whole samples share a chunk as long as they fit; longer ones are cut. Parts run backward in reverse.
Chunks cut(std::span<const SampleId> samples, std::span<const Tokens> lengths, Tokens size) {
  Chunks out;
  const auto close = [&] {
    for (Packs* packs : {&out.forward, &out.backward}) packs->close();
    out.part.push_back(false);
  };
  Tokens filled = 0;
  for (const SampleId id : samples) {
    if (filled > 0 && filled + lengths[id] > size) close(), filled = 0;
    if (lengths[id] > size) {
      const Tokens count = (lengths[id] + size - 1) / size;
      const auto part = [&](Tokens i) { return Slice{id, i * size, std::min(lengths[id], (i + 1) * size)}; };
      for (Tokens i = 0; i < count; ++i) {
        out.forward.add_row(1, part(i));
        out.backward.add_row(1, part(count - 1 - i));
        out.part.push_back(true);
      }
      continue;
    }
    for (Packs* packs : {&out.forward, &out.backward}) packs->add({id, 0, lengths[id]});
    filled += lengths[id];
  }
  if (filled > 0) close();
  return out;
}

/// Samples to the pipeline with the least work for its speed; each pipeline's chunks on its own.
Plan plan(std::span<const Tokens> lengths, const Transformer& model, const Device& device,
          const Strategy& strategy, const MemoryOptions& options, Tokens size) {
  std::vector<GroupPrices> prices;
  std::vector<Memory> memories;
  for (std::uint32_t kind = 0; kind < strategy.kinds(); ++kind) {
    const PipelineSpec& spec = strategy.spec_of_kind(kind);
    prices.emplace_back(Prices(CalibratedCost(model, device, strategy, kind)));
    const auto replicas = static_cast<std::int32_t>(strategy.pipelines.size());
    memories.emplace_back(TransformerMemory(model, device, spec, replicas, options), spec.layers, true);
  }
  std::vector<SampleId> order(lengths.size());
  std::iota(order.begin(), order.end(), SampleId{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](SampleId a, SampleId b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<SampleId>> samples(strategy.pipelines.size());
  std::vector<double> load(samples.size(), 0.0);
  for (const SampleId id : order) {
    const auto least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    samples[least].push_back(id);
    load[least] += static_cast<double>(lengths[id]) / static_cast<double>(strategy.pipelines[least].stages());
  }
  std::vector<PlacedSchedule> placed;
  for (PipelineId p = 0; p < samples.size(); ++p) {
    const std::uint32_t kind = strategy.kind[p];
    const PipelineSpec& spec = strategy.pipelines[p];
    Chunks own = cut(samples[p], lengths, size);
    std::vector<std::int32_t> again;
    for (const bool part : own.part) {
      for (const std::int32_t layers : spec.layers) again.push_back(part ? layers : 0);
    }
    Scheduler scheduler(lengths, prices[kind], memories[kind]);
    Schedule schedule;
    schedule.pipelines = 1;
    schedule.forward = in_rows(std::move(own.forward));
    schedule.backward = in_rows(std::move(own.backward));
    scheduler(schedule, Recompute(spec.stages(), std::move(again)));
    require(schedule.fits(), "chunks of ", size, " tokens do not fit into memory; expected smaller ones");
    auto peaks = scheduler.peak_bytes(schedule);
    placed.push_back({{p}, std::move(schedule), std::move(peaks)});
  }
  return assemble_plan("unequal chunks", lengths, model, device, strategy, std::move(placed),
                       sync_seconds(strategy, model, device));
}

}  // namespace chunks

namespace {

/// Pipelines of two and of four stages, two of each, and one of a single stage.
Strategy mixed_strategy(std::int32_t layers) {
  std::vector<PipelineSpec> pipelines;
  DeviceId next = 0;
  for (const std::int32_t stages : {2, 4, 2, 4, 1}) {
    PipelineSpec spec{.layers = split_layers(layers, stages), .devices = {}};
    for (std::int32_t s = 0; s < stages; ++s) spec.devices.push_back({next++});
    pipelines.push_back(std::move(spec));
  }
  return strategy_of(std::move(pipelines));
}

}  // namespace

TEST_CASE("a user's planner of chunks makes valid plans for pipelines of several kinds", "[threads]") {
  int recomputed = 0, kept = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Job job = oracle::random_job(random, 1, 1e10);
    Transformer model = job.model;
    model.layers = 8;
    const Strategy strategy = mixed_strategy(model.layers);
    const std::vector<Tokens> lengths = oracle::random_lengths(random, 40, static_cast<int>(seed % 4), 900);
    const MemoryOptions options{.reserve_bytes = 0.0};
    const Plan plan = chunks::plan(lengths, model, job.device, strategy, options, 128);
    const auto found = violations(plan);
    INFO((found.empty() ? "" : found.front()));
    REQUIRE(found.empty());
    CHECK(oracle::broken_rule(plan).empty());
    CHECK(oracle::run(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(time_plan(plan).seconds == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    CHECK(plan.step.sync_seconds > 0.0);
    CHECK(plan.forward.packs.size() == plan.backward.packs.size());
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      const TransformerMemory memory(model, job.device, strategy.pipelines[p], 5, options);
      for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s)
        CHECK(plan.step.peak_bytes[p][s] == Approx(oracle::peak_bytes(plan, p, s, memory)).epsilon(1e-6));
    }
    for (std::size_t k = 0; k < plan.backward.packs.size(); ++k) {
      const auto pack = plan.backward.packs[k];
      const bool part = pack.size() == 1 && pack[0].size() < lengths[pack[0].sample];
      const auto again = plan.backward.recompute_layers[k];
      CHECK(std::accumulate(again.begin(), again.end(), 0) == (part ? model.layers : 0));
      ++(part ? recomputed : kept);
    }
    for (const testing::Channel channel : {testing::Channel::buffered, testing::Channel::rendezvous}) {
      const std::vector<std::string> errors = testing::run_ranks(plan, channel);
      CHECK(errors == std::vector<std::string>(errors.size()));
    }
  }
  CHECK(recomputed > 50);
  CHECK(kept > 50);
}

TEST_CASE("a user's planner says that chunks do not fit") {
  std::mt19937 random(1);
  const Job job = oracle::random_job(random, 1, 1e10);
  Transformer model = job.model;
  model.layers = 8;
  Device small = job.device;
  const Strategy strategy = mixed_strategy(model.layers);
  const MemoryOptions options{.reserve_bytes = 0.0};
  small.memory_bytes =
      TransformerMemory(model, small, strategy.pipelines[4], 5, options).static_bytes(0) + 1e5;
  const std::vector<Tokens> lengths(40, 700);
  CHECK_THROWS_WITH(chunks::plan(lengths, model, small, strategy, options, 128),
                    Catch::Contains("do not fit into memory"));
}
