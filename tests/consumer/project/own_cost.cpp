// Plans with models of its own, and writes what comes out: the plans as JSON, a number of which any bit differs as well.
// Usage: own_cost FILE
#include <cstdint>
#include <fstream>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace {

using slimpack::Pass;
using slimpack::Tokens;

/// Has what lets samples be merged and layers be recomputed.
struct OwnCost {
  double ranks = 1.0;

  std::size_t stages() const { return 4; }
  double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    const auto b = static_cast<double>(begin), e = static_cast<double>(end);
    const double forward = (1e-5 * (e - b) + 1e-9 * (e * e - b * b)) / ranks;
    return (stage == 3 ? 1.25 : 1.0) * (pass == Pass::forward ? forward : 2.0 * forward);
  }
  double pack_seconds(std::size_t, Pass) const { return 1e-3; }
  double transfer_seconds(std::size_t, Tokens tokens, Pass) const {
    return 1e-4 + 1e-8 * static_cast<double>(tokens);
  }
  double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const {
    return slice_seconds(stage, begin, end, Pass::forward) / 8.0;
  }
  bool supports_context_parallel(std::int32_t) const { return true; }
  OwnCost with_context_parallel(std::int32_t group) const { return {0.9 * group}; }
};

struct OwnMemory {
  double capacity_bytes() const { return 8e9; }
  double static_bytes(std::size_t) const { return 1e9; }
  double activation_bytes(std::size_t, std::int32_t layers) const { return 4e4 * (8 - layers) + 2e4; }
  double kv_gradient_bytes(std::size_t) const { return 2e3; }
  double workspace_bytes(std::size_t, Pass, Tokens tokens, std::int32_t) const {
    return 1e3 * static_cast<double>(tokens);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::vector<Tokens> lengths{60000, 17000, 9000, 5000, 5000, 3111, 900, 800, 77, 1};
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-7b"),
                          .device = slimpack::device_preset("h100"),
                          .layout = {.dp = 4, .tp = 1, .pp = 4}};
  std::ofstream out(argv[1], std::ios::binary);
  out << slimpack::to_json(slimpack::plan_slimpack(lengths, job, OwnCost{}, OwnMemory{}))
      << slimpack::to_json(slimpack::plan_megatron(lengths, job, OwnCost{}, OwnMemory{}))
      << slimpack::to_json(slimpack::plan_dynamic_cp(lengths, job, OwnCost{}, OwnMemory{}))
      << slimpack::to_json(slimpack::plan_slimpack(lengths, job))
      << slimpack::to_json(slimpack::plan_megatron(lengths, job))
      << slimpack::to_json(slimpack::plan_dynamic_cp(lengths, job));
  return out.flush() ? 0 : 1;
}
