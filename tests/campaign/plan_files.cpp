#include "plan_files.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <utility>

#include "planner.hpp"
#include "prices_of_plan.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/sharding/by_position.hpp"
#ifdef SLIMPACK_CAMPAIGN_JSON
#include "slimpack/plan/json.hpp"
#include "tests/plan/naive_memory.hpp"
#endif

namespace campaign {

#ifdef SLIMPACK_CAMPAIGN_JSON

namespace {

std::string file_of(const std::string& directory, std::size_t index) {
  return concat(directory, "/", index, ".json");
}

std::optional<Plan> plan_of(const Setting& setting) {
  try {
    return make_planner(setting).slimpack(setting.options, memory_model(setting, setting.job));
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

bool fits(const Plan& plan, const TransformerMemory& memory) {
  for (const auto& row : testing::naive_peak_bytes(plan, memory)) {
    if (*std::max_element(row.begin(), row.end()) > memory.capacity_bytes() * (1.0 + 1e-9)) return false;
  }
  return true;
}

/// Prices a plan's packs as they say that they are shared. Earlier versions said so without the tokens of a chunk, or said what
/// short packs can't do; their executor dealt all shared packs by position. Such plans get the better of both.
void price_anew(const Setting& setting, Plan& plan) {
  const Planner planner = make_planner(setting);
  const bool said_all = plan.forward.block > 0 || plan.backward.block > 0 || !plan.forward.exchange.empty();
  if (said_all) return planner.price_anew(plan);
  Plan dealt = plan;
  for (PassPlan* pass : {&dealt.forward, &dealt.backward}) {
    pass->block = default_ownership_block;
    for (Sharding& kind : pass->sharding) {
      if (kind != Sharding::none) kind = Sharding::by_position;
    }
  }
  planner.price_anew(dealt);
  try {
    planner.price_anew(plan);
  } catch (const InvalidInput&) {
    plan = dealt;
  }
  if (dealt.step.seconds < plan.step.seconds) plan = std::move(dealt);
}

}  // namespace

void write_plan(const Setting& setting, const std::string& directory, std::size_t index) {
  const std::optional<Plan> plan = plan_of(setting);
  if (!plan) return;
  std::ofstream file(file_of(directory, index));
  write_json(file, *plan);
  file.close();
  if (!file) throw std::runtime_error(concat(file_of(directory, index), " can't be written"));
}

Compared compare_with_file(const Setting& setting, const std::string& directory, std::size_t index) {
  Compared compared{.pair = {.name = setting.name, .reproduction = setting.reproduction}};
  const auto begin = std::chrono::steady_clock::now();
  if (const std::optional<Plan> plan = plan_of(setting)) {
    compared.ours = true;
    compared.pair.ours = plan->step.seconds;
  }
  compared.planning_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::ifstream file(file_of(directory, index));
  if (!file) return compared;
  Plan plan = read_json(file);
  if (plan.tokens != setting.lengths)
    throw std::runtime_error(concat(file_of(directory, index), " is the plan of another batch"));
  price_anew(setting, plan);
  compared.theirs = true;
  compared.pair.theirs = plan.step.seconds;
  compared.fits = fits(plan, memory_model(setting, setting.job));
  return compared;
}

#else

void write_plan(const Setting&, const std::string&, std::size_t) {
  throw std::runtime_error("built without nlohmann_json, which plan files need");
}

Compared compare_with_file(const Setting&, const std::string&, std::size_t) {
  throw std::runtime_error("built without nlohmann_json, which plan files need");
}

#endif

}  // namespace campaign
