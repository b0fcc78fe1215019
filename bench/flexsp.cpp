// FlexSP on 32 A800s, 512 samples, with the library's search and with its authors' program. Lengths:
// examples/data/github.train.txt, or the file that SLIMPACK_LENGTHS names; cut to the context.
//
// plan_flexsp: a whole call on one core. Arguments: tokens of context; 7 or 13, the size of the model.
// flexsp_program: micro-batches of equal tokens, from the fewest that hold all samples to four more; for each, the authors' program over 16
// buckets by a solver, which has a second (SLIMPACK_MILP_SECONDS); the row with least work, as solved, is taken. Arguments: tokens of
// context, and of a rank at most. An error if the solver finds nothing in its time. Counters: seconds of a step of both, with the same prices, recomputation and limit.
// authors_costs: the library's groups for the costs and the limit of tokens that the authors' repository ships for a GPT of 7B on 64 A100s of
// which 30 GB are used, as it counts a step: the sum of the slowest group of each micro-batch. Lengths are padded to 128 tokens.
// Arguments: tokens of context; which batch of 512. Counters: milliseconds of a step, micro-batches.

#include "slimpack/planners/flexsp.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/partition/flexible_groups_milp.hpp"
#include "slimpack/planners/flexsp_search.hpp"

#ifdef SLIMPACK_BENCH_GLPK
#include "slimpack/milp/glpk.hpp"
#endif
#ifdef SLIMPACK_BENCH_CBC
#include "slimpack/milp/cbc.hpp"
#endif

#ifndef SLIMPACK_SOURCE_DIR
#define SLIMPACK_SOURCE_DIR "."  // run from the repository's root, then
#endif

namespace {

using namespace slimpack;

constexpr std::size_t ranks = 32;

std::vector<Tokens> batch(Tokens context) {
  return bench::lengths(512, context, "SLIMPACK_LENGTHS",
                        SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
}

Job job_of(bool large) {
  Job job{.model = transformer_preset(large ? "llama-13b" : "llama-7b"),
          .device = device_preset("a800"),
          .layout = {.dp = ranks, .tp = 1, .cp = 1, .pp = 1}};
  if (large) {  // heads that 16 and 32 ranks can divide
    job.model.heads = job.model.kv_heads = 32;
    job.model.head_dim = 160;
  }
  job.device.inter_node.bandwidth = 5.625e9;
  return job;
}

void plan_batch(benchmark::State& state) {
  const std::vector<Tokens> lengths = batch(state.range(0));
  const Job job = job_of(state.range(1) == 13);
  Plan plan;
  for (auto _ : state) benchmark::DoNotOptimize(plan = plan_flexsp(lengths, job));
  state.counters["step_s"] = plan.step.seconds;
}
BENCHMARK(plan_batch)
    ->Name("plan_flexsp")
    ->ArgsProduct({{49152, 98304, 196608}, {7, 13}})
    ->Unit(benchmark::kMillisecond);

/// Least sum of micro-batches' busiest groups over numbers of micro-batches from the fewest that hold the samples.
struct DomainStep {
  double work = std::numeric_limits<double>::infinity();
  std::size_t micro_batches = 0;
};
DomainStep step_of(const RankDomain& domain, Tokens limit, double constant) {
  const std::vector<SampleId> samples = detail::longest_first(domain);
  std::vector<double> tokens, work;
  for (const SampleId id : samples) {
    const std::size_t place = std::min(domain.least_place(id, limit), domain.sizes() - 1);
    tokens.push_back(static_cast<double>(domain.length(id)));
    work.push_back(domain.work(id, place) * static_cast<double>(domain.size(place)));
  }
  const double held = static_cast<double>(limit) * static_cast<double>(domain.ranks());
  const auto fewest =
      static_cast<std::size_t>(std::ceil(std::accumulate(tokens.begin(), tokens.end(), 0.0) / held));
  DomainStep best;
  const RowCuts by_tokens(tokens), by_work(work);
  for (std::size_t count = fewest; count < fewest + 5; ++count) {
    for (const std::vector<std::size_t>& ends :
         {lightest_parts(by_tokens, count), lightest_parts_last_full(by_tokens, count),
          lightest_parts(by_work, count)}) {
      DomainStep step{.work = 0.0};
      std::size_t begin = 0;
      for (const std::size_t end : ends) {
        step.work += constant +
                     flexible_groups(domain, limit, std::span(samples).subspan(begin, end - begin), 24).work;
        begin = end;
        ++step.micro_batches;
        if (step.work >= best.work) break;
      }
      if (step.work < best.work) best = step;
    }
  }
  return best;
}

void authors_costs(benchmark::State& state) {
  constexpr std::size_t devices = 64;
  constexpr double quadratic = 5.128e-6, linear = 0.1839576, constant = 629.3563;  // milliseconds
  constexpr double bandwidth[] = {119.54, 104.07, 96.5, 10.33, 5.94, 4.87};        // of 2, 4, … 64 devices
  const Tokens context = state.range(0);
  const auto number = static_cast<std::size_t>(state.range(1));
  const std::vector<Tokens> all = bench::lengths(512 * (number + 1), context, "SLIMPACK_LENGTHS",
                                                 SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
  std::vector<Tokens> lengths(all.end() - 512, all.end());
  for (Tokens& length : lengths) length = (length + 127) / 128 * 128;
  const double thousands = static_cast<double>(context) / 1024.0;
  const double parameters =
      7.1174468994140625 + (7.8498687744140625 - 7.1174468994140625) / 192.0 * (thousands - 192.0);
  const auto limit =
      static_cast<Tokens>((30.0 * 1024.0 - parameters * 16.0 / devices * 1024.0) / 4.480441895);
  const auto work = [&](Tokens length, std::size_t size) {
    const auto tokens = static_cast<double>(length), group = static_cast<double>(size);
    const double megabytes = 4.0 * 2.0 * 32.0 * 4096.0 * tokens * 2.0 / 1024.0 / 1024.0 / group;
    return (quadratic * tokens * tokens + linear * tokens) / group +
           megabytes / bandwidth[std::countr_zero(size) - 1];
  };
  DomainStep best;
  for (auto _ : state) {
    const RankDomain domain(lengths, devices, {2, 4, 8, 16, 32, 64}, work);
    best = step_of(domain, limit, constant);
  }
  state.counters["step_ms"] = best.work;
  state.counters["micro_batches"] = static_cast<double>(best.micro_batches);
}
BENCHMARK(authors_costs)->ArgsProduct({{49152, 98304, 196608}, {0, 1}})->Unit(benchmark::kMillisecond);

/// Rows of the authors' program; none if it does not hold the samples.
template <class Solve>
std::vector<RankRow> program_rows(const RankDomain& domain, Tokens limit, double constant,
                                  const Solve& solve) {
  const std::vector<SampleId> samples = detail::longest_first(domain);
  std::vector<double> weights;
  double tokens = 0.0;
  for (const SampleId id : samples) {
    weights.push_back(static_cast<double>(domain.length(id)));
    tokens += weights.back();
  }
  const auto fewest =
      static_cast<std::size_t>(std::ceil(tokens / static_cast<double>(limit) / double(ranks)));
  std::vector<RankRow> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t count = fewest; count <= fewest + 4; ++count) {
    std::vector<RankRow> rows;
    double work = 0.0;
    std::size_t begin = 0;
    for (const std::size_t end : lightest_parts(RowCuts(weights), count)) {
      const FlexibleGroupsModel program(domain, limit, std::span(samples).subspan(begin, end - begin), 16);
      const MilpResult result = solve(program.model());
      work += constant + (result.has_solution() ? program.decode(result.values).work
                                                : std::numeric_limits<double>::infinity());
      if (!result.has_solution()) break;
      rows.push_back(program.decode(result.values).row);
      begin = end;
    }
    if (work >= least) continue;
    least = work;
    best = std::move(rows);
  }
  return best;
}

template <class Solve>
void program(benchmark::State& state, const Solve& solve) {
  const std::vector<Tokens> lengths = batch(state.range(0));
  const Job job = job_of(false);
  const UlyssesOptions own = ulysses_options();
  const auto planner = [&](GroupPrices& prices, const Memory& memory) {
    const RankDomain domain(
        lengths, ranks, rank_group_sizes(ranks, [&](std::size_t size) { return prices.allows(size); }),
        [&](Tokens length, std::size_t size) { return document_seconds(prices.shared_by(size), length); });
    const double constant =
        prices.alone().pack_seconds(0, Pass::forward) + prices.alone().pack_seconds(0, Pass::backward);
    const auto rows = program_rows(domain, state.range(1), constant, solve);
    Scheduler scheduler(lengths, prices, memory);
    detail::RowPlan plan = detail::schedule_with_barriers(lengths, rows, ranks, scheduler,
                                                          std::numeric_limits<double>::infinity());
    require(!rows.empty() && plan.schedule.fits(), "the solver found no rows in its time");
    return detail::assemble_rows("flexsp", lengths, job, std::move(plan), prices, scheduler);
  };
  Plan theirs;
  try {
    for (auto _ : state)
      theirs = detail::plan_with_models(lengths, job, CalibratedCost(job, own.cost),
                                        TransformerMemory(job, own.memory), assumed_attention(job), planner);
  } catch (const InvalidInput& error) {
    return state.SkipWithError(error.what());
  }
  state.counters["program_step_s"] = theirs.step.seconds;
  state.counters["step_s"] = plan_flexsp(lengths, job, {.limit = state.range(1)}).step.seconds;
}

[[maybe_unused]] MilpOptions solver_options() {
  const char* seconds = std::getenv("SLIMPACK_MILP_SECONDS");
  return {.time_limit_seconds = seconds == nullptr ? 1.0 : std::strtod(seconds, nullptr)};
}

[[maybe_unused]] void settings(benchmark::internal::Benchmark* b) {
  b->Args({49152, 12288})
      ->Args({98304, 16384})
      ->Args({196608, 32768})
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

#ifdef SLIMPACK_BENCH_GLPK
void program_glpk(benchmark::State& state) {
  program(state, [](const MilpModel& model) { return solve_glpk(model, solver_options()); });
}
BENCHMARK(program_glpk)->Name("flexsp_program_glpk")->Apply(settings);
#endif
#ifdef SLIMPACK_BENCH_CBC
void program_cbc(benchmark::State& state) {
  program(state, [](const MilpModel& model) { return solve_cbc(model, solver_options()); });
}
BENCHMARK(program_cbc)->Name("flexsp_program_cbc")->Apply(settings);
#endif

}  // namespace
