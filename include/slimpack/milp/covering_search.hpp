#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/milp/covering_blocks.hpp"
#include "slimpack/milp/covering_cuts.hpp"
#include "slimpack/milp/covering_incumbent.hpp"
#include "slimpack/milp/covering_program.hpp"
#include "slimpack/milp/covering_relaxation.hpp"
#include "slimpack/milp/covering_rounding.hpp"
#include "slimpack/milp/covering_tree.hpp"

namespace slimpack::detail {

/// What the search may spend.
struct CoveringEffort {
  std::int64_t nodes = 0;
  std::int64_t pivots = 0;
  int cut_rounds = 0;
  std::int64_t block_nodes = 0;  ///< of each block of columns whose least cost becomes a row; 0: none
  bool neighbourhoods = true;    ///< whether parts of the best solution are improved by searches of their own
};

/// Keeps the best solution of a part.
struct CoveringPartHost {
  std::vector<double> best = {};

  void offer(std::span<const double> solution, double) { best.assign(solution.begin(), solution.end()); }
  [[nodiscard]] static bool enough(double, double) { return false; }
  [[nodiscard]] static bool should_stop() { return false; }
};

/// Branch and bound over a feasible covering program: the node with the least bound first, and of equal ones
/// the latest, which goes on from its parent's dictionary.
/// @tparam Host has `offer(solution, bound)`, which takes solutions, each better than the last; `enough(cost,
/// bound)`, whether these are close enough; and `should_stop()`.
template <class Host>
class CoveringSearch {
 public:
  CoveringSearch(const CoveringProgram& program, const CoveringEffort& effort, Host& host)
      : program_(program),
        effort_(effort),
        host_(host),
        rows_(program.rows),
        incumbent_(program, host),
        rounding_(program),
        blocks_(program),
        relaxation_(program.cost, program.upper, rows_) {}

  enum class End : std::uint8_t { proven, enough, interrupted, work };

  /// @param start a solution, or nothing.
  End run(std::span<const double> start) {
    begin(start);
    return go_on(effort_.nodes, effort_.pivots);
  }

  /// Solves the first node. @param start as `run` takes it.
  void begin(std::span<const double> start) {
    learn(start);
    solve_root();
  }
  /// Takes a solution that was found elsewhere, or nothing.
  void learn(std::span<const double> solution) {
    if (!solution.empty()) incumbent_.offer(solution, open_bound());
  }
  /// @param nodes, pivots of all calls together. @pre `begin` was called.
  End go_on(std::int64_t nodes, std::int64_t pivots) {
    while (!tree_.empty() && bound() < incumbent_.cutoff()) {
      if (host_.enough(incumbent_.cost(), bound())) return End::enough;
      if (host_.should_stop()) return End::interrupted;
      if (nodes_ >= nodes || pivots_ >= pivots) return End::work;
      if (effort_.neighbourhoods && nodes_ % between_parts == 0) improve_part();
      take_next();
      visit();
      leave();
    }
    tree_.clear();
    return End::proven;
  }

  /// No solution costs less.
  [[nodiscard]] double bound() const { return std::min(incumbent_.cost(), open_bound()); }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }
  [[nodiscard]] std::int64_t pivots() const { return pivots_; }

 private:
  static constexpr std::int64_t dive = 32, between_parts = 64;  // nodes

  /// No solution in the current node or an open one costs less.
  [[nodiscard]] double open_bound() const { return std::min(current_.bound, tree_.bound()); }
  [[nodiscard]] bool is_open() const { return current_.bound < incumbent_.cutoff(); }
  void leave() { current_.bound = std::numeric_limits<double>::infinity(); }

  void round(double threshold) {
    incumbent_.offer(rounding_.round(relaxation_.point(), threshold), open_bound());
  }

  struct PartResult {
    std::vector<double> best;  // nothing if none was found
    double bound;
  };
  PartResult solve_part(const CoveringProgram& part, const CoveringEffort& effort) {
    CoveringPartHost host;
    CoveringSearch<CoveringPartHost> search(part, effort, host);
    search.run({});
    pivots_ += search.pivots();
    return {std::move(host.best), search.bound()};
  }

  void improve_part() {
    const CoveringEffort effort{.nodes = 100, .pivots = 5000, .cut_rounds = 3, .neighbourhoods = false};
    incumbent_.improve_part(
        blocks_.program(), [&](const CoveringProgram& part) { return solve_part(part, effort).best; },
        open_bound());
  }

  /// Solves the relaxation; false if there is nothing better than the best solution in it.
  bool relax() {
    const std::int64_t before = relaxation_.pivots();
    const auto most = static_cast<std::int64_t>(100 + 20 * (program_.columns() + program_.rows.size()));
    const SimplexEnd end = relaxation_.solve(most);
    pivots_ += relaxation_.pivots() - before;
    if (end == SimplexEnd::infeasible && relaxation_.is_proven_infeasible()) return false;
    current_.exact = relaxation_.safe_bound();
    current_.bound = std::max(current_.bound, program_.rounded_up(current_.exact));
    return is_open();
  }

  void solve_root() {
    ++nodes_;
    bool open = relax();
    for (const double threshold : {0.0, 0.3, 0.5}) round(threshold);
    open = open && cut();
    if (open && effort_.block_nodes > 0 && !ends_early()) {
      add_blocks();
      open = relax() && cut();
    }
    if (is_open()) {
      tighten_bounds(relaxation_, incumbent_.cutoff());
      tree_.set_root(relaxation_);
      branch();
    }
    leave();
  }

  [[nodiscard]] bool ends_early() { return host_.enough(incumbent_.cost(), bound()) || host_.should_stop(); }

  /// Adds cuts to the relaxation; false if there is nothing better than the best solution in it.
  bool cut() {
    CoveringCuts cuts(program_.upper);
    for (int left = effort_.cut_rounds; left > 0; --left) {
      if (ends_early() || !cuts.separate(relaxation_, rows_)) break;
      if (!relax()) return false;
      round(left % 2 == 0 ? 0.5 : 0.25);
    }
    return true;
  }

  /// Adds what blocks of columns cost at least.
  void add_blocks() {
    const CoveringEffort effort{
        .nodes = effort_.block_nodes, .pivots = 50 * effort_.block_nodes, .cut_rounds = effort_.cut_rounds};
    const auto bound_of = [&](const CoveringProgram& part) {
      return part.rounded_up(solve_part(part, effort).bound);
    };
    blocks_.add_rows(bound_of, [&] { return host_.should_stop() || pivots_ >= effort_.pivots; });
    const CoveringRows& rows = blocks_.program().rows;
    for (std::size_t i = program_.rows.size(); i < rows.size(); ++i) rows_.add(rows[i], rows.rhs(i));
  }

  /// The most promising of the nodes with the least bound from time to time, lest all go into one part of the tree.
  void take_next() {
    const bool dives = nodes_ % dive == 0 && program_.step > 0.0;
    current_ = dives ? tree_.take_most_promising() : tree_.take_latest();
  }

  void visit() {
    ++nodes_;
    tree_.enter(current_, relaxation_);
    if (!relax()) return;
    if (nodes_ < 50 || nodes_ % 16 == 0) {
      round(nodes_ % 3 == 0 ? 0.0 : nodes_ % 3 == 1 ? 0.3 : 0.6);
      if (!is_open()) return;
    }
    branch();
  }

  void branch() {
    std::optional<CoveringBranch> at = fractional_branch(relaxation_);
    if (!at) {
      round(0.5);
      at = widest_branch(relaxation_);
      if (!at) return;  // a single point, tried just now
    }
    tree_.split(current_, relaxation_, *at);
  }

  const CoveringProgram& program_;
  CoveringEffort effort_;
  Host& host_;
  CoveringRows rows_;  // of the program, and cuts
  CoveringIncumbent<Host> incumbent_;
  CoveringRounding rounding_;
  CoveringBlocks blocks_;
  CoveringRelaxation relaxation_;  // of the current node
  CoveringTree::Node current_;     // its bound is infinite once it is done
  CoveringTree tree_;
  std::int64_t nodes_ = 0, pivots_ = 0;
};

}  // namespace slimpack::detail
