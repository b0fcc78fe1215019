#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "ablation.hpp"
#include "arguments.hpp"
#include "batches.hpp"
#include "commands.hpp"
#include "layout_choice.hpp"
#include "layout_options.hpp"
#include "layout_table.hpp"
#include "output.hpp"
#include "planners.hpp"
#include "progress.hpp"
#include "slimpack/plan/html.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/violins.hpp"
#include "table.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

/// The job on which a plan was made: its pipelines may share the devices in another way than was asked for.
JobOptions job_of(const Plan& plan, const JobOptions& options) {
  const PipelinePlan& first = plan.pipelines.front();
  return on_layout(options, {.dp = static_cast<std::int32_t>(plan.pipelines.size()),
                             .tp = first.tp,
                             .cp = first.cp,
                             .pp = static_cast<std::int32_t>(first.stages())});
}

MemoryCurves memory_curves(const Plan& plan, const Timeline& timeline, const JobOptions& options) {
  if (options.profile) return memory_over_time(plan, timeline, profiled_memory(job_of(plan, options)));
  const auto devices_of = [](const PipelinePlan& p) {
    return std::int64_t{p.tp} * p.cp * static_cast<std::int64_t>(p.stages());
  };
  std::vector<std::int64_t> devices(plan.phases(), 0);
  for (const PipelinePlan& p : plan.pipelines) devices[static_cast<std::size_t>(p.phase)] += devices_of(p);
  std::vector<TransformerMemory> memory;
  memory.reserve(plan.pipelines.size());
  for (const PipelinePlan& p : plan.pipelines) {
    const PipelineSpec spec{.tp = p.tp, .cp = p.cp, .layers = p.layers, .devices = p.devices};
    const std::int64_t replicas = devices[static_cast<std::size_t>(p.phase)] / devices_of(p);
    memory.emplace_back(plan.model, plan.device, spec, static_cast<std::int32_t>(replicas), options.memory);
  }
  return memory_over_time(plan, timeline, memory);
}

std::string page(const std::vector<Plan>& plans, const std::vector<Row>& rows, const JobOptions& options) {
  std::vector<Timeline> timelines;
  std::vector<MemoryCurves> curves;
  std::vector<PlanView> views;
  timelines.reserve(plans.size());
  curves.reserve(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    timelines.push_back(time_plan(plans[i]));
    curves.push_back(memory_curves(plans[i], timelines.back(), options));
    views.push_back({&plans[i], &timelines.back(), &curves.back(), title(rows[i])});
  }
  std::ostringstream out;
  const std::size_t iterations = rows.front().iterations;
  const std::string note =
      iterations == 1 ? "" : concat("Figures are means over ", iterations, " batches; drawn is the first.");
  write_html(out, views, to_figures(rows), {.note = note});
  return out.str();
}

std::string violins(const std::vector<Plan>& plans, const std::vector<Row>& rows) {
  std::vector<NamedPlan> named;
  for (std::size_t i = 0; i < plans.size(); ++i) named.push_back({&plans[i], title(rows[i])});
  std::ostringstream out;
  write_violins(out, duration_charts(named));
  return out.str();
}

/// Tables of the layouts that each planner chose from, in one text.
std::string tables_of_layouts(const std::vector<Chosen>& chosen, double tokens) {
  std::string text;
  for (const Chosen& own : chosen) text += '\n' + layouts_text(title(own.planned.sums), own.rows, tokens);
  return text;
}

/// What came of the variants that have a plan.
struct Compared {
  std::vector<Row> rows;
  std::vector<Plan> first;  ///< plan of each row's first batch
  std::vector<Chosen> chosen;
  std::vector<std::string> without;  ///< why the others have none
};

/// `{"rows": [...]}`, and reasons of variants without a plan. @param layouts whether rows have the layouts that their planners chose
/// from.
std::string to_json_text(const Compared& compared, bool layouts, double tokens) {
  const auto& [rows, first, chosen, without] = compared;
  nlohmann::ordered_json document;
  document["rows"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    nlohmann::ordered_json row = to_json(rows[i]);
    if (layouts) row["layouts"] = layouts_json(chosen[i].rows, tokens);
    document["rows"].push_back(std::move(row));
  }
  if (!without.empty()) document["without"] = without;
  return document.dump(2) + "\n";
}

/// Mean tokens of a batch.
double tokens_of_batch(const JobOptions& options, const Lengths& lengths, std::size_t iterations) {
  double tokens = 0.0;
  for (std::size_t i = 0; i < iterations; ++i) {
    for (const Tokens length : batch(options, lengths, i)) tokens += static_cast<double>(length);
  }
  return tokens / static_cast<double>(iterations);
}

/// What figures of planners include that make other iterations than one for each batch. @param tokens of a batch, the mean.
std::string accounts_text(const std::vector<Row>& rows, std::size_t batches, double tokens) {
  std::string text;
  const double all = static_cast<double>(batches) * tokens;
  for (const Row& row : rows) {
    const double waiting = std::round(all - row.tokens * static_cast<double>(row.iterations));
    if (waiting > 0.0) {
      text += concat(title(row), ": after the last batch, ", 100.0 * waiting / all,
                     " % of the tokens still wait; they are not counted\n");
    } else if (row.iterations != batches) {
      text += concat(title(row), ": figures are of the ", row.iterations,
                     " iterations that train all documents of the ", batches, " batches\n");
    }
  }
  return text;
}

std::string lines_of(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += reason + '\n';
  return text;
}

/// The planners that are compared, or variants of them. @param names separated by commas.
std::vector<Variant> variants_of(const std::string& names, const JobOptions& job, bool ablated) {
  std::vector<Variant> variants;
  for (const std::string& name : comma_separated(names)) {
    const Planner& planner = find_planner(name);
    if (ablated) {
      for (Variant& variant : ablation(planner.name, job)) variants.push_back(std::move(variant));
    } else {
      variants.push_back({planner, job});
    }
  }
  return variants;
}

/// Plans with all variants. @param all_needed whether one without a plan is an error; otherwise it is one if none has a plan.
Compared plan_variants(const std::vector<Variant>& variants, const Series& series, bool all_needed) {
  Compared compared;
  for (const Variant& variant : variants) {
    try {
      Chosen own = plan_best(variant.planner, variant.options, series, Comparison::drained);
      compared.rows.push_back(own.planned.sums);
      compared.first.push_back(std::move(own.planned.first));
      compared.chosen.push_back(std::move(own));
    } catch (const InvalidInput& error) {
      if (all_needed || (&variant == &variants.back() && compared.rows.empty())) throw;
      compared.without.push_back(concat(variant.planner.name, ": ", error.what()));
    }
  }
  finish(compared.rows);
  return compared;
}

std::size_t up_to_a_million(const po::variables_map& values, const char* name) {
  const auto value = values[name].as<std::int64_t>();
  require(value > 0 && value <= 1000000, "--", name, " is ", value, "; expected 1 to 1000000");
  return static_cast<std::size_t>(value);
}

}  // namespace

int compare(const std::vector<std::string>& arguments) {
  auto options = job_description();
  add_layout_options(options);
  options.add_options()("planner", po::value<std::string>()->default_value("megatron,slimpack"),
                        "names, separated by commas; auto is the best of all others");
  options.add_options()(
      "ablation",
      "techniques of slimpack, or of each --planner: slimpack, wlb; one after another, then all "
      "but one");
  options.add_options()("layouts", "with --gpus: also each planner's table of layouts");
  options.add_options()("iterations", po::value<std::int64_t>()->value_name("N")->default_value(1),
                        "successive batches");
  options.add_options()("threads", po::value<std::int64_t>()->value_name("N")->default_value(1),
                        "cores to plan on; planners that take batches in order use one");
  options.add_options()("no-drain", "wlb: stop after the last batch; documents that still wait don't count");
  options.add_options()("json", "print the figures as JSON");
  options.add_options()("html", po::value<std::string>()->value_name("FILE"), "draw the first batch's plans");
  options.add_options()("svg", po::value<std::string>()->value_name("FILE"),
                        "draw the durations of the first batch's packs as violins");
  const auto values = parse({"compare", "--lengths FILE --context C [options]", ""}, options, arguments);
  if (!values) return 0;
  JobOptions job = job_options(*values);
  job.documents.drain = values->count("no-drain") == 0;
  const bool with_layouts = values->count("layouts") != 0;
  require(!with_layouts || job.space, "--layouts is given without --gpus; expected both");
  const std::size_t iterations = up_to_a_million(*values, "iterations");
  const std::size_t threads = up_to_a_million(*values, "threads");
  const bool ablated = values->count("ablation") != 0;
  const auto& names = (*values)["planner"];
  const auto variants =
      variants_of(ablated && names.defaulted() ? "slimpack" : names.as<std::string>(), job, ablated);
  const Lengths lengths = read_job_lengths(job);
  require_batches(job, lengths, iterations);

  std::size_t plans = 0;
  for (const Variant& variant : variants) plans += plans_of(variant.planner, job) * iterations;
  Progress progress(plans, job.quiet ? nullptr : &std::cerr);
  const Compared compared = plan_variants(variants, {lengths, iterations, threads, progress}, !ablated);
  const auto& [rows, first, chosen, without] = compared;
  if (values->count("html") != 0) write_output((*values)["html"].as<std::string>(), page(first, rows, job));
  if (values->count("svg") != 0) write_output((*values)["svg"].as<std::string>(), violins(first, rows));
  const double tokens = tokens_of_batch(job, lengths, iterations);
  write_output("-", values->count("json") != 0
                        ? to_json_text(compared, with_layouts, tokens)
                        : to_text(rows, job.space.has_value()) + accounts_text(rows, iterations, tokens) +
                              lines_of(without) + (with_layouts ? tables_of_layouts(chosen, tokens) : ""));
  return 0;
}

}  // namespace slimpack::command
