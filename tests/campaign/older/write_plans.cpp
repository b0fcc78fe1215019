// Writes the plans of random settings as plan files, whatever version of the library this is compiled with. against.sh
// compiles it with an earlier one. Usage: write_plans DIRECTORY SEED SETTINGS

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/campaign/ring.hpp"
#include "tests/campaign/settings.hpp"

namespace campaign {

namespace {

constexpr unsigned patience = 30;  // seconds

template <class C>
Plan plan_with(const Setting& s, const C& cost) {
  return plan_slimpack(s.lengths, s.job, cost, TransformerMemory(s.job, s.memory), s.options);
}

CalibratedCost calibrated_cost(const Setting& s) {
  CalibratedOptions options{};
  options.offload = s.memory.offload;
  if (s.ring) allow_ring_alone(options);
  return CalibratedCost(s.job, options);
}

Plan plan_of(const Setting& s) {
  std::vector<std::int32_t> layers = split_layers(s.job.model.layers, s.job.layout.pp);
  switch (s.cost) {
    case CostKind::plain:
      return plan_with(s, PlainUserCost(s.rates, layers));
    case CostKind::merging:
      return plan_with(s, MergingUserCost(s.rates, layers));
    case CostKind::full:
      return plan_with(s, FullUserCost(s.rates, layers));
    case CostKind::calibrated:
      break;
  }
  return plan_with(s, calibrated_cost(s));
}

/// Leaves no file where the setting is refused or takes too long.
void write_plan(const Setting& setting, const std::string& file) {
  try {
    const Plan plan = plan_of(setting);
    alarm(0);  // no file is cut off
    std::ofstream out(file);
    write_json(out, plan);
  } catch (const InvalidInput&) {
  }
}

}  // namespace

}  // namespace campaign

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: write_plans DIRECTORY SEED SETTINGS\n";
    return 2;
  }
  std::ifstream file(SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
  std::vector<slimpack::Tokens> github;
  for (slimpack::Tokens length = 0; file >> length;) github.push_back(length);
  const std::uint64_t seed = std::stoull(argv[2]), settings = std::stoull(argv[3]);
  std::uint64_t late = 0;
  for (std::uint64_t i = 0; i < settings; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(campaign::patience);
      campaign::write_plan(campaign::random_setting(seed, i, github),
                           slimpack::concat(argv[1], "/", i, ".json"));
      std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    late += status != 0 ? 1 : 0;
  }
  std::cout << settings << " settings, " << late << " given up after " << campaign::patience << " s\n";
}
