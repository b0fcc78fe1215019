#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/check.hpp"
#include "slimpack/milp/covering_program.hpp"
#include "slimpack/milp/covering_search.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"

namespace slimpack {

struct CoveringOptions {
  /// Gap, callback and time; threads and seed make no difference. Without a time limit, equal models and
  /// options give equal results.
  MilpOptions solver = {};
  std::int64_t node_limit = 20'000;      ///< of the search tree
  std::int64_t pivot_limit = 1'000'000;  ///< steps of the simplex method, over all nodes
  int cut_rounds = 10;                   ///< at the root
};

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
  require(wrong.empty(), wrong);
}

[[nodiscard]] inline MilpResult solve_covering(const MilpModel& model, const CoveringOptions& options = {}) {
  validate(options);
  MilpSearch search(model, options.solver);
  const detail::CoveringProgram program = detail::CoveringReader(model).read();
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  if (search.should_stop()) return search.finish(MilpClaim::stopped, nothing, 0);
  if (program.infeasible)
    return search.finish(MilpClaim::infeasible, nothing, 0, "the initial solution keeps a row only nearly");

  const double base = objective_value(model, program.base);
  const auto in_model = [&](double cost) { return base + cost * program.cost_unit; };
  std::vector<double> values;
  const auto offer = [&](std::span<const double> columns, double bound) {
    values = program.base;
    for (std::size_t j = 0; j < columns.size(); ++j) values[program.variable[j]] += columns[j];
    return search.offer(values, in_model(bound));
  };
  const auto enough = [&](double cost, double bound) {
    return options.solver.relative_gap > 0.0 &&
           relative_gap(in_model(cost), in_model(bound)) <= options.solver.relative_gap;
  };
  detail::CoveringSearch tree(program, {options.node_limit, options.pivot_limit, options.cut_rounds}, offer,
                              enough);
  std::vector<double> start;
  if (search.has_best()) {
    for (std::size_t j = 0; j < program.columns(); ++j) {
      const std::size_t v = program.variable[j];
      start.push_back(std::clamp(std::round(search.best()[v] - program.base[v]), 0.0, program.upper[j]));
    }
  }
  using End = typename decltype(tree)::End;
  const End end = tree.run(start);
  if (end == End::work) search.stop_by_work();
  const MilpClaim claim = end == End::proven || end == End::enough ? MilpClaim::optimal : MilpClaim::stopped;
  return search.finish(claim, in_model(tree.bound()), tree.nodes());
}

/// `solve_covering` as a `MilpSolver`, with its own limits.
struct CoveringSolver {
  CoveringOptions options = {};  ///< but for `options.solver`, which each call gives

  [[nodiscard]] MilpResult operator()(const MilpModel& model, const MilpOptions& solver = {}) const {
    CoveringOptions all = options;
    all.solver = solver;
    return solve_covering(model, all);
  }
};

}  // namespace slimpack
