#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "settings.hpp"
#include "slimpack/plan/plan.hpp"

namespace campaign {

/// What is asked of a setting's plans.
enum class Check : std::uint8_t {
  valid,
  simulated,
  prices,
  peaks,
  capacity,
  megatron,
  quick,
  dynamic_cp,
  rivals,
  symmetric,
  unmerged,
  tile,
  memory,
  bound,
  same,
  given_packs,
  equal_packs,
  groups,
  multiples,
};
inline constexpr std::size_t number_of_checks = 19;

struct CheckText {
  const char* name;
  const char* says;
  bool fails;  ///< false: its cases are listed, and that is all
};

/// In the order of `Check`.
inline constexpr std::array<CheckText, number_of_checks> check_texts{{
    {"valid", "every plan obeys the rules of the plan format", true},
    {"simulated", "a naive simulation takes as long as the plan says, to 1e-6", true},
    {"prices", "packs and transfers cost what the setting's model says, to 1e-9", true},
    {"peaks", "naive peaks of memory are the plan's and those of its curves, to 1e-6", true},
    {"capacity", "no peak exceeds a device's memory", true},
    {"megatron", "slimpack <= megatron on the same devices", true},
    {"quick", "slimpack <= a quick search's <= megatron, and the quick one refuses nothing more", true},
    {"dynamic_cp", "slimpack <= dynamic-cp on the same pipelines", false},
    {"rivals", "slimpack <= dynapipe, bytescale, infinipipe, … on the same pipelines", false},
    {"symmetric", "slimpack <= with the same boundaries in both passes", true},
    {"unmerged", "slimpack <= without merging", true},
    {"tile", "slimpack <= with tiles 2, 4, 8, … times as coarse", true},
    {"memory", "1.25 and 2 times the memory: no plan more than 1 % longer, but for 1 in 1000", true},
    {"bound", "the bound of one plan <= the step of any other on equal pipelines", true},
    {"same", "same input, same plan", true},
    {"given_packs", "slimpack <= with a given number of packs", false},
    {"equal_packs", "slimpack <= with equal numbers of packs on all pipelines", false},
    {"groups", "slimpack <= with groups of 2^k pipelines only", false},
    {"multiples", "slimpack <= with tiles that are other multiples of its own", false},
}};

/// Which checks are made.
using Checks = std::array<bool, number_of_checks>;

/// What a check found out.
struct Finding {
  bool looked_at = false;
  bool violated = false;
  double worst = 0.0;  ///< ratio, relative difference or number of messages; infinity where a plan is missing
  std::string detail;  ///< of the worst case
};

/// What was found out about a setting.
struct Result {
  std::array<Finding, number_of_checks> findings;
  std::optional<double> step;             ///< seconds; none where the planner refused
  std::optional<double> quick, megatron;  ///< the same; none where no check needs them either
  double bound = 0.0;
  double planning_seconds = 0.0;      ///< of the setting's own plan
  double all_planning_seconds = 0.0;  ///< of all plans
  std::size_t plans = 0;
  std::string refusal;           ///< why there is no plan
  std::vector<std::string> log;  ///< one line a plan
};

/// Makes the plans that the checks need, and checks them.
[[nodiscard]] Result judge(const Setting& setting, const Checks& checks);

}  // namespace campaign
