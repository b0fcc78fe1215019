// Plans with a cost model of the user's own: a struct with four functions, no base class.
#include <cstdio>
#include <vector>

#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

// Two stages, the second twice as fast; a kernel that works in tiles of 64 tokens; 30 microseconds per pack.
struct TiledCost {
  // Tiles of queries that the slice touches, and the tiles of keys in front of them.
  static double tiles(slimpack::Tokens begin, slimpack::Tokens end) {
    const slimpack::Tokens first = begin / 64, last = (end + 63) / 64;
    return static_cast<double>(last - first) * (1.0 + static_cast<double>(first + last) / 512.0);
  }
  std::size_t stages() const { return 2; }
  double slice_seconds(std::size_t stage, slimpack::Tokens begin, slimpack::Tokens end,
                       slimpack::Pass pass) const {
    return tiles(begin, end) * (stage == 0 ? 40e-6 : 20e-6) * (pass == slimpack::Pass::forward ? 1.0 : 2.2);
  }
  double pack_seconds(std::size_t, slimpack::Pass) const { return 30e-6; }
  double transfer_seconds(slimpack::Tokens tokens, slimpack::Pass) const {
    return 1e-5 + 2e-8 * static_cast<double>(tokens);
  }
};
static_assert(slimpack::CostModel<TiledCost>);

int main() {
  const std::vector<slimpack::Tokens> lengths{60000, 9000, 7000, 3000, 2500, 1800, 900, 640, 300, 120};
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-7b"),
                          .device = slimpack::device_preset("h200"),
                          .layout = {.dp = 2, .tp = 8, .pp = 2}};
  const slimpack::Plan plan = plan_slimpack(lengths, job, TiledCost{}, slimpack::TransformerMemory(job));
  std::printf("%zu forward and %zu backward packs, step %.4f s, gap %.1f %%\n", plan.forward.packs.size(),
              plan.backward.packs.size(), plan.step.seconds, 100.0 * plan.step.gap());
}
