#include "commands.hpp"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "arguments.hpp"
#include "batches.hpp"
#include "devices.hpp"
#include "options.hpp"
#include "output.hpp"
#include "plan_file.hpp"
#include "planners.hpp"
#include "progress.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/trace.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/stream/state_file.hpp"

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

/// A state file's bytes; nothing where there is no such file.
std::string read_state(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return "";
  try {
    std::string bytes = read_state_file(path);
    require(!bytes.empty(), "the state '", path,
            "' is empty; expected a state that `slimpack plan` has left");
    return bytes;
  } catch (const std::system_error&) {
    throw InvalidInput(concat("can't read the state '", path, "'; expected a readable file, or none"));
  }
}

/// Plans the next iteration of a planner that goes on from its saved state. The new state takes the place of
/// the old one once the plan is written; if that fails in between, the old one gives the same plan again.
void plan_with_state(const Planner& planner, const JobOptions& job, const Lengths& lengths,
                     const std::string& state, const std::string& output) {
  const std::string saved = read_state(state);
  std::vector<PlanRun> runs;
  if (planner.start != nullptr) {
    try {
      runs = planner.start(job, lengths, {.state = saved, .keeps_state = true});
    } catch (const InvalidInput& error) {
      if (saved.empty()) throw;
      throw InvalidInput(concat("with the state '", state, "': ", error.what()));
    }
  }
  require(runs.size() == 1 && runs.front().save, "--state is given for planner ", planner.name,
          ", which remembers nothing; expected it for wlb");
  PlanRun& run = runs.front();
  const Plan plan = job.documents.drain ? run.drain() : push_batch(run, job, lengths, 0).front();
  validate(plan);
  write_output(output, to_json(plan));
  write_output(state, run.save());
}

}  // namespace

int plan(const std::vector<std::string>& arguments) {
  auto options = job_description();
  options.add_options()("planner", po::value<std::string>()->default_value("slimpack"), "its name");
  options.add_options()("state", po::value<std::string>()->value_name("FILE"),
                        "what wlb remembers: it goes on from there, if the file exists, and leaves its new "
                        "state there")("drain", "with --state: no new batch, but what waits");
  add_output(options, "the plan file; - for standard output");
  const auto values =
      parse({"plan", "--lengths FILE --context C [options] -o plan.json", ""}, options, arguments);
  if (!values) return 0;
  const Planner& planner = find_planner((*values)["planner"].as<std::string>());
  const JobOptions job = job_options(*values);
  const std::string state = values->count("state") != 0 ? (*values)["state"].as<std::string>() : "";
  require(!job.documents.drain || !state.empty(), "--drain is given without --state; expected both");
  const Lengths lengths = read_job_lengths(job);
  require_batches(job, lengths, 1);
  Progress progress(1, job.quiet ? nullptr : &std::cerr);
  progress.begin(planner.name);
  if (!state.empty()) {
    plan_with_state(planner, job, lengths, state, (*values)["output"].as<std::string>());
    return 0;
  }
  const Plan plan = plan_first_batch(planner, job, lengths);
  validate(plan);
  write_output((*values)["output"].as<std::string>(), to_json(plan));
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
            << " s\n";
  for (const std::string& note : plan.notes) std::cout << path << ": note: " << note << '\n';
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
