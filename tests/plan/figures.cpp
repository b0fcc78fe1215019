#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/not_checked.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/fixed_4d.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/plain_4d.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/planners/wlb.hpp"
#include "tests/effort.hpp"
#include "tests/plan/sample_plan.hpp"
#include "tests/planners/documents.hpp"

using namespace slimpack;
using nlohmann::json;

namespace {

const std::vector<Tokens>& figure_lengths() {
  static const std::vector<Tokens> all{1900, 137, 20, 700, 55, 1400, 90};
  return all;
}

/// A small model on few devices, whose memory makes planners recompute.
oracle::Job4d figure_job(std::int32_t cp) {
  Job job{.model = {"tiny", 4, 64, 4, 2, 16, 96, 300},
          .device = device_preset("h100"),
          .layout = {.dp = 2, .tp = 2, .cp = cp, .pp = 2}};
  const TransformerMemory empty(job, {.reserve_bytes = 0.0});
  job.device.memory_bytes = std::max(empty.static_bytes(0), empty.static_bytes(1)) + 6e7;
  return oracle::Job4d(job);
}

std::vector<Document> figure_documents() {
  std::vector<Document> all;
  for (const Tokens length : figure_lengths()) all.push_back({1000 - all.size(), length});
  return all;
}

Plan figure_wlb_plan(const oracle::Job4d& j) {
  WlbOptions options{.context = 2048};
  options.stream.thresholds = {1500};
  WlbPlanner planner(j.job, j.cost, j.memory, j.attention, options);
  return planner.push(figure_documents());
}

/// Plans of all planners, and by hand with all that a plan may say.
std::map<std::string, Plan> figure_plans() {
  const oracle::Job4d alone = figure_job(1), shared = figure_job(2);
  std::map<std::string, Plan> all;
  for (const oracle::Job4d* j : {&alone, &shared}) {
    const std::string cp = j == &alone ? "" : " on 2 context-parallel ranks";
    all["slimpack" + cp] = plan_slimpack(figure_lengths(), j->job, j->cost, j->memory, {.tile = 16});
    all["megatron" + cp] = plan_megatron(figure_lengths(), j->job, j->cost, j->memory);
    all["plain-4d" + cp] =
        plan_plain_4d(figure_lengths(), j->job, j->cost, j->memory, j->attention, {.context = 2048});
    all["fixed-4d" + cp] =
        plan_fixed_4d(figure_lengths(), std::vector<std::size_t>{0, figure_lengths().size()}, j->job, j->cost,
                      j->memory, j->attention, {.context = 2048})
            .plans.front();
    all["wlb" + cp] = figure_wlb_plan(*j);
  }
  for (std::uint64_t seed = 1; seed <= testing::seeds(6, 2); ++seed) {
    const testing::SamplePlanOptions options{.seed = seed,
                                             .samples = 4,
                                             .deferred = seed % 2,
                                             .merged = seed % 3,
                                             .stages = 1 + seed % 3,
                                             .cp = 1 + static_cast<std::int32_t>(seed % 2),
                                             .mixed = seed % 4 == 1,
                                             .split_weights = seed % 3 == 0,
                                             .details = seed % 3 < 2,
                                             .block = 16};
    all["by hand " + std::to_string(seed)] = testing::sample_plan(options);
  }
  for (const bool forward : {true, false}) {
    Plan& plan = all[forward ? "one forward block" : "one backward block"];
    plan = testing::sample_plan(
        {.samples = 1, .pipelines = 1, .stages = 1, .max_tokens = 1, .cp = 2, .block = 16});
    (forward ? plan.backward : plan.forward).sharding[0] = Sharding::per_document;
  }
  return all;
}

/// Calls `visit(pointer, field)` for each number of a plan file; the field is its path without places in lists. All
/// constants of the device are one field.
template <class Visit>
void for_each_number(const json& value, const json::json_pointer& pointer, const std::string& field,
                     const Visit& visit) {
  if (value.is_number()) visit(pointer, field);
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) for_each_number(value[i], pointer / i, field, visit);
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    const bool constant = field == "device";
    for_each_number(member, pointer / key, constant ? field : field.empty() ? key : field + "." + key, visit);
  }
}

/// Other numbers of the same kind: somewhat and much smaller and larger.
std::vector<json> other_numbers(const json& number) {
  std::vector<json> all;
  if (number.is_number_integer()) {
    const auto value = number.get<std::int64_t>();
    const std::int64_t step =
        1 + value / 1'000'000;  // FLOPs that look like integers are compared with a tolerance
    all = {value + step, 2 * value + 3};
    if (value > 0) all.insert(all.end(), {value - step, value / 2});
  } else {
    const auto value = number.get<double>();
    all = {1.01 * value, value + 0.01, 0.5 * value};
  }
  all.erase(std::remove(all.begin(), all.end(), number), all.end());
  return all;
}

/// What is said about a plan file; empty if it is accepted.
std::string said_of_file(const json& file) {
  try {
    const auto found = violations(read_json(file.dump()), 1);
    return found.empty() ? "" : found.front();
  } catch (const InvalidInput& error) {
    return error.what();
  }
}

std::set<std::string> not_checked_fields() {
  std::set<std::string> all;
  for (const NotChecked& one : not_checked) all.insert(one.field);
  return all;
}

}  // namespace

TEST_CASE("every wrong figure of a plan is found, but for those that are listed", "[validate][slow]") {
  const std::set<std::string> listed = not_checked_fields();
  std::set<std::string> missed;
  std::size_t found = 0;
  for (const auto& [name, plan] : figure_plans()) {
    CAPTURE(name);
    const json file = json::parse(to_json(plan));
    REQUIRE(said_of_file(file) == "");
    for_each_number(file, json::json_pointer(), "",
                    [&](const json::json_pointer& at, const std::string& field) {
                      for (const json& other : other_numbers(file[at])) {
                        json changed = file;
                        changed[at] = other;
                        const std::string said = said_of_file(changed);
                        if (!said.empty()) {
                          ++found;
                          continue;
                        }
                        missed.insert(field);
                        CAPTURE(at.to_string(), file[at].dump(), other.dump());
                        CHECK(listed.count(field) == 1);
                      }
                    });
  }
  CHECK(found > 1000);
  CHECK(missed == listed);
}

TEST_CASE("the documentation lists the figures that are not checked", "[validate]") {
  std::ifstream file(SLIMPACK_SOURCE_DIR "/docs/plan-format.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::size_t begin = page.find("## What can't be checked");
  REQUIRE(begin != std::string::npos);
  std::set<std::string> said;
  for (std::size_t row = page.find("\n| `", begin);
       row != std::string::npos && row < page.find("\n## ", begin + 1); row = page.find("\n| `", row + 1)) {
    // Several fields in a row are separated by commas.
    const std::string cell = page.substr(row + 3, page.find(" |", row + 3) - row - 3);
    for (std::size_t open = cell.find('`'); open != std::string::npos; open = cell.find('`', open + 1)) {
      const std::size_t close = cell.find('`', open + 1);
      said.insert(cell.substr(open + 1, close - open - 1));
      open = close;
    }
  }
  CHECK(said == not_checked_fields());
}
