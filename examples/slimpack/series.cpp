#include "series.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include "slimpack/core/parallel.hpp"

namespace slimpack::command {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of a planner that plans each batch by itself.
Planned plan_each(const Planner& planner, const JobOptions& options, const Series& series) {
  Planned planned;
  std::vector<Row> rows(series.iterations);
  for_each_index(series.iterations, series.threads, [&](std::size_t i) {
    const std::vector<Tokens> tokens = batch(options, series.lengths, i);
    const Clock::time_point start = Clock::now();
    Plan plan = plan_batch(planner, tokens, options, series.lengths, i);
    rows[i] = figures(plan, seconds_since(start), static_cast<double>(options.job.layout.devices()));
    if (i == 0) planned.first = std::move(plan);
    series.progress.advance();
  });
  for (const Row& row : rows) add(planned.sums, row);
  return planned;
}

/// Of a planner that takes the batches in order. Planning takes as long as all its runs.
Planned plan_in_order(const Planner& planner, const JobOptions& options, const Series& series) {
  Planned best;
  double planning = 0.0;
  const auto runs = planner.start(options, series.lengths, {.iterations = series.iterations});
  for (const PlanRun& run : runs) {
    Planned planned;
    const auto take = [&](auto&& next) {
      const Clock::time_point start = Clock::now();
      std::vector<Plan> plans = next();
      planning += seconds_since(start);
      for (Plan& plan : plans) {
        add(planned.sums, figures(plan, 0.0, static_cast<double>(options.job.layout.devices())));
        if (planned.sums.iterations == 1) planned.first = std::move(plan);
      }
    };
    for (std::size_t i = 0; i < series.iterations; ++i) {
      take([&] { return push_batch(run, options, series.lengths, i); });
      if (&run == &runs.front()) series.progress.advance();
    }
    take(run.finish);
    planned.sums.token_delay = run.token_delay() * static_cast<double>(planned.sums.iterations);
    if (best.sums.iterations == 0 || planned.sums.step_seconds < best.sums.step_seconds)
      best = std::move(planned);
  }
  best.sums.planning_seconds = planning;
  return best;
}

}  // namespace

Planned plan_series(const Planner& planner, const JobOptions& options, const Series& series) {
  series.progress.begin(planner.name);
  Planned planned = planner.start != nullptr ? plan_in_order(planner, options, series)
                                             : plan_each(planner, options, series);
  planned.sums.planner = planner.name;
  return planned;
}

}  // namespace slimpack::command
