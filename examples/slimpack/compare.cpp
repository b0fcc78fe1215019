#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "batches.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "planners.hpp"
#include "progress.hpp"
#include "slimpack/core/parallel.hpp"
#include "slimpack/plan/html.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/violins.hpp"
#include "table.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

/// What a planner made of the successive batches.
struct Planned {
  Row sums;
  Plan first;  ///< plan of the first batch; the others' figures are enough
};

Planned plan_all(const Planner& planner, const JobOptions& options, const Lengths& lengths,
                 std::size_t iterations, std::size_t threads, Progress& progress) {
  Planned planned;
  std::vector<Row> rows(iterations);
  progress.begin(planner.name);
  for_each_index(iterations, threads, [&](std::size_t i) {
    const std::vector<Tokens> tokens = batch(options, lengths, i);
    const auto start = std::chrono::steady_clock::now();
    Plan plan = plan_batch(planner, tokens, options, lengths, i);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rows[i] = figures(plan, seconds.count(), static_cast<double>(options.job.layout.devices()));
    if (i == 0) planned.first = std::move(plan);
    progress.advance();
  });
  planned.sums.planner = planner.name;
  for (const Row& row : rows) add(planned.sums, row);
  return planned;
}

/// The same of a planner that takes the batches in order. Of several runs the one counts that takes least time
/// in all; planning takes as long as all of them.
Planned plan_in_order(const Planner& planner, const JobOptions& options, const Lengths& lengths,
                      std::size_t iterations, Progress& progress) {
  Planned best;
  double planning = 0.0;
  progress.begin(planner.name);
  const std::vector<PlanRun> runs = planner.start(options, lengths, {.iterations = iterations});
  for (const PlanRun& run : runs) {
    Planned planned;
    const auto take = [&](auto&& next) {
      const auto start = std::chrono::steady_clock::now();
      std::vector<Plan> plans = next();
      planning += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      for (Plan& plan : plans) {
        add(planned.sums, figures(plan, 0.0, static_cast<double>(options.job.layout.devices())));
        if (planned.sums.iterations == 1) planned.first = std::move(plan);
      }
    };
    for (std::size_t i = 0; i < iterations; ++i) {
      take([&] { return push_batch(run, options, lengths, i); });
      if (&run == &runs.front()) progress.advance();
    }
    take(run.finish);
    planned.sums.token_delay = run.token_delay() * static_cast<double>(planned.sums.iterations);
    if (best.sums.iterations == 0 || planned.sums.step_seconds < best.sums.step_seconds)
      best = std::move(planned);
  }
  best.sums.planner = planner.name;
  best.sums.planning_seconds = planning;
  return best;
}

/// Memory model of a plan's pipelines, which may share the devices in another way than the layout asked for.
TransformerMemory memory_of(const Plan& plan, const JobOptions& options) {
  Job job = options.job;
  job.layout.dp = static_cast<std::int32_t>(plan.pipelines.size());
  job.layout.cp = plan.pipelines.front().cp;
  return TransformerMemory(job, options.memory);
}

std::string page(const std::vector<Plan>& plans, const std::vector<Row>& rows, const JobOptions& options) {
  std::vector<Timeline> timelines;
  std::vector<MemoryCurves> curves;
  std::vector<PlanView> views;
  timelines.reserve(plans.size());
  curves.reserve(plans.size());
  for (const Plan& plan : plans) {
    timelines.push_back(time_plan(plan));
    curves.push_back(options.profile ? memory_over_time(plan, timelines.back(), profiled_memory(options))
                                     : memory_over_time(plan, timelines.back(), memory_of(plan, options)));
    views.push_back({&plan, &timelines.back(), &curves.back(), plan.planner});
  }
  std::ostringstream out;
  const std::size_t iterations = rows.front().iterations;
  const std::string note =
      iterations == 1 ? "" : concat("Figures are means over ", iterations, " batches; drawn is the first.");
  write_html(out, views, to_figures(rows), {.note = note});
  return out.str();
}

std::string violins(const std::vector<Plan>& plans) {
  std::vector<NamedPlan> named;
  for (const Plan& plan : plans) named.push_back({&plan, plan.planner});
  std::ostringstream out;
  write_violins(out, duration_charts(named));
  return out.str();
}

std::vector<const Planner*> find_planners(const std::string& names) {
  std::vector<const Planner*> chosen;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    chosen.push_back(&find_planner(names.substr(begin, end - begin)));
    begin = end + 1;
  }
  return chosen;
}

std::size_t up_to_a_million(const po::variables_map& values, const char* name) {
  const auto value = values[name].as<std::int64_t>();
  require(value > 0 && value <= 1000000, "--", name, " is ", value, "; expected 1 to 1000000");
  return static_cast<std::size_t>(value);
}

}  // namespace

int compare(const std::vector<std::string>& arguments) {
  auto options = job_description();
  options.add_options()("planner", po::value<std::string>()->default_value("megatron,slimpack"),
                        "names, separated by commas");
  options.add_options()("iterations", po::value<std::int64_t>()->value_name("N")->default_value(1),
                        "successive batches");
  options.add_options()("threads", po::value<std::int64_t>()->value_name("N")->default_value(1),
                        "cores to plan on; planners that take batches in order use one");
  options.add_options()("drain", "wlb: after the last batch, also iterations of what waits");
  options.add_options()("json", "print the figures as JSON");
  options.add_options()("html", po::value<std::string>()->value_name("FILE"), "draw the first batch's plans");
  options.add_options()("svg", po::value<std::string>()->value_name("FILE"),
                        "draw the durations of the first batch's packs as violins");
  const auto values = parse({"compare", "--lengths FILE --context C [options]", ""}, options, arguments);
  if (!values) return 0;
  const JobOptions job = job_options(*values);
  const std::size_t iterations = up_to_a_million(*values, "iterations");
  const std::size_t threads = up_to_a_million(*values, "threads");
  const auto planners = find_planners((*values)["planner"].as<std::string>());
  const Lengths lengths = read_job_lengths(job);
  require_batches(job, lengths, iterations);

  std::vector<Row> rows;
  std::vector<Plan> first;
  Progress progress(planners.size() * iterations, job.quiet ? nullptr : &std::cerr);
  for (const Planner* planner : planners) {
    Planned planned = planner->start != nullptr
                          ? plan_in_order(*planner, job, lengths, iterations, progress)
                          : plan_all(*planner, job, lengths, iterations, threads, progress);
    rows.push_back(planned.sums);
    first.push_back(std::move(planned.first));
  }
  finish(rows);
  if (values->count("html") != 0) write_output((*values)["html"].as<std::string>(), page(first, rows, job));
  if (values->count("svg") != 0) write_output((*values)["svg"].as<std::string>(), violins(first));
  write_output("-", values->count("json") != 0 ? to_json_text(rows) : to_text(rows));
  return 0;
}

}  // namespace slimpack::command
