// Plans with a cost model of the user's own: a struct with a few functions, no base class.
#include <cstdio>
#include <string>
#include <vector>

#include "slimpack/cost/check.hpp"
#include "slimpack/cost/conformance.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

// Two stages of 16 layers, the second twice as fast; a kernel that works in tiles of 64 tokens; 30 microseconds per
// pack.
struct TiledCost {
  std::size_t stages() const { return 2; }
  double slice_seconds(std::size_t stage, slimpack::Tokens begin, slimpack::Tokens end,
                       slimpack::Pass pass) const {
    return tiles(begin, end) * (stage == 0 ? 40e-6 : 20e-6) * (pass == slimpack::Pass::forward ? 1.0 : 2.2);
  }
  double pack_seconds(std::size_t, slimpack::Pass) const { return 30e-6; }
  double transfer_seconds(std::size_t, slimpack::Tokens tokens, slimpack::Pass) const {
    return 1e-5 + 2e-8 * static_cast<double>(tokens);
  }

  // Optional: with this, layers may be recomputed where memory is short.
  double recompute_seconds(std::size_t stage, slimpack::Tokens begin, slimpack::Tokens end) const {
    return slice_seconds(stage, begin, end, slimpack::Pass::forward) / 16.0;
  }
  // Optional: with this, layers are checked against the plan's.
  std::vector<std::int32_t> layers() const { return {16, 16}; }

 private:
  // Tiles of queries that the slice touches, and the tiles of keys before them.
  static double tiles(slimpack::Tokens begin, slimpack::Tokens end) {
    if (begin == end) return 0.0;
    const slimpack::Tokens first = begin / 64, last = (end + 63) / 64;
    return static_cast<double>(last - first) * (1.0 + static_cast<double>(first + last) / 512.0);
  }
};

int main() {
  const TiledCost cost;
  // A misspelt function does not compile, rather than not being used.
  slimpack::require_features<slimpack::Recomputing, slimpack::Layered>(cost);
  for (const std::string& note : slimpack::missing_features(cost)) std::printf("note: %s\n", note.c_str());

  // What belongs into the model's own tests: does it hold what planners rely on?
  const std::vector<std::string> violations = slimpack::check_cost_model(cost);
  for (const std::string& violation : violations) std::printf("violation: %s\n", violation.c_str());

  const std::vector<slimpack::Tokens> lengths{60000, 9000, 7000, 3000, 2500, 1800, 900, 640, 300, 120};
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-7b"),
                          .device = slimpack::device_preset("h200"),
                          .layout = {.dp = 2, .tp = 8, .pp = 2}};
  const slimpack::TransformerMemory memory(job);
  slimpack::check_models(cost, memory, slimpack::layout_strategy(job));
  const slimpack::Plan plan = plan_slimpack(lengths, job, cost, memory);
  std::printf("%zu forward and %zu backward packs, step %.4f s, gap %.1f %%\n", plan.forward.packs.size(),
              plan.backward.packs.size(), plan.step.seconds, 100.0 * plan.step.gap());
  return violations.empty() ? 0 : 1;
}
