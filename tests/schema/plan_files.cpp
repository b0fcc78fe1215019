// What the test of the plan's JSON Schema asks the library for:
//   plan_files write FOLDER   writes plans of every kind, by the planners and by hand
//   plan_files read FILE      of each line of the file, what the library thinks: `valid`, `refused: …` if it can't be
//                             read as a plan, `invalid: …` if it breaks a rule
#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/planners/wlb.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;

namespace {

std::vector<Tokens> lengths_with_outlier() {
  std::vector<Tokens> lengths{120000};
  for (Tokens i = 1; i < 24; ++i) lengths.push_back(137 * i);
  return lengths;
}

Job job_on(double memory_bytes) {
  Job job{.model = transformer_preset("llama-7b"),
          .device = device_preset("h100"),
          .layout = {.dp = 4, .tp = 2, .pp = 4}};
  job.device.memory_bytes = memory_bytes;
  return job;
}

/// A batch of which some documents wait.
Plan wlb_plan() {
  Job job = job_on(80e9);
  job.layout.cp = 2;
  WlbOptions options{.context = 120000};
  options.stream.thresholds = {100000};
  auto planner = wlb_planner(job, options);
  std::vector<Document> documents;
  for (const Tokens length : lengths_with_outlier()) documents.push_back({100 - documents.size(), length});
  return planner.push(documents);
}

/// Plans by name. Those of the planners first, then small ones made by hand.
std::vector<std::pair<std::string, Plan>> plans() {
  const std::vector<Tokens> lengths = lengths_with_outlier();
  const double roomy = 80e9, tight = 26e9;
  std::vector<std::pair<std::string, Plan>> all;
  all.emplace_back("slimpack", plan_slimpack(lengths, job_on(roomy)));
  all.emplace_back("slimpack-tight", plan_slimpack(lengths, job_on(tight)));
  all.emplace_back("slimpack-equal", plan_slimpack(lengths, job_on(roomy), {.tile = 1, .equal_packs = true}));
  all.emplace_back("slimpack-symmetric", plan_slimpack(lengths, job_on(roomy), {.asymmetric = false}));
  all.emplace_back("megatron", plan_megatron(lengths, job_on(roomy)));
  all.emplace_back("megatron-tight", plan_megatron(lengths, job_on(tight)));
  all.emplace_back("wlb", wlb_plan());
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const testing::SamplePlanOptions options{.seed = seed,
                                             .samples = 3,
                                             .deferred = seed % 3,
                                             .merged = seed % 2 * 2,
                                             .stages = 2 + seed % 2,
                                             .cp = 1 + static_cast<std::int32_t>(seed % 2),
                                             .mixed = seed % 4 == 1,
                                             .split_weights = seed % 4 < 2,
                                             .details = seed % 3 == 1,
                                             .block = 16};
    all.emplace_back("by-hand-" + std::to_string(seed), testing::sample_plan(options));
  }
  return all;
}

void write(const std::string& folder) {
  for (const auto& [name, plan] : plans()) {
    validate(plan);
    std::ofstream file(folder + "/" + name + ".json");
    write_json(file, plan);
    require(static_cast<bool>(file.flush()), "can't write ", folder, "/", name, ".json");
  }
}

std::string verdict(std::string_view text) {
  try {
    const auto found = violations(read_json(text), 1);
    return found.empty() ? "valid" : "invalid: " + found.front();
  } catch (const InvalidInput& error) {
    return std::string("refused: ") + error.what();
  }
}

void read(const std::string& path) {
  std::ifstream file(path);
  require(file.is_open(), "can't read ", path);
  for (std::string line; std::getline(file, line);) {
    std::string text = verdict(line);
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::cout << text << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view mode = argc == 3 ? argv[1] : "";
  require(mode == "write" || mode == "read", "expected: plan_files write FOLDER, or plan_files read FILE");
  mode == "write" ? write(argv[2]) : read(argv[2]);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "plan_files: " << error.what() << "\n";
  return 1;
}
