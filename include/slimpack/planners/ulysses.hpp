#pragma once

#include "slimpack/core/error.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/parallel.hpp"

namespace slimpack {

/// Options of time and memory of Ulysses with ZeRO-3.
struct UlyssesOptions {
  CalibratedOptions cost;
  MemoryOptions memory;
};

/// The options with which DeepSpeed-Ulysses and FlexSP run: keys go by all-to-all alone, of which the network has what leaves a
/// node; all ranks shard parameters, gradients and optimiser (ZeRO-3), in the prices as in memory. What else is given stays.
[[nodiscard]] inline UlyssesOptions ulysses_options(CalibratedOptions cost = {}, MemoryOptions memory = {}) {
  cost.exchanges = {KeyExchange::all_to_all};
  cost.all_to_all_by_node = true;
  cost.zero3.on = true;
  cost.zero3.group = memory.zero_group = ZeroGroup::all;
  memory.zero_stage = 3;
  memory.gathers_keys = false;
  return {cost, memory};
}

/// @throws InvalidInput unless a layout's ranks are all for samples: no tensor parallelism, one stage. @param planner its name.
inline void require_sequence_parallel(const char* planner, const Layout& layout) {
  require(layout.tp == 1, "tp is ", layout.tp, "; expected 1, as planner ", planner,
          " supports only sequence parallelism");
  require(layout.pp == 1, "pp is ", layout.pp, "; expected 1, as planner ", planner,
          " supports only sequence parallelism");
}

}  // namespace slimpack
