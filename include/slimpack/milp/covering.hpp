#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/check.hpp"
#include "slimpack/milp/covering_options.hpp"
#include "slimpack/milp/covering_program.hpp"
#include "slimpack/milp/covering_search.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"

namespace slimpack {

namespace detail {

/// What a search for columns needs to know of the model.
class CoveringHost {
 public:
  CoveringHost(const MilpModel& model, const CoveringProgram& program, MilpSearch& search, double gap)
      : program_(program), search_(search), base_(objective_value(model, program.base)), gap_(gap) {}

  [[nodiscard]] double in_model(double cost) const { return base_ + cost * program_.cost_unit; }
  void offer(std::span<const double> columns, double bound) {
    std::vector<double> values = program_.base;
    for (std::size_t j = 0; j < columns.size(); ++j) values[program_.variable[j]] += columns[j];
    search_.offer(values, in_model(bound));
  }
  [[nodiscard]] bool enough(double cost, double bound) const {
    return gap_ > 0.0 && relative_gap(in_model(cost), in_model(bound)) <= gap_;
  }
  [[nodiscard]] bool should_stop() { return search_.should_stop(); }
  /// The best solution in columns; empty if there is none yet.
  [[nodiscard]] std::vector<double> start() const {
    std::vector<double> columns;
    for (std::size_t j = 0; search_.has_best() && j < program_.columns(); ++j) {
      const std::size_t variable = program_.variable[j];
      const double above = std::round(search_.best()[variable]) - program_.base[variable];
      columns.push_back(std::clamp(above, 0.0, program_.upper[j]));
    }
    return columns;
  }

 private:
  const CoveringProgram& program_;
  MilpSearch& search_;
  double base_, gap_;
};

/// Two trees that take turns and learn each other's solutions: one of the program as it is, and one with rows of
/// blocks, which take time, and then mostly, but not always, make the tree smaller.
class CoveringTrees {
 public:
  using Tree = CoveringSearch<CoveringHost>;
  using End = Tree::End;

  /// All have to outlive this.
  CoveringTrees(const CoveringProgram& program, const CoveringOptions& options, CoveringHost& host)
      : program_(program), options_(options), host_(host), plain_(program, effort(0), host) {}

  End run() {
    plain_.begin(host_.start());
    End end = give(plain_);
    if (end != End::work || options_.block_nodes == 0 || left(options_.node_limit) <= 0) return end;
    strong_.emplace(program_, effort(options_.block_nodes), host_);
    strong_->begin(host_.start());
    for (bool strong = true; end == End::work && left(options_.node_limit) > 0 &&
                             options_.pivot_limit > plain_.pivots() + strong_->pivots();
         strong = !strong) {
      Tree& own = strong ? *strong_ : plain_;
      own.learn(host_.start());
      end = give(own);
    }
    return end;
  }

  /// No solution costs less.
  [[nodiscard]] double bound() const {
    return strong_ ? std::max(plain_.bound(), strong_->bound()) : plain_.bound();
  }
  [[nodiscard]] std::int64_t nodes() const { return plain_.nodes() + (strong_ ? strong_->nodes() : 0); }

 private:
  static constexpr std::int64_t turn = 1000;  // nodes

  [[nodiscard]] std::int64_t left(std::int64_t limit) const { return limit - nodes(); }
  End give(Tree& tree) {
    const std::int64_t most =
        options_.block_nodes == 0 ? left(options_.node_limit) : std::min(turn, left(options_.node_limit));
    const std::int64_t others = &tree != &plain_ ? plain_.pivots() : strong_ ? strong_->pivots() : 0;
    return tree.go_on(tree.nodes() + most, options_.pivot_limit - others);
  }
  [[nodiscard]] CoveringEffort effort(std::int64_t block_nodes) const {
    return {options_.node_limit, options_.pivot_limit, options_.cut_rounds, block_nodes, true};
  }

  const CoveringProgram& program_;
  CoveringOptions options_;
  CoveringHost& host_;
  Tree plain_;
  std::optional<Tree> strong_;  // once it has begun
};

}  // namespace detail

/// Solves a covering program: minimise a sum of costs of 0 or more over bounded integers, with rows that have a lower
/// bound alone and no negative coefficient. InfiniPipe's checkpointing program is one (Algorithm 2, Eq. 20).
///
/// Branch and bound over a dense dual simplex method, with mixed-integer rounding cuts and bounds of blocks of
/// neighbouring variables at the root, and solutions by rounding and exchange. It needs no library. There is a solution
/// unless the upper bounds break a row, and it is found before the first node. Bounds hold whatever rounding did: they
/// are computed from multipliers, not from the simplex method's claims. A row holds if it is short by at most 1e-9 of
/// its size.
///
/// Without a time limit, it never looks at the clock to decide, so that equal models and options give equal results.
/// Memory O(variables^2 + terms + nodes).
/// @throws InvalidInput if the model is no covering program, naming the row or variable; if an option is impossible, or
/// the initial solution does not keep the model; and what `on_incumbent` throws.
[[nodiscard]] inline MilpResult solve_covering(const MilpModel& model, const CoveringOptions& options = {}) {
  validate(options);
  MilpSearch search(model, options.solver);
  const detail::CoveringProgram program = detail::CoveringReader(model).read();
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  if (search.should_stop()) return search.finish(MilpClaim::stopped, nothing, 0);
  if (program.infeasible)  // the words serve an initial solution that keeps the row to within 1e-6
    return search.finish(MilpClaim::infeasible, nothing, 0,
                         "the upper bounds miss a row by more than 1e-9 of its size");
  detail::CoveringHost host(model, program, search, options.solver.relative_gap);
  detail::CoveringTrees trees(program, options, host);
  using End = detail::CoveringTrees::End;
  const End end = trees.run();
  if (end == End::work) search.stop_by_work();
  const bool stopped = end == End::work || end == End::interrupted;
  return search.finish(stopped ? MilpClaim::stopped : MilpClaim::optimal, host.in_model(trees.bound()),
                       trees.nodes());
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
