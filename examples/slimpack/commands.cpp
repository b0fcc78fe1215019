#include "commands.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "options.hpp"
#include "output.hpp"
#include "planners.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/html.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/trace.hpp"
#include "slimpack/plan/validate.hpp"
#include "table.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

/// Parses arguments; prints the options and returns nothing for --help.
std::optional<po::variables_map> parse(const std::vector<std::string>& arguments,
                                       po::options_description options, const char* usage,
                                       const char* positional = nullptr) {
  options.add_options()("help,h", "this text");
  po::positional_options_description places;
  if (positional != nullptr) places.add(positional, 1);
  po::variables_map values;
  po::store(po::command_line_parser(arguments)
                .options(options)
                .positional(places)
                .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing)
                .run(),
            values);
  if (values.count("help") != 0) {
    std::cout << "usage: " << usage << '\n' << options;
    return std::nullopt;
  }
  po::notify(values);
  return values;
}

Plan read_plan_file(const std::string& path) {
  if (path == "-") return read_json(std::cin);
  std::ifstream file(path);
  require(file.is_open(), "can't read the plan '", path,
          "'; expected a readable file, or - for standard input");
  try {
    return read_json(file);
  } catch (const InvalidInput& error) {
    throw InvalidInput(path + ": " + error.what());
  }
}

std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> list;
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');) list.push_back(name);
  require(!list.empty(), "--planner is empty; expected names separated by commas");
  return list;
}

/// Says on standard error how far a long run is, once a second at most.
class Progress {
 public:
  void report(std::size_t done, std::size_t all) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    std::fprintf(stderr, "slimpack: iteration %zu of %zu\n", done, all);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

struct Planned {
  Plan plan;
  double seconds = 0.0;
};

Planned timed_plan(const Planner& planner, const std::vector<Tokens>& lengths, const JobOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Planned planned{planner.plan(lengths, options), 0.0};
  planned.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return planned;
}

/// Plans of all iterations by one planner, on `threads` cores.
std::vector<Planned> plan_all(const Planner& planner, const JobOptions& options, const Lengths& lengths,
                              std::size_t iterations, std::size_t threads, Progress& progress) {
  std::vector<Planned> planned(iterations);
  if (threads <= 1) {
    for (std::size_t i = 0; i < iterations; ++i) {
      planned[i] = timed_plan(planner, batch(options, lengths, i), options);
      progress.report(i + 1, iterations);
    }
    return planned;
  }
  std::vector<std::exception_ptr> errors(threads);
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      try {
        for (std::size_t i = t; i < iterations; i += threads) {
          planned[i] = timed_plan(planner, batch(options, lengths, i), options);
        }
      } catch (...) {
        errors[t] = std::current_exception();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return planned;
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
    curves.push_back(memory_over_time(plan, timelines.back(), memory_of(plan, options)));
    views.push_back({&plan, &timelines.back(), &curves.back(), plan.planner});
  }
  std::ostringstream out;
  write_html(out, views, to_text(rows));
  return out.str();
}

}  // namespace

int plan(const std::vector<std::string>& arguments) {
  auto options = job_description();
  options.add_options()("planner", po::value<std::string>()->default_value("slimpack"), "its name")(
      "output,o", po::value<std::string>()->value_name("FILE")->default_value("-"),
      "the plan file; - for standard output");
  const auto values =
      parse(arguments, options, "slimpack plan --lengths FILE --context C [options] -o plan.json");
  if (!values) return 0;
  const Planner& planner = find_planner((*values)["planner"].as<std::string>());
  const JobOptions job = job_options(*values);
  const Plan plan = planner.plan(batch(job, read_lengths_from(job.lengths), 0), job);
  validate(plan);
  write_output((*values)["output"].as<std::string>(), to_json(plan));
  return 0;
}

int compare(const std::vector<std::string>& arguments) {
  auto options = job_description();
  options.add_options()("planner", po::value<std::string>()->default_value("megatron,slimpack"),
                        "names, separated by commas")(
      "iterations", po::value<std::int64_t>()->value_name("N")->default_value(1), "successive batches")(
      "threads", po::value<std::int64_t>()->value_name("N")->default_value(1), "cores to plan on")(
      "json", "print the figures as JSON")("html", po::value<std::string>()->value_name("FILE"),
                                           "draw the first batch's plans");
  const auto values = parse(arguments, options, "slimpack compare --lengths FILE --context C [options]");
  if (!values) return 0;
  const JobOptions job = job_options(*values);
  const auto positive = [&](const char* name) {
    const auto value = (*values)[name].as<std::int64_t>();
    require(value > 0 && value <= 1000000, "--", name, " is ", value, "; expected 1 to 1000000");
    return static_cast<std::size_t>(value);
  };
  const std::size_t iterations = positive("iterations"), threads = positive("threads");
  std::vector<const Planner*> chosen;
  for (const std::string& name : split_names((*values)["planner"].as<std::string>()))
    chosen.push_back(&find_planner(name));

  const Lengths lengths = read_lengths_from(job.lengths);
  std::vector<Row> rows;
  std::vector<Plan> first;
  Progress progress;
  for (const Planner* planner : chosen) {
    Row& row = rows.emplace_back();
    row.planner = planner->name;
    auto planned = plan_all(*planner, job, lengths, iterations, threads, progress);
    for (const Planned& one : planned) {
      add(row, one.plan, one.seconds, static_cast<double>(job.job.layout.devices()));
    }
    first.push_back(std::move(planned.front().plan));
  }
  finish(rows);
  if (values->count("html") != 0) write_output((*values)["html"].as<std::string>(), page(first, rows, job));
  write_output("-", values->count("json") != 0 ? to_json_text(rows) : to_text(rows));
  return 0;
}

int check(const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("plan", po::value<std::string>()->required(), "the plan file");
  const auto values = parse(arguments, options, "slimpack check plan.json", "plan");
  if (!values) return 0;
  const std::string path = (*values)["plan"].as<std::string>();
  const Plan plan = read_plan_file(path);
  const auto found = violations(plan);
  for (const std::string& violation : found) std::cout << path << ": " << violation << '\n';
  require(found.empty(), path, " breaks ", found.size(), " rules of the plan format");
  std::cout << path << ": valid; " << plan.pipelines.size() << " pipelines, " << plan.forward.packs.size()
            << " forward and " << plan.backward.packs.size() << " backward packs, step " << plan.step.seconds
            << " s\n";
  return 0;
}

int trace(const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("plan", po::value<std::string>()->required(), "the plan file")(
      "output,o", po::value<std::string>()->value_name("FILE")->default_value("-"), "the trace");
  const auto values = parse(arguments, options, "slimpack trace plan.json [-o trace.json]", "plan");
  if (!values) return 0;
  const Plan plan = read_plan_file((*values)["plan"].as<std::string>());
  validate(plan);
  write_output((*values)["output"].as<std::string>(), to_trace(plan, time_plan(plan)));
  return 0;
}

int presets(const std::vector<std::string>& arguments) {
  if (!parse(arguments, po::options_description(), "slimpack presets")) return 0;
  std::printf("%-12s %7s %7s %6s %9s %9s %6s %7s %11s\n", "model", "layers", "hidden", "heads", "kv_heads",
              "head_dim", "ffn", "vocab", "parameters");
  for (const Transformer& m : transformer_presets()) {
    std::printf("%-12s %7d %7d %6d %9d %9d %6d %7d %10.1fB\n", m.name.c_str(), m.layers, m.hidden, m.heads,
                m.kv_heads, m.head_dim, m.ffn, m.vocab, parameters(m) / 1e9);
  }
  std::printf("\n%-8s %9s %6s %8s %8s %8s %9s %9s %9s\n", "device", "TFLOP/s", "GEMM", "attn F", "attn B",
              "GB", "mem TB/s", "link GB/s", "net GB/s");
  for (const Device& d : device_presets()) {
    std::printf("%-8s %9.0f %6.2f %8.2f %8.2f %8.1f %9.2f %9.0f %9.0f\n", d.name.c_str(), d.peak_flops / 1e12,
                d.gemm_efficiency, d.attention_forward, d.attention_backward, d.memory_bytes / 1e9,
                d.memory_bandwidth / 1e12, d.intra_node.bandwidth / 1e9, d.inter_node.bandwidth / 1e9);
  }
  return 0;
}

}  // namespace slimpack::command
