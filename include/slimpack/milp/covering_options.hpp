#pragma once

#include <cstdint>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/result.hpp"

namespace slimpack {

/// What `solve_covering` may spend.
struct CoveringOptions {
  /// Gap, callback and time; threads and seed make no difference. Without a time limit, equal models and
  /// options give equal results.
  MilpOptions solver = {};
  std::int64_t node_limit = 100'000;     ///< of the search tree
  std::int64_t pivot_limit = 5'000'000;  ///< steps of the simplex method, over all nodes
  int cut_rounds = 20;                   ///< at the root
  /// Of each block of neighbouring variables whose least cost becomes a cut; 0: none. Worth it beyond some hundred nodes.
  std::int64_t block_nodes = 100;
};

/// For answers in about a millisecond (64 chunks on 8 stages): the root of the search tree, and as many nodes as 100
/// steps of the simplex method allow where these leave a gap above 1 %. The answer itself is mostly within a unit of
/// the best.
[[nodiscard]] inline CoveringOptions quick_covering() {
  return {.solver = {.relative_gap = 0.01},
          .node_limit = 100,
          .pivot_limit = 100,
          .cut_rounds = 4,
          .block_nodes = 0};
}

/// @throws InvalidInput naming every option that is impossible.
inline void validate(const CoveringOptions& options) {
  validate(options.solver);
  std::string wrong;
  const auto expect = [&](bool ok, const char* name, std::int64_t value) {
    if (!ok) wrong += concat(wrong.empty() ? "" : "; ", name, " is ", value, ", expected 0 or more");
  };
  expect(options.node_limit >= 0, "node_limit", options.node_limit);
  expect(options.pivot_limit >= 0, "pivot_limit", options.pivot_limit);
  expect(options.cut_rounds >= 0, "cut_rounds", options.cut_rounds);
  expect(options.block_nodes >= 0, "block_nodes", options.block_nodes);
  require(wrong.empty(), wrong);
}

}  // namespace slimpack
