#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/milp/covering_blocks.hpp"
#include "slimpack/milp/covering_cuts.hpp"
#include "slimpack/milp/covering_neighbourhood.hpp"
#include "slimpack/milp/covering_program.hpp"
#include "slimpack/milp/covering_relaxation.hpp"
#include "slimpack/milp/covering_rounding.hpp"

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
        rounding_(program),
        neighbourhood_(program),
        blocks_(program),
        root_(program.cost, program.upper, rows_),
        relaxation_(root_) {}

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
    if (!solution.empty()) note(solution);
  }
  /// @param nodes, pivots of all calls together. @pre `begin` was called.
  End go_on(std::int64_t nodes, std::int64_t pivots) {
    while (!open_.empty() && bound() < cutoff()) {
      if (host_.enough(best_cost_, bound())) return End::enough;
      if (host_.should_stop()) return End::interrupted;
      if (nodes_ >= nodes || pivots_ >= pivots) return End::work;
      if (effort_.neighbourhoods && nodes_ % between_parts == 0) improve_part();
      take_next();
      visit();
      current_.bound = std::numeric_limits<double>::infinity();
    }
    open_.clear();
    return End::proven;
  }

  /// No solution costs less.
  [[nodiscard]] double bound() const {
    return open_.empty() ? std::min(best_cost_, current_.bound)
                         : std::min({best_cost_, current_.bound, open_.front().bound});
  }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }
  [[nodiscard]] std::int64_t pivots() const { return pivots_; }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;
  static constexpr std::int64_t dive = 32, between_parts = 64;  // nodes
  static constexpr std::size_t part_size = 24;                  // columns

  /// Bounds of one column, in addition to those of a parent.
  struct Change {
    std::uint32_t parent, column;
    double lower, upper;
  };
  struct Node {
    double bound = 0.0;
    std::uint32_t change = none;
    double exact = 0.0;  // its parent's bound, not rounded up
  };
  static bool later(const Node& a, const Node& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.change < b.change;
  }

  /// Nodes with this bound or more hold nothing better.
  [[nodiscard]] double cutoff() const {
    return program_.step > 0.0 ? best_cost_ - 0.5 * program_.step : best_cost_ * (1.0 - 1e-9);
  }

  void note(std::span<const double> solution) {
    const double cost = program_.objective(solution);
    // What a callback saw last is the result, so that nothing better may count after it has ended the search.
    if (cost >= best_cost_ || host_.should_stop()) return;
    best_cost_ = cost;
    best_.assign(solution.begin(), solution.end());
    host_.offer(solution, bound());
  }

  void round(double threshold) { note(rounding_.round(relaxation_.point(), threshold)); }

  /// Searches for a solution that is as good as the best one or better, and differs from the last one in few columns.
  void improve_part() {
    if (last_good_.empty() || program_.objective(last_good_) > best_cost_ * (1.0 + 1e-9)) last_good_ = best_;
    neighbourhood_.draw(part_size);
    const CoveringProgram part = covering_part(blocks_.program(), neighbourhood_.columns(), last_good_);
    CoveringPartHost host;
    CoveringSearch<CoveringPartHost> search(
        part, {.nodes = 100, .pivots = 5000, .cut_rounds = 3, .neighbourhoods = false}, host);
    search.run({});
    pivots_ += search.pivots();
    std::vector<double> solution = last_good_;
    for (std::size_t k = 0; k < host.best.size(); ++k) solution[neighbourhood_.columns()[k]] = host.best[k];
    note(solution);
    if (program_.objective(solution) <= best_cost_ * (1.0 + 1e-9)) last_good_ = std::move(solution);
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
    return current_.bound < cutoff();
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
    if (current_.bound < cutoff()) {
      tighten();
      root_ = relaxation_;
      last_ = none;
      branch();
    }
    current_.bound = std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] bool ends_early() { return host_.enough(best_cost_, bound()) || host_.should_stop(); }

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
    const auto bound_of = [&](const CoveringProgram& part) {
      CoveringPartHost host;
      CoveringSearch<CoveringPartHost> search(part,
                                              {.nodes = effort_.block_nodes,
                                               .pivots = 50 * effort_.block_nodes,
                                               .cut_rounds = effort_.cut_rounds},
                                              host);
      search.run({});
      pivots_ += search.pivots();
      return part.rounded_up(search.bound());
    };
    blocks_.add_rows(bound_of, [&] { return host_.should_stop() || pivots_ >= effort_.pivots; });
    const CoveringRows& rows = blocks_.program().rows;
    for (std::size_t i = program_.rows.size(); i < rows.size(); ++i) rows_.add(rows[i], rows.rhs(i));
  }

  /// Bounds of columns whose reduced cost is too high for more.
  void tighten() {
    const double raw = relaxation_.safe_bound();
    const double room = cutoff() - raw;
    for (std::size_t j = 0; j < program_.columns(); ++j) {
      const double reduced = relaxation_.safe_reduced_costs()[j];
      const double lower = relaxation_.lower(j), upper = relaxation_.upper(j);
      if (std::abs(reduced) * (upper - lower) <= room) continue;
      const double units = std::floor(room / std::abs(reduced) + 1e-6);
      if (units >= upper - lower) continue;
      if (reduced > 0.0) relaxation_.set_bounds(j, lower, lower + units);
      if (reduced < 0.0) relaxation_.set_bounds(j, upper - units, upper);
    }
  }

  /// Takes the node to visit from the heap; from time to time, not the latest of those with the least bound but
  /// the most promising, lest all nodes go into one part of the tree.
  void take_next() {
    if (nodes_ % dive == 0 && program_.step > 0.0) {
      const double least = open_.front().bound;
      const auto better = [&](const Node& a, const Node& b) {
        if ((a.bound == least) != (b.bound == least)) return a.bound == least;
        return a.exact != b.exact ? a.exact < b.exact : a.change > b.change;
      };
      std::iter_swap(std::min_element(open_.begin(), open_.end(), better), open_.end() - 1);
      current_ = open_.back();
      open_.pop_back();
      std::make_heap(open_.begin(), open_.end(), later);
      return;
    }
    std::pop_heap(open_.begin(), open_.end(), later);
    current_ = open_.back();
    open_.pop_back();
  }

  void visit() {
    ++nodes_;
    enter();
    if (!relax()) return;
    if (nodes_ < 50 || nodes_ % 16 == 0) {
      round(nodes_ % 3 == 0 ? 0.0 : nodes_ % 3 == 1 ? 0.3 : 0.6);
      if (current_.bound >= cutoff()) return;
    }
    branch();
  }

  /// Gives the relaxation the bounds of the current node.
  void enter() {
    const Change& change = changes_[current_.change];
    if (change.parent == last_) {
      relaxation_.set_bounds(change.column, change.lower, change.upper);
    } else {
      relaxation_ = root_;
      for (std::uint32_t i = current_.change; i != none; i = changes_[i].parent) {
        const Change& each = changes_[i];
        relaxation_.set_bounds(each.column, std::max(each.lower, relaxation_.lower(each.column)),
                               std::min(each.upper, relaxation_.upper(each.column)));
      }
    }
    last_ = current_.change;
  }

  /// Splits the current node at the column whose rounding promises to raise the bound most.
  void branch() {
    std::size_t chosen = program_.columns();
    double best = -1.0;
    bool up_first = false;
    for (std::size_t j = 0; j < program_.columns(); ++j) {
      const double value = relaxation_.point()[j], part = value - std::floor(value);
      if (part < 1e-6 || part > 1.0 - 1e-6 || !relaxation_.is_basic(j)) continue;
      if (relaxation_.lower(j) == relaxation_.upper(j)) continue;  // where the simplex method ended early
      const auto penalty = relaxation_.penalty(j);
      const double least = std::min(penalty.down, penalty.up), most = std::max(penalty.down, penalty.up);
      const double score =
          std::max(least, 1e-4) * std::clamp(most, 1e-4, 10.0) + 1e-6 * std::min(part, 1.0 - part);
      if (score > best) {
        best = score;
        chosen = j;
        up_first = penalty.up < penalty.down;
      }
    }
    if (chosen == program_.columns()) {
      round(0.5);
      chosen = widest();
      if (relaxation_.lower(chosen) == relaxation_.upper(chosen)) return;  // a single point, tried just now
    }
    split(chosen, up_first);
  }

  [[nodiscard]] std::size_t widest() const {
    const auto width = [&](std::size_t j) { return relaxation_.upper(j) - relaxation_.lower(j); };
    std::size_t found = 0;
    for (std::size_t j = 1; j < program_.columns(); ++j)
      if (width(j) > width(found)) found = j;
    return found;
  }

  /// Makes two nodes; the one that comes first is added last.
  void split(std::size_t column, bool up_first) {
    const double lower = relaxation_.lower(column), upper = relaxation_.upper(column);
    const double middle = std::clamp(std::floor(relaxation_.point()[column]), lower, upper - 1.0);
    const auto id = static_cast<std::uint32_t>(column);
    const Change down{last_, id, lower, middle}, up{last_, id, middle + 1.0, upper};
    push(up_first ? down : up);
    push(up_first ? up : down);
  }

  void push(const Change& change) {
    changes_.push_back(change);
    open_.push_back({current_.bound, static_cast<std::uint32_t>(changes_.size() - 1), current_.exact});
    std::push_heap(open_.begin(), open_.end(), later);
  }

  const CoveringProgram& program_;
  CoveringEffort effort_;
  Host& host_;
  CoveringRows rows_;  // of the program, and cuts
  CoveringRounding rounding_;
  CoveringNeighbourhood neighbourhood_;
  CoveringBlocks blocks_;
  std::vector<double> best_;       // solution
  std::vector<double> last_good_;  // one that costs as much, found in parts; or nothing
  CoveringRelaxation root_, relaxation_;
  double best_cost_ = std::numeric_limits<double>::infinity();
  Node current_;
  std::uint32_t last_ = none;  // change whose node the relaxation holds
  std::vector<Change> changes_;
  std::vector<Node> open_;  // heap
  std::int64_t nodes_ = 0, pivots_ = 0;
};

}  // namespace slimpack::detail
