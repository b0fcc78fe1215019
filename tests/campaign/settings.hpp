#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "user_cost.hpp"

namespace campaign {

/// Which model of time a setting has.
enum class CostKind : std::uint8_t { calibrated, plain, merging, full };

/// What is planned: a batch, a job, prices and options.
struct Setting {
  std::string name;          ///< for people
  std::string reproduction;  ///< what the program has to be called with to run this one alone
  Job job;                   ///< the device's memory is scaled
  std::vector<Tokens> lengths;
  SlimPackOptions options;
  MemoryOptions memory;
  CostKind cost = CostKind::calibrated;
  bool ring = false;  ///< the calibrated model: keys go round a ring, and nothing else
  UserRates rates;    ///< of a user's model
};

/// The setting with this number. The same on every machine, and whatever version of the library it is compiled with.
/// @param github lengths of real samples; not empty.
[[nodiscard]] Setting random_setting(std::uint64_t seed, std::uint64_t index,
                                     const std::vector<Tokens>& github);

/// The same with fewer samples than pipelines, so that some are idle or share samples.
[[nodiscard]] Setting idle_setting(std::uint64_t seed, std::uint64_t index,
                                   const std::vector<Tokens>& github);

/// Settings that earlier versions of the planner planned badly.
[[nodiscard]] std::vector<Setting> named_settings(const std::vector<Tokens>& github);

}  // namespace campaign
