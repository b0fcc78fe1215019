#include "commands.hpp"

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "batches.hpp"
#include "devices.hpp"
#include "layout_choice.hpp"
#include "layout_options.hpp"
#include "options.hpp"
#include "output.hpp"
#include "plan_file.hpp"
#include "planners.hpp"
#include "progress.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/not_checked.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/trace.hpp"
#include "slimpack/plan/validate.hpp"
#include "state_plan.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

po::options_description plan_file_options() {
  po::options_description options;
  options.add_options()("plan", po::value<std::string>()->value_name("FILE")->required(),
                        "the plan file; - for standard input");
  return options;
}

void add_output(po::options_description& options, const char* what) {
  options.add_options()("output,o", po::value<std::string>()->value_name("FILE")->default_value("-"), what);
}

/// Names of the figures that `check` can't find wrong, separated by commas.
std::string not_checked_fields() {
  std::string all;
  for (const NotChecked& figure : not_checked) all += concat(all.empty() ? "" : ", ", figure.field);
  return all;
}

}  // namespace

int plan(const std::vector<std::string>& arguments) {
  auto options = job_description();
  add_layout_options(options);
  options.add_options()("planner", po::value<std::string>()->default_value("slimpack"),
                        "its name; auto is the best of all");
  options.add_options()("state", po::value<std::string>()->value_name("FILE"),
                        "what wlb remembers: it goes on from there, if the file exists, and leaves its new "
                        "state there")("iteration", po::value<std::int64_t>()->value_name("N"),
                                       "with --state: its number, from 0; the number of the last one gives "
                                       "its plan again, for callers who repeat what failed")(
      "drain", "with --state: no new batch, but what waits");
  add_output(options, "the plan file; - for standard output");
  const auto values =
      parse({"plan", "--lengths FILE --context C [options] -o plan.json", ""}, options, arguments);
  if (!values) return 0;
  const Planner& planner = find_planner((*values)["planner"].as<std::string>());
  const JobOptions job = job_options(*values);
  const std::string output = (*values)["output"].as<std::string>();
  const auto state = state_options(*values);
  require(state || !job.documents.drain, "--drain is given without --state; expected both");
  require(!state || !job.space, "--gpus is given with --state; expected --dp, --tp, --cp and --pp");
  const Lengths lengths = read_job_lengths(job);
  require_batches(job, lengths, 1);
  Progress progress(plans_of(planner, job), job.quiet ? nullptr : &std::cerr);
  progress.begin(planner.name);
  if (state) {
    plan_with_state(planner, job, lengths, *state, output);
    return 0;
  }
  const Series first{.lengths = lengths, .progress = progress};
  const Plan plan = plan_best(planner, job, first, Comparison::first_plan).planned.first;
  validate(plan);
  write_output(output, to_json(plan));
  return 0;
}

int check(const std::vector<std::string>& arguments) {
  const auto values = parse({"check", "plan.json", "plan"}, plan_file_options(), arguments);
  if (!values) return 0;
  const std::string path = (*values)["plan"].as<std::string>();
  const Plan plan = read_plan_file(path);
  constexpr std::size_t most = 20;
  const auto found = violations(plan, most);
  for (const std::string& violation : found) std::cout << path << ": " << violation << '\n';
  require(found.empty(), path, " breaks the plan format in ", found.size(),
          found.size() < most ? "" : " or more", found.size() == 1 ? " place" : " places", "; expected none");
  std::cout << path << ": valid; " << plan.pipelines.size() << " pipelines, " << plan.forward.packs.size()
            << " forward and " << plan.backward.packs.size() << " backward packs, step " << plan.step.seconds
            << " s\n"
            << path
            << ": not checked, for nothing else in a plan says what they are: " << not_checked_fields()
            << '\n';
  for (const std::string& note : plan.notes) std::cout << path << ": note: " << visible(note, 1000) << '\n';
  return 0;
}

int trace(const std::vector<std::string>& arguments) {
  po::options_description options = plan_file_options();
  add_output(options, "the trace; - for standard output");
  const auto values = parse({"trace", "plan.json [-o trace.json]", "plan"}, options, arguments);
  if (!values) return 0;
  const std::string path = (*values)["plan"].as<std::string>();
  const Plan plan = read_plan_file(path);
  const auto found = violations(plan, 1);
  require(found.empty(), path, ": invalid plan: ", found.empty() ? "" : found.front());
  write_output((*values)["output"].as<std::string>(), to_trace(plan, time_plan(plan)));
  return 0;
}

int presets(const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("profile", po::value<std::string>()->value_name("FILE"),
                        "of `slimpack profile`: its machine as one more device");
  const auto values = parse({"presets", "[--profile FILE]", ""}, options, arguments);
  if (!values) return 0;
  const auto profile = profile_from(*values);
  std::printf("%-12s %7s %7s %6s %9s %9s %6s %7s %11s\n", "model", "layers", "hidden", "heads", "kv_heads",
              "head_dim", "ffn", "vocab", "parameters");
  for (const Transformer& m : transformer_presets()) {
    std::printf("%-12s %7d %7d %6d %9d %9d %6d %7d %10.1fB\n", m.name.c_str(), m.layers, m.hidden, m.heads,
                m.kv_heads, m.head_dim, m.ffn, m.vocab, parameters(m) / 1e9);
  }
  std::printf("\n%s", device_titles().c_str());
  for (const Device& d : device_presets()) std::printf("%s", device_row(d).c_str());
  if (!profile) return 0;
  const Device measured = device_of_profile(*profile);
  std::printf("%s\nmeasured: %s\n%s", device_row(measured).c_str(),
              device_options(*profile, measured).c_str(), measured_attention(*profile).c_str());
  return 0;
}

}  // namespace slimpack::command
