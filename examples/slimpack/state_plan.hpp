#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "planners.hpp"

namespace slimpack::command {

/// Which iteration is planned, and from which state.
struct StateOptions {
  std::string file;                       ///< the first iteration makes it
  std::optional<std::int64_t> iteration;  ///< from 0; none: the next one, whichever that is
};

/// What `--state` and `--iteration` say; nothing without --state. @throws InvalidInput for a number that can't be.
std::optional<StateOptions> state_options(const boost::program_options::variables_map& values);

/// Plans an iteration of a planner that goes on from its saved state: a batch, or what waits. The new state takes the
/// place of the old one once the plan is written; if the process dies in between, the old one gives the same plan again.
/// If it dies later, the same number gives the same plan again, and the state stays as it is.
/// @throws InvalidInput if the planner remembers nothing, the state is not of these options, or the number is neither the
/// next one's nor, with the same documents and options, the last one's.
void plan_with_state(const Planner& planner, const JobOptions& job, const Lengths& lengths,
                     const StateOptions& state, const std::string& output);

}  // namespace slimpack::command
