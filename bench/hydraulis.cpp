// Figures of docs/hydraulis.md that `slimpack compare` can't give, as Markdown tables: bench/hydraulis.sh runs this.
// Usage: bench_hydraulis SECTION LENGTHS [BATCHES]   SECTION: figure10 figure11 reasons figure12 figure13 table1 table2,
//   LENGTHS: a file, BATCHES: of each setting, 16 by default
// All steps are simulated. Under the paper's assumptions, all systems have what the paper's systems have: tensor parallelism that may
// cross nodes and whose communication nothing hides, pipeline parallelism, no context parallelism and no recomputation; megatron fills
// packs up to the context and keeps one strategy that holds it for all batches.
#include "slimpack/planners/hydraulis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/partition/dispatch_greedy.hpp"
#include "slimpack/partition/dispatch_search.hpp"
#include "slimpack/partition/pack_pipeline.hpp"
#include "slimpack/plan/reshard_overlap.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/hotspa.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/strategy/strategy_bounds.hpp"

namespace {

using namespace slimpack;

constexpr double infinite = std::numeric_limits<double>::infinity();
using Batches = std::vector<std::vector<Tokens>>;

/// What a comparison takes for granted.
struct Assumptions {
  bool cp = true;  ///< context parallelism, up to 8 ranks
  bool recompute = true;
  double tp_overlap = CalibratedOptions{}.tp_overlap;
  double reserve_bytes = MemoryOptions{}.reserve_bytes;
  double network = 0.9 * 25e9;  ///< bytes per second of each device
  double sync_overlap = 0.0;    ///< share of the gradients' synchronisation that the backward pass hides
  bool free_packs =
      true;  ///< megatron's packs are as long as is best for each batch; else they fill the context
  bool each_batch =
      true;  ///< megatron's strategy is chosen for each batch; else once, among those that hold the context
};
/// With 12 GB of each device kept free, schemes hold as much as the paper's Table 3 shows. Its Table 1 needs a network of about
/// 5.5 GB/s for each device: 1.11 s for three quarters of 2.03e9 parameters (tp 16, dp 4) of 2 bytes there and 2 back. InfiniPipe says of
/// such a cluster that nodes have 400 Gb/s.
constexpr Assumptions papers{.cp = false,
                             .recompute = false,
                             .tp_overlap = 0.0,
                             .reserve_bytes = 12e9,
                             .network = 0.9 * 50e9 / 8,
                             .free_packs = false,
                             .each_batch = false};

struct Setting {
  std::string model;
  std::int32_t gpus = 64;
  Tokens context = 32768, tokens = 100000;

  [[nodiscard]] Transformer transformer() const {
    Transformer m = transformer_preset(model);
    // The code of the paper's authors (PKU-DAIR/Hetu) has 64 heads, which tensor parallelism of 8 and 16 divides.
    if (model == "llama-32b") m.heads = m.kv_heads = 64, m.head_dim = 104;
    return m;
  }
  [[nodiscard]] std::string text() const {
    return concat(model, " | ", gpus, " | ", context / 1024, "K | ", tokens / 1000, "K");
  }
};

/// The first batches of a file: samples in their order, cut at the context, until they have the tokens of a step.
Batches batches_of(const std::vector<Tokens>& lengths, const Setting& setting, std::size_t count) {
  Batches batches(1);
  Tokens sum = 0;
  for (const Tokens length : lengths) {
    batches.back().push_back(std::min(length, setting.context));
    sum += batches.back().back();
    if (sum < setting.tokens) continue;
    if (batches.size() == count) return batches;
    batches.emplace_back();
    sum = 0;
  }
  throw InvalidInput(concat("the file has fewer than ", count, " batches of ", setting.tokens, " tokens"));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// A setting with the strategies that are proposed for the whole file.
class Cluster {
 public:
  Cluster(const Setting& of, const std::vector<Tokens>& lengths, std::size_t count, const Assumptions& with)
      : setting(of), assumed(with), batches(batches_of(lengths, of, count)) {
    device.inter_node.bandwidth = assumed.network;
    make = calibrated_kinds(model, device,
                            {.tp_overlap = assumed.tp_overlap, .sync = {.overlap = assumed.sync_overlap}},
                            {.reserve_bytes = assumed.reserve_bytes});
    std::vector<Tokens> data;
    for (const Tokens length : lengths) data.push_back(std::min(length, setting.context));
    StrategySpace space;
    space.schemes = {.devices = setting.gpus, .most_cp = assumed.cp ? 8 : 1, .tp_across_nodes = !assumed.cp};
    strategies = candidate_strategies(LengthHistogram(data), model, device, make, space, assumed.recompute);
  }

  [[nodiscard]] PlanFreedom freedom() const {
    return assumed.recompute ? PlanFreedom::recompute : PlanFreedom::whole;
  }
  [[nodiscard]] HydraulisOptions options() const { return {.two_stage = {.recompute = assumed.recompute}}; }
  [[nodiscard]] HydraulisPlanner planner(std::vector<Strategy> among) const {
    return {model, device, std::move(among), make, options()};
  }
  /// Whether a sample as long as the context fits some pipeline of a strategy.
  [[nodiscard]] bool holds_context(const StrategySet& set, std::size_t i) const {
    return std::any_of(set.kinds(i).begin(), set.kinds(i).end(), [&](std::size_t k) {
      return set.pipelines()[k].most(assumed.recompute) >= setting.context;
    });
  }

  Setting setting;
  Assumptions assumed;
  Transformer model = setting.transformer();
  Device device = device_preset("a800");
  Batches batches;
  MakeKindModels make;
  std::vector<Strategy> strategies;
};

/// Steps of one batch after another.
struct Steps {
  std::size_t strategy = 0;
  std::vector<double> seconds;

  [[nodiscard]] double step() const { return seconds.empty() ? infinite : mean(seconds); }
};

std::vector<PipelineKind> kinds_of(const Cluster& c, StrategyModels& models) {
  std::vector<PipelineKind> kinds;
  for (std::size_t k = 0; k < models.kinds(); ++k)
    kinds.push_back({.max_tokens = models.max_tokens(k, c.assumed.recompute),
                     .stages = models.memory(k).stages(),
                     .pipelines = models.pipelines(k).size()});
  return kinds;
}

/// What megatron makes of a batch on equal pipelines.
WholeSamplePlan megatron_plan(const Cluster& c, const StrategySet& set, std::size_t i,
                              const std::vector<Tokens>& lengths) {
  static constexpr std::size_t alone = 1;
  StrategyModels models = set.models(i);
  const Tokens most = std::min(c.setting.context, models.max_tokens(0, c.assumed.recompute));
  if (*std::max_element(lengths.begin(), lengths.end()) > most) return {};
  Scheduler scheduler(lengths, models.prices(0), models.memory(0));
  const ScheduleOptions fit{.fit = FitPolicy::recompute};
  const std::size_t pipelines = models.pipelines(0).size();
  return c.assumed.free_packs ? best_whole_samples(lengths, most, pipelines, {&alone, 1}, scheduler, fit)
                              : plan_whole_samples(lengths, most, pipelines, {&alone, 1}, scheduler, fit);
}

/// Megatron's steps, with the best strategy for each batch, or the best one for all.
Steps megatron(const Cluster& c, const StrategySet& set) {
  Steps best, each{.strategy = 0, .seconds = std::vector<double>(c.batches.size(), infinite)};
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (set.kinds(i).size() > 1) continue;
    Steps own{.strategy = i, .seconds = {}};
    for (std::size_t b = 0; b < c.batches.size(); ++b) {
      own.seconds.push_back(megatron_plan(c, set, i, c.batches[b]).seconds + set.sync_seconds(i));
      each.seconds[b] = std::min(each.seconds[b], own.seconds[b]);
    }
    if (c.holds_context(set, i) && own.step() < best.step()) best = std::move(own);
  }
  return c.assumed.each_batch ? each : best;
}

Steps hydraulis(const Cluster& c, HydraulisPlanner& planner) {
  Steps out;
  for (const std::vector<Tokens>& lengths : c.batches) out.seconds.push_back(planner(lengths).step.seconds);
  return out;
}
Steps hydraulis(const Cluster& c) {
  HydraulisPlanner planner = c.planner(c.strategies);
  return hydraulis(c, planner);
}

/// HotSPa's steps, its classes and strategies chosen for each batch.
Steps hotspa(const Cluster& c) {
  std::vector<Strategy> equal;
  std::copy_if(c.strategies.begin(), c.strategies.end(), std::back_inserter(equal),
               [](const Strategy& s) { return s.kinds() == 1; });
  Steps out;
  for (const std::vector<Tokens>& lengths : c.batches)
    out.seconds.push_back(
        plan_hotspa(lengths, c.model, c.device, equal, c.make, {.context = c.setting.context}).step.seconds);
  return out;
}

/// Hydraulis' steps with one strategy for all batches: the best of those that are fit for it and hold the context, of which it plans those
/// with the least estimates.
Steps one_strategy(const Cluster& c, const StrategySet& set, const std::function<bool(std::size_t)>& fit) {
  constexpr std::size_t most_planned = 12;
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!c.holds_context(set, i) || !fit(i)) continue;
    double sum = 0.0;
    for (const std::vector<Tokens>& lengths : c.batches)
      sum += StrategyBounds(lengths, set).estimate(i, c.freedom());
    order.emplace_back(sum, i);
  }
  std::sort(order.begin(), order.end());
  Steps best;
  for (std::size_t n = 0; n < std::min(most_planned, order.size()); ++n) {
    HydraulisPlanner planner = c.planner({set.strategy(order[n].second)});
    Steps own = hydraulis(c, planner);
    own.strategy = order[n].second;
    if (own.step() < best.step()) best = std::move(own);
  }
  return best;
}

/// Samples go to equal pipelines by Eq. 3, and each pipeline fills packs up to the longest that it holds.
Steps dispatched_then_filled(const Cluster& c, const StrategySet& set) {
  static constexpr std::size_t alone = 1;
  Steps best;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (set.kinds(i).size() > 1 || !c.holds_context(set, i)) continue;
    StrategyModels models = set.models(i);
    const std::vector<PipelineKind> kinds = kinds_of(c, models);
    Steps own{.strategy = i, .seconds = {}};
    for (const std::vector<Tokens>& lengths : c.batches) {
      StrategyBounds bounds(lengths, set);
      const std::vector<double> latencies = bounds.times().latencies(i);
      const Dispatch dispatch = search_dispatch({lengths, kinds, latencies}).dispatch;
      std::vector<std::vector<Tokens>> of(kinds[0].pipelines);
      for (std::size_t s = 0; s < lengths.size(); ++s) of[dispatch.pipeline[s]].push_back(lengths[s]);
      double slowest = 0.0;
      for (const std::vector<Tokens>& samples : of) {
        if (samples.empty()) continue;
        Scheduler scheduler(samples, models.prices(0), models.memory(0));
        slowest = std::max(slowest, plan_whole_samples(samples, kinds[0].max_tokens, 1, {&alone, 1},
                                                       scheduler, {.fit = FitPolicy::recompute})
                                        .seconds);
      }
      own.seconds.push_back(slowest + set.sync_seconds(i));
    }
    if (own.step() < best.step()) best = std::move(own);
  }
  return best;
}

/// The strategy that a plan runs on.
Strategy strategy_of_plan(const Plan& plan) {
  std::vector<PipelineSpec> pipelines;
  for (const PipelinePlan& p : plan.pipelines)
    pipelines.push_back({.tp = p.tp, .cp = p.cp, .layers = p.layers, .devices = p.devices});
  return strategy_of(pipelines);
}

/// 1 - the time in which the first pipeline is done over that of the last one.
double gap_of(const std::vector<double>& seconds) {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return 1.0 - *least / *most;
}

std::vector<double> pipeline_seconds(const Plan& plan) {
  const Timeline timeline = time_plan(plan);
  std::vector<double> out;
  for (const auto& stages : timeline.stages) {
    double end = 0.0;
    for (const auto& tasks : stages) end = tasks.empty() ? end : std::max(end, tasks.back().finish);
    out.push_back(end);
  }
  return out;
}

struct Run {
  std::vector<Tokens> lengths;  // of the file
  std::size_t batches = 16;

  [[nodiscard]] Cluster cluster(const Setting& setting, const Assumptions& assumed) const {
    return {setting, lengths, batches, assumed};
  }
};

/// HotSPa may recompute, and chooses its classes and strategies for each batch; so the last column lets hydraulis recompute as well.
void compare_rows(const Run& run, const std::vector<Setting>& settings) {
  std::printf(
      "| model | GPUs | context | tokens | megatron | hotspa | hydraulis | over megatron | over hotspa | "
      "hydraulis, recomputing | over hotspa |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  Assumptions recomputing = papers;
  recomputing.recompute = true;
  for (const Setting& setting : settings) {
    const Cluster c = run.cluster(setting, papers);
    const StrategySet set(c.model, c.strategies, c.make);
    const double first = megatron(c, set).step(), second = hotspa(c).step(), ours = hydraulis(c).step(),
                 more = hydraulis(run.cluster(setting, recomputing)).step();
    std::printf("| %s | %.3f | %.3f | %.3f | %.2fx | %.2fx | %.3f | %.2fx |\n", setting.text().c_str(), first,
                second, ours, first / ours, second / ours, more, second / more);
    std::fflush(stdout);
  }
}

constexpr std::pair<const char*, std::int32_t> clusters[] = {{"llama-7b", 8},   {"llama-7b", 16},
                                                             {"llama-13b", 16}, {"llama-13b", 32},
                                                             {"llama-32b", 32}, {"llama-32b", 64}};

void figure10(const Run& run) {
  std::printf("## Figure 10 under the paper's assumptions: seconds of a step\n\n");
  std::vector<Setting> settings;
  for (const auto& [model, gpus] : clusters) {
    settings.push_back({model, gpus, 16384, 100000});
    settings.push_back({model, gpus, 32768, 100000});
    settings.push_back({model, gpus, 32768, 200000});
  }
  compare_rows(run, settings);
}

void figure11(const Run& run) {
  std::printf("## Figure 11 under the paper's assumptions: seconds of a step\n\n");
  std::vector<Setting> settings;
  for (const std::int32_t gpus : {16, 32, 64}) settings.push_back({"llama-7b", gpus, 32768, 200000});
  for (const Tokens context : {16384, 65536, 131072}) settings.push_back({"llama-7b", 16, context, 200000});
  for (const Tokens tokens : {100000, 400000, 800000}) settings.push_back({"llama-7b", 16, 32768, tokens});
  compare_rows(run, settings);
}

/// What hydraulis gains over megatron as one assumption after another is given up.
void reasons(const Run& run) {
  std::printf(
      "## hydraulis over megatron, 32K, 100K tokens, as assumptions are given up one after another (and each "
      "alone)\n\n");
  std::printf("| given up |");
  for (const auto& [model, gpus] : clusters) std::printf(" %s, %d |", model, gpus);
  std::printf("\n| --- | --- | --- | --- | --- | --- | --- |\n");
  struct Lift {
    const char* name;
    void (*lift)(Assumptions&);
  };
  const Lift lifts[] = {
      {"nothing: the paper's assumptions", [](Assumptions&) {}},
      {"`megatron` fills packs up to the context", [](Assumptions& a) { a.free_packs = true; }},
      {"`megatron` keeps one strategy", [](Assumptions& a) { a.each_batch = true; }},
      {"12 GB of each device are kept free, not 6",
       [](Assumptions& a) { a.reserve_bytes = MemoryOptions{}.reserve_bytes; }},
      {"400 Gb/s for each node, not 1600", [](Assumptions& a) { a.network = Assumptions{}.network; }},
      {"no recomputation", [](Assumptions& a) { a.recompute = true; }},
      {"no context parallelism", [](Assumptions& a) { a.cp = true; }},
      {"nothing hides tensor parallelism's communication",
       [](Assumptions& a) { a.tp_overlap = CalibratedOptions{}.tp_overlap; }},
      {"nothing hides synchronisation", [](Assumptions& a) { a.sync_overlap = 1.0; }},
  };
  const auto gain = [&](const Setting& setting, const Assumptions& assumed) {
    const Cluster c = run.cluster(setting, assumed);
    return megatron(c, {c.model, c.strategies, c.make}).step() / hydraulis(c).step();
  };
  std::map<std::string, Assumptions> chain;
  Assumptions all = papers;
  for (const Lift& lift : lifts) {
    lift.lift(all);
    Assumptions alone = papers;
    lift.lift(alone);
    std::printf("| %s |", lift.name);
    for (const auto& [model, gpus] : clusters) {
      const Setting setting{model, gpus};
      std::printf(" %.2fx (%.2fx) |", gain(setting, all), gain(setting, alone));
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

/// The strategies that the code of the paper's authors (PKU-DAIR/Hetu) has for this case study.
std::vector<Strategy> authors_strategies(const Cluster& c) {
  const Scheme tp16{16, 1, 1}, three{8, 1, 3}, tp8{8, 1, 1}, tp4{4, 1, 1};
  const std::vector<std::vector<SchemeCount>> counts{
      {{tp16, 4}},
      {{tp16, 1}, {three, 2}},
      {{tp16, 1}, {tp8, 6}},
      {{tp16, 1}, {tp4, 12}},
      {{three, 1}, {tp4, 10}},
      {{tp8, 1}, {tp4, 14}},
      {{Scheme{4, 1, 2}, 8}},
  };
  std::vector<Strategy> out;
  for (const auto& each : counts) out.push_back(place_pipelines(c.model, c.device, c.setting.gpus, each));
  return out;
}

/// How often each strategy is chosen, and how far estimates are from simulated steps.
void case_study(const Cluster& c, const std::vector<Strategy>& among, const char* title) {
  std::printf("\n%s:\n\n| strategy | chosen for batches of %zu | their steps, mean |\n| --- | --- | --- |\n",
              title, c.batches.size());
  HydraulisPlanner planner = c.planner(among);
  std::map<std::string, std::vector<double>> chosen;
  std::vector<double> all, off;
  for (const std::vector<Tokens>& lengths : c.batches) {
    const Plan plan = planner(lengths);
    const std::vector<Strategy> own{strategy_of_plan(plan)};
    const StrategySet set(c.model, own, c.make);
    StrategyBounds bounds(lengths, set);
    off.push_back(std::abs(bounds.estimate(0, c.freedom()) / plan.step.seconds - 1.0));
    chosen[to_text(own[0])].push_back(plan.step.seconds);
    all.push_back(plan.step.seconds);
  }
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const auto& [text, seconds] : chosen) order.emplace_back(seconds.size(), text);
  std::sort(order.rbegin(), order.rend());
  for (const auto& [count, text] : order)
    std::printf("| %s | %zu | %.3f |\n", text.c_str(), count, mean(chosen[text]));
  std::printf("\nMean step %.3f s; estimates are off by %.1f %% on the mean.\n", mean(all),
              100.0 * mean(off));
}

void figure12(const Run& run) {
  std::printf("## Figure 12: llama-32b, 64 GPUs, 32K, 100K tokens\n");
  const Cluster c = run.cluster({"llama-32b"}, papers), free = run.cluster({"llama-32b"}, {});
  case_study(c, c.strategies, "The paper's assumptions");
  case_study(c, authors_strategies(c), "The paper's assumptions, the strategies of its authors' code");
  case_study(free, free.strategies, "Context parallelism, recomputation and overlap allowed");
  std::printf(
      "\nHow much earlier than the last pipeline the first one is done, the paper's assumptions:\n\n");
  std::printf("| batch | megatron | hydraulis |\n| --- | --- | --- |\n");
  const StrategySet set(c.model, c.strategies, c.make);
  const std::size_t one = megatron(c, set).strategy;
  HydraulisPlanner planner = c.planner(c.strategies);
  for (std::size_t b = 0; b < std::min<std::size_t>(5, c.batches.size()); ++b) {
    std::vector<double> theirs;
    for (const Schedule& s : megatron_plan(c, set, one, c.batches[b]).schedules)
      theirs.push_back(s.forward.packs.size() == 0 ? 0.0 : s.seconds);
    std::printf("| %zu | %.2f | %.2f |\n", b + 1, gap_of(theirs),
                gap_of(pipeline_seconds(planner(c.batches[b]))));
  }
}

void figure13(const Run& run) {
  std::printf(
      "## Figure 13: seconds of a step, llama-32b, 64 GPUs, 32K, 100K tokens (over the row before)\n\n");
  std::printf("| | the paper's assumptions | nothing assumed |\n| --- | --- | --- |\n");
  std::vector<std::vector<double>> columns;
  for (const Assumptions& assumed : {papers, Assumptions{}}) {
    const Cluster c = run.cluster({"llama-32b"}, assumed);
    const StrategySet set(c.model, c.strategies, c.make);
    const auto equal = [&](std::size_t i) { return set.kinds(i).size() == 1; };
    columns.push_back({dispatched_then_filled(c, set).step(), one_strategy(c, set, equal).step(),
                       one_strategy(c, set, [](std::size_t) { return true; }).step(), hydraulis(c).step()});
  }
  const char* const names[] = {
      "(a) one strategy of equal pipelines, samples dispatched by Eq. 3, packs filled", "(b) packs by Eq. 1",
      "(c) one strategy of any pipelines", "(d) a strategy for each batch"};
  for (std::size_t row = 0; row < 4; ++row) {
    std::printf("| %s |", names[row]);
    for (const std::vector<double>& column : columns)
      std::printf(" %.3f (%.2fx) |", column[row], row == 0 ? 1.0 : column[row - 1] / column[row]);
    std::printf("\n");
  }
}

/// A breakdown's mean over batches.
struct Breakdown {
  StepBreakdown sum;
  double steps = 0.0;

  void add(const StepBreakdown& step) {
    sum.propagation += step.propagation, sum.optimiser += step.optimiser, sum.interaction += step.interaction;
    ++steps;
  }
};

void table1(const Run& run) {
  std::printf("## Table 1: seconds of a step, llama-32b, 64 GPUs, 32K, 100K tokens\n\n");
  const char* const names[] = {"the paper's assumptions", "nothing assumed"};
  std::size_t name = 0;
  for (const Assumptions& assumed : {papers, Assumptions{}}) {
    const Cluster c = run.cluster({"llama-32b"}, assumed);
    const StrategySet set(c.model, c.strategies, c.make);
    const Strategy& one =
        set.strategy(one_strategy(c, set, [&](std::size_t i) { return set.kinds(i).size() == 1; }).strategy);
    HydraulisPlanner equal = c.planner({one}), any = c.planner(c.strategies);
    std::vector<DeviceId> devices(static_cast<std::size_t>(c.setting.gpus));
    std::iota(devices.begin(), devices.end(), DeviceId{0});
    const ParameterShards aligned = aligned_shards(one, c.model), full = full_shards(devices, c.model);
    Breakdown columns[4];
    for (const std::vector<Tokens>& lengths : c.batches) {
      const Plan homogeneous = equal(lengths), plan = any(lengths);
      const DisaggregatedStep first = disaggregated_step(homogeneous, one, aligned, c.device),
                              second = disaggregated_step(plan, strategy_of_plan(plan), full, c.device);
      columns[0].add(first.apart), columns[1].add(first.overlapped);
      columns[2].add(second.apart), columns[3].add(second.overlapped);
    }
    std::printf("%s%s; equal: %s\n\n", name > 0 ? "\n" : "", names[name], to_text(one).c_str());
    ++name;
    std::printf(
        "| | equal pipelines | equal, overlapped | any, apart | any, overlapped |\n| --- | --- | --- | --- | "
        "--- |\n");
    const auto row = [&](const char* title, auto&& value) {
      std::printf("| %s |", title);
      for (const Breakdown& column : columns)
        std::printf(" %.3f (%.2fx) |", value(column.sum) / column.steps,
                    value(columns[0].sum) / value(column.sum));
      std::printf("\n");
    };
    row("P", [](const StepBreakdown& s) { return s.propagation; });
    row("O", [](const StepBreakdown& s) { return s.optimiser; });
    row("O-P", [](const StepBreakdown& s) { return s.interaction; });
    row("E2E", [](const StepBreakdown& s) { return s.seconds(); });
  }
}

/// Seconds that this process computes.
template <class Work>
double seconds_of(const Work& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// Planning, one core: the proposal once; Algorithm 1, our search and the packs on the chosen strategies, and all of it, for all batches.
void table2(const Run& run) {
  std::printf("## Table 2: seconds on one core; all but the proposal for %zu batches\n\n", run.batches);
  std::printf(
      "| GPUs | tokens | proposal | Algorithm 1, 100 trials | our dispatch | packing | all, every candidate "
      "|\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Setting& setting :
       {Setting{"llama-32b", 64, 32768, 200000}, Setting{"llama-32b", 1024, 32768, 3200000}}) {
    std::vector<Cluster> made;
    const double proposal = seconds_of([&] {
      made.push_back({setting, run.lengths, run.batches, Assumptions{}});
    });
    const Cluster& c = made.front();
    HydraulisPlanner planner = c.planner(c.strategies);
    double greedy = 0.0, search = 0.0, packing = 0.0, all = 0.0;
    for (const std::vector<Tokens>& lengths : c.batches) {
      Plan plan;
      all += seconds_of([&] { plan = planner(lengths); });
      const std::vector<Strategy> own{strategy_of_plan(plan)};
      const StrategySet set(c.model, own, c.make);
      StrategyModels models = set.models(0);
      const std::vector<PipelineKind> kinds = kinds_of(c, models);
      const std::vector<double> latencies = SampleTimes(lengths, set).latencies(0);
      const DispatchProblem problem{lengths, kinds, latencies};
      Dispatch dispatch;
      greedy += seconds_of([&] { dispatch = greedy_dispatch(problem); });
      search += seconds_of([&] { dispatch = search_dispatch(problem, TwoStageOptions{}.dispatch).dispatch; });
      packing += seconds_of([&] {
        std::size_t pipeline = 0;
        for (std::size_t k = 0; k < kinds.size(); ++k) {
          for (std::size_t p = 0; p < kinds[k].pipelines; ++p, ++pipeline) {
            std::vector<double> seconds;
            std::vector<Tokens> samples;
            for (std::size_t i = 0; i < lengths.size(); ++i) {
              if (dispatch.pipeline[i] != pipeline) continue;
              seconds.push_back(latencies[k * lengths.size() + i]);
              samples.push_back(lengths[i]);
            }
            if (!samples.empty())
              (void)pack_pipeline(seconds, samples, kinds[k], 0.0, TwoStageOptions{}.packing);
          }
        }
      });
    }
    std::printf("| %d | %lldK | %.3f | %.4f | %.4f | %.4f | %.3f |\n", setting.gpus,
                static_cast<long long>(setting.tokens / 1000), proposal, greedy, search, packing, all);
  }
}

int run_section(const std::string& section, const Run& run) {
  const std::map<std::string, void (*)(const Run&)> sections{
      {"figure10", figure10}, {"figure11", figure11}, {"reasons", reasons}, {"figure12", figure12},
      {"figure13", figure13}, {"table1", table1},     {"table2", table2}};
  const auto found = sections.find(section);
  require(found != sections.end(), "there is no section '", section, "'");
  found->second(run);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc == 3 || argc == 4, "usage: bench_hydraulis SECTION LENGTHS [BATCHES]");
    Run run;
    std::ifstream file(argv[2]);
    for (Tokens length = 0; file >> length;) run.lengths.push_back(length);
    require(!run.lengths.empty(), argv[2], " has no lengths");
    if (argc == 4) run.batches = static_cast<std::size_t>(std::stoul(argv[3]));
    return run_section(argv[1], run);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
