#include "planners.hpp"

#include <array>

#include "slimpack/model/presets.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace slimpack::command {

namespace {

Plan run_megatron(std::span<const Tokens> lengths, const JobOptions& o) {
  return plan_megatron(lengths, o.job, CalibratedCost(o.job, o.cost), TransformerMemory(o.job, o.memory),
                       {.context = o.context});
}

Plan run_slimpack(std::span<const Tokens> lengths, const JobOptions& o) {
  return plan_slimpack(lengths, o.job, CalibratedCost(o.job, o.cost), TransformerMemory(o.job, o.memory),
                       o.slimpack);
}

}  // namespace

std::span<const Planner> planners() {
  static const std::array all{Planner{"megatron", run_megatron}, Planner{"slimpack", run_slimpack}};
  return all;
}

const Planner& find_planner(const std::string& name) {
  return detail::find_preset(planners(), "planner", name);
}

Plan plan_batch(const Planner& planner, std::span<const Tokens> tokens, const JobOptions& options,
                const Lengths& lengths, std::size_t iteration) {
  try {
    return planner.plan(tokens, options);
  } catch (const InvalidInput& error) {
    throw InvalidInput(with_line(error.what(), options, lengths, iteration));
  }
}

}  // namespace slimpack::command
