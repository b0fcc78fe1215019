#include "tests/exec/plans.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/exec/whole_stages.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/bytescale.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/dynapipe.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/plan/equal_plan.hpp"
#include "tests/plan/naive_run.hpp"
#include "tests/plan/sample_plan.hpp"
#include "tests/planners/oracle.hpp"
#include "tests/planners/unequal_chunks.hpp"

namespace slimpack::testing {

namespace {

std::optional<Plan> planned(PlanKind kind, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  const bool merge = kind == PlanKind::dp_merge;
  const int dp = pick(merge ? 2 : 1, 4);
  const auto samples = static_cast<std::size_t>(dp + pick(0, 30));
  const auto lengths = oracle::random_lengths(random, samples, merge ? 2 : pick(0, 3), 600);
  Job job = oracle::random_job(random, dp, 1e9);
  job.layout.pp = pick(1, 8);
  job.model.layers = job.layout.pp * pick(1, 3);
  const MemoryOptions options{.reserve_bytes = 0.0};
  const TransformerMemory roomy(job, options);
  double fixed = 0.0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(job.layout.pp); ++s) {
    fixed = std::max(fixed, roomy.static_bytes(s));
  }
  job.device.memory_bytes = fixed + 12e6 * std::exp(0.6 * pick(0, 4));
  const TransformerMemory memory(job, options);
  try {
    if (kind == PlanKind::megatron) return plan_megatron(lengths, job, CalibratedCost(job), memory);
    if (kind == PlanKind::dynamic_cp) return plan_dynamic_cp(lengths, job, CalibratedCost(job), memory);
    if (kind == PlanKind::bytescale) return plan_bytescale(lengths, job, CalibratedCost(job), memory);
    if (kind == PlanKind::dynapipe) return plan_dynapipe(lengths, job, CalibratedCost(job), memory);
    const SlimPackOptions chosen{.tile = pick(0, 1) == 0 ? 1 : 16,
                                 .asymmetric = pick(0, 3) != 0,
                                 .fill = pick(0, 3) != 0,
                                 .inject = pick(0, 3) != 0,
                                 .merge = merge,
                                 .equal_packs = kind == PlanKind::equal_packs};
    return plan_slimpack(lengths, job, CalibratedCost(job), memory, chosen);
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

/// Layers cut into so many stages at random; a stage may have none.
std::vector<std::int32_t> random_layers(std::mt19937& random, std::int32_t layers, int stages) {
  std::vector<std::int32_t> cuts{0, layers};
  for (int s = 1; s < stages; ++s) cuts.push_back(std::uniform_int_distribution(0, layers)(random));
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) cuts[i] = cuts[i + 1] - cuts[i];
  cuts.pop_back();
  return cuts;
}

}  // namespace

void take_shuffled_orders(Plan& plan, unsigned seed) {
  shuffle_orders(plan, seed);
  const Timeline times = time_plan(plan);
  plan.step.pipeline_seconds = times.seconds;
  plan.step.seconds = times.seconds + plan.step.sync_seconds;
  plan.step.bubble_ratio = times.bubble_sum.ratio();
}

Plan plan_by_hand(unsigned seed) {
  SamplePlanOptions options;
  options.seed = seed;
  options.samples = 1 + seed % 9;
  options.deferred = seed % 3;
  options.pipelines = 1 + seed % 3;
  options.stages = 1 + seed % 8;
  options.merged = seed % 2 == 0 ? 3 : 0;
  options.split_weights = seed % 3 == 0;
  options.max_tokens = 40;
  Plan plan = whole_stages(sample_plan(options));
  if (seed % 4 != 0) take_shuffled_orders(plan, seed);
  return plan;
}

Plan unequal_plan(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution(lo, hi)(random); };
  SamplePlanOptions options{.seed = seed, .split_weights = seed % 3 == 0, .block = seed % 2 == 0 ? 0 : 5};
  const std::int32_t layers = pick(3, 5);
  int stages = pick(0, 2);
  for (int kinds = pick(2, 3); kinds > 0; --kinds, stages = (stages + 1) % 3) {
    const auto cut = random_layers(random, layers, stages + 1);
    auto& group = options.groups.emplace_back();
    for (int copies = pick(1, 2); copies > 0; --copies) {
      group.push_back(static_cast<PipelineId>(options.layers.size()));
      options.layers.push_back(cut);
    }
  }
  options.samples = options.layers.size() + static_cast<std::size_t>(pick(0, 5));
  options.deferred = seed % 4 == 0 ? 1 : 0;
  options.merged = static_cast<std::size_t>(pick(0, 4));
  options.max_tokens = 30;
  Plan plan = whole_stages(sample_plan(options));
  if (seed % 3 != 1) take_shuffled_orders(plan, seed);
  return plan;
}

Plan overlapping_plan(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution(lo, hi)(random); };
  SamplePlanOptions options{.seed = seed, .split_weights = seed % 5 == 0, .block = seed % 2 == 0 ? 3 : 0};
  const int pipelines = pick(3, 4);
  const int layers = pick(2, 3), stages = pick(1, 2);
  options.layers.assign(static_cast<std::size_t>(pipelines), random_layers(random, layers, stages));
  options.groups = {{0, 1}, {1, 2}, {2, 0, 1}};
  if (pipelines == 4) options.groups.insert(options.groups.end(), {{3, 1}, {0, 2, 3, 1}});
  std::shuffle(options.groups.begin(), options.groups.end(), random);
  options.merged = options.groups.size() + static_cast<std::size_t>(pick(0, 2));
  options.samples = options.merged + static_cast<std::size_t>(pick(0, 4));
  options.max_tokens = 25;
  Plan plan = whole_stages(sample_plan(options));
  take_shuffled_orders(plan, seed);
  return plan;
}

Plan chunked_plan(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution(lo, hi)(random); };
  std::vector<std::int32_t> stages{1, 2, 3};
  std::shuffle(stages.begin(), stages.end(), random);
  stages.resize(static_cast<std::size_t>(pick(2, 3)));
  if (pick(0, 2) == 0) stages.push_back(stages.front());
  Job job = oracle::random_job(random, 1, 1e10);
  job.model.layers = pick(3, 5);
  const auto samples = stages.size() + static_cast<std::size_t>(pick(0, 6));
  const auto lengths = oracle::random_lengths(random, samples, pick(0, 3), 40);
  return chunks::plan(lengths, job.model, job.device, chunks::pipelines_of(stages, job.model.layers),
                      {.reserve_bytes = 0.0}, pick(3, 15));
}

namespace {

/// Chunks of one pass, sequence by sequence.
using Sequences = std::vector<std::vector<std::vector<Slice>>>;

/// A long sample's chunks and, with its tail, short samples; the others are batched.
Sequences cut_sequences(std::mt19937& random, const std::vector<Tokens>& lengths, Tokens chunk) {
  const auto pick = [&](Tokens lo, Tokens hi) {
    return std::uniform_int_distribution<Tokens>(lo, hi)(random);
  };
  std::vector<SampleId> waiting;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    if (lengths[id] <= chunk) waiting.push_back(id);
  }
  const auto fill = [&](std::vector<Slice>& slices, Tokens room) {
    while (!waiting.empty() && lengths[waiting.back()] <= room) {
      slices.push_back({waiting.back(), 0, lengths[waiting.back()]});
      room -= lengths[waiting.back()];
      waiting.pop_back();
    }
  };
  Sequences out;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    if (lengths[id] <= chunk) continue;
    auto& sequence = out.emplace_back();
    Tokens at = 0;
    while (lengths[id] - at > chunk) {
      const Tokens end = at + pick((chunk + 1) / 2, chunk);
      sequence.push_back({{id, at, end}});
      at = end;
    }
    sequence.push_back({{id, at, lengths[id]}});
    fill(sequence.back(), pick(0, 3) == 0 ? 0 : chunk - (lengths[id] - at));
  }
  while (!waiting.empty()) fill(out.emplace_back().emplace_back(), chunk);
  return out;
}

void add_chunks(const Sequences& sequences, Pass pass, Packs& packs) {
  const auto add = [&](const std::vector<Slice>& chunk) { packs.repeat_row(1, chunk); };
  for (const auto& sequence : sequences) {
    if (pass == Pass::forward)
      std::for_each(sequence.begin(), sequence.end(), add);
    else
      std::for_each(sequence.rbegin(), sequence.rend(), add);
  }
}

/// None, all, or any number of a stage's layers.
std::int32_t some_layers(std::mt19937& random, std::int32_t layers) {
  const auto kind = random() % 4;
  return kind == 0 ? 0 : kind == 1 ? layers : std::uniform_int_distribution(0, layers)(random);
}

}  // namespace

void offload_layers(Plan& plan, unsigned seed) {
  std::mt19937 random(seed);
  PassPlan& backward = plan.backward;
  backward.offload_layers.clear();
  for (std::size_t k = 0; k < backward.packs.size(); ++k) {
    if (random() % 5 > 0) {
      for (const std::int32_t held : plan.pipelines[backward.pipelines[k][0]].layers)
        backward.offload_layers.add(some_layers(random, held));
    }
    backward.offload_layers.close();
  }
}

Plan elastic_plan(const ElasticOptions& o) {
  std::mt19937 random(o.seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution(lo, hi)(random); };
  Job job = oracle::random_job(random, 1, 1e15);
  job.model = o.model;
  job.layout = {.pp = o.stages};
  const Strategy strategy = chunks::pipelines_of(std::vector<std::int32_t>{o.stages}, o.model.layers);
  const std::vector<std::int32_t>& layers = strategy.pipelines[0].layers;
  GroupPrices prices{Prices{CalibratedCost(job)}};
  const Memory memory(TransformerMemory(job, {.reserve_bytes = 0.0}), layers, true);
  Sequences sequences = cut_sequences(random, o.lengths, o.chunk);
  Packs forward, backward;
  add_chunks(sequences, Pass::forward, forward);
  if (!o.mirrored) sequences = cut_sequences(random, o.lengths, o.chunk);
  add_chunks(sequences, Pass::backward, backward);
  std::vector<std::int32_t> recompute_layers;
  for (std::size_t k = 0; k < backward.size(); ++k) {
    for (const std::int32_t held : layers) recompute_layers.push_back(some_layers(random, held));
  }
  Schedule schedule;
  schedule.pipelines = 1;
  schedule.forward = in_rows(std::move(forward));
  schedule.backward = in_rows(std::move(backward));
  constexpr PassOrder orders[] = {PassOrder::packflow, PassOrder::packflow, PassOrder::steady,
                                  PassOrder::gpipe};
  Scheduler scheduler(o.lengths, prices, memory);
  scheduler(schedule, Recompute(layers.size(), std::move(recompute_layers)), {.order = orders[pick(0, 3)]});
  std::vector<PlacedSchedule> placed;
  placed.push_back(placed_from(0, scheduler.with_peaks(std::move(schedule))));
  Plan plan = assemble_plan("elastic", o.lengths, o.model, job.device, strategy, std::move(placed), 0.0);
  if (pick(0, 3) == 0) take_shuffled_orders(plan, o.seed);
  return plan;
}

namespace {

/// One to three long samples among short ones.
Plan small_elastic_plan(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution(lo, hi)(random); };
  ElasticOptions options{.seed = seed, .stages = 1 + static_cast<std::int32_t>(seed % 4)};
  options.model = {"tiny", options.stages * pick(1, 3), 64, 4, 2, 16, 160, 500};
  options.chunk = pick(6, 14);
  options.mirrored = pick(0, 2) > 0;
  for (int i = pick(1, 3); i > 0; --i) options.lengths.push_back(options.chunk + pick(5, 30));
  for (int i = pick(1, 7); i > 0; --i) options.lengths.push_back(pick(1, 8));
  std::shuffle(options.lengths.begin(), options.lengths.end(), random);
  return elastic_plan(options);
}

}  // namespace

std::optional<Plan> random_plan(PlanKind kind, unsigned seed) {
  if (kind == PlanKind::elastic) return small_elastic_plan(seed);
  if (kind == PlanKind::by_hand) return plan_by_hand(seed);
  if (kind == PlanKind::unequal) return unequal_plan(seed);
  if (kind == PlanKind::overlapping) return overlapping_plan(seed);
  if (kind == PlanKind::chunks) return whole_stages(chunked_plan(seed));
  std::optional<Plan> plan = planned(kind, seed);
  if (plan) plan = whole_stages(std::move(*plan));
  return plan;
}

}  // namespace slimpack::testing
