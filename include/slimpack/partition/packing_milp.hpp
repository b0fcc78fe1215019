#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/solve.hpp"
#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"
#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/capped_bound.hpp"
#include "slimpack/partition/exact.hpp"
#include "slimpack/partition/local_search.hpp"

namespace slimpack {

/// Balanced packing as a mixed-integer linear program.
///
/// Data: items i with weights w_i (and sizes s_i), bins j = 1..M that hold a size of at most L each.
/// Variables: x_ij in {0, 1}, item i is in bin j; T, the largest load.
///
///     minimise    T
///     subject to  sum_j x_ij = 1                for every item i
///                 sum_i w_i x_ij <= T           for every bin j
///                 sum_i s_i x_ij <= L           for every bin j
///                 x_ij = 0                      for j > i, the items by decreasing weight
///                 T >= makespan_lower_bound(w, M, {s, L})
///
/// The last two lines change no optimum, but save the solver most of its work: bins are interchangeable, so
/// they may be numbered by their heaviest item; and the relaxation, in which every bin gets a part of every
/// item, has no better bound than the mean.
///
/// With documents of d_i tokens as items this is WLB-LLM's fixed-length packing (Eq. 1) for w_i = d_i^2, s_i
/// = d_i and L the context, and its variable-length packing (Eq. 2) for w_i = Wa(d_i) + Wl(d_i), s_i = d_i
/// and L = L_max.
class PackingModel {
 public:
  /// @param weights not negative. @param bins at least 1. @param limit sizes and capacity; without sizes, the
  /// bins hold any number.
  /// @throws InvalidInput if there is no bin, a weight is negative or not finite, or the sizes do not fit the
  /// items or the capacity. O(items (bins + log items)).
  /// Weights below 1e-9 of the bound are left out of the loads: solvers see no difference. Assignments are
  /// decoded with all weights.
  PackingModel(std::span<const double> weights, std::size_t bins, const SizeLimit& limit = {})
      : weights_(weights.begin(), weights.end()), bins_(bins) {
    const double bound = makespan_lower_bound(weights, bins, limit);
    if (bound > 0.0) scale_ = bound;
    detail::sort_falling(weights, sorted_);
    add_variables(bound);
    add_rows(limit);
    model_.set_objective(Direction::minimise, {{makespan_, 1.0}});
  }

  /// The objective is in multiples of `scale`.
  [[nodiscard]] const MilpModel& model() const { return model_; }
  /// The load that the objective's 1 stands for.
  [[nodiscard]] double scale() const { return scale_; }

  /// Lets the solver start from an assignment. @throws InvalidInput if it does not fit the items and bins.
  /// The solve checks whether it keeps the sizes. O(items bins).
  void set_initial(const Assignment& assignment) { model_.set_initial_solution(encode(assignment)); }

  /// The values of the variables for an assignment, with its bins renumbered. @throws InvalidInput like
  /// `set_initial`.
  [[nodiscard]] std::vector<double> encode(const Assignment& assignment) const {
    require(assignment.bin.size() == weights_.size(), "assignment has bins for ", assignment.bin.size(),
            " of ", weights_.size(), " items; expected one for each");
    std::vector<double> values(model_.variables(), 0.0), load(bins_, 0.0);
    std::vector<std::size_t> number(bins_, bins_);
    std::size_t used = 0;
    for (std::size_t place = 0; place < sorted_.size(); ++place) {
      const std::uint32_t item = sorted_[place].item;
      const std::uint32_t bin = assignment.bin[item];
      require(bin < bins_, "bin of item ", item, " is ", bin, "; expected less than the ", bins_, " bins");
      if (number[bin] == bins_) number[bin] = used++;
      values[first_[place] + number[bin]] = 1.0;
      load[number[bin]] += sorted_[place].weight / scale_;
    }
    values[makespan_] = std::max(*std::max_element(load.begin(), load.end()), model_.lower()[makespan_]);
    return values;
  }

  /// The assignment that values of the variables describe, each item in the bin of its largest x_ij.
  /// @throws InvalidInput if there is not a value for every variable. O(items bins).
  [[nodiscard]] Assignment decode(std::span<const double> values) const {
    require(values.size() == model_.variables(), "the point has ", values.size(), " values; expected ",
            model_.variables());
    Assignment assignment{std::vector<std::uint32_t>(weights_.size()), std::vector<double>(bins_, 0.0)};
    for (std::size_t place = 0; place < sorted_.size(); ++place) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first_[place]);
      const auto bin = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(open(place))) - begin;
      assignment.bin[sorted_[place].item] = static_cast<std::uint32_t>(bin);
    }
    for (std::size_t i = 0; i < weights_.size(); ++i) assignment.load[assignment.bin[i]] += weights_[i];
    return assignment;
  }

 private:
  /// Number of bins that the item at a place may take.
  [[nodiscard]] std::size_t open(std::size_t place) const { return std::min(place + 1, bins_); }

  void add_variables(double bound) {
    makespan_ = model_.add_variable("makespan", bound / scale_, no_bound);
    for (std::size_t place = 0; place < sorted_.size(); ++place) {
      first_.push_back(static_cast<VariableId>(model_.variables()));
      for (std::size_t j = 0; j < open(place); ++j)
        model_.add_binary(concat("x_", sorted_[place].item, "_", j));
    }
  }

  void add_rows(const SizeLimit& limit) {
    std::vector<Term> terms;
    for (std::size_t place = 0; place < sorted_.size(); ++place) {
      terms.clear();
      for (std::size_t j = 0; j < open(place); ++j)
        terms.push_back({first_[place] + static_cast<VariableId>(j), 1.0});
      model_.add_row(concat("item_", sorted_[place].item), 1.0, 1.0, terms);
    }
    for (std::size_t j = 0; j < bins_; ++j) {
      terms.assign(1, {makespan_, -1.0});
      for (std::size_t place = j; place < sorted_.size() && sorted_[place].weight >= 1e-9 * scale_; ++place)
        terms.push_back({first_[place] + static_cast<VariableId>(j), sorted_[place].weight / scale_});
      model_.add_row(concat("load_", j), -no_bound, 0.0, terms);
    }
    for (std::size_t j = 0; j < bins_ && !limit.sizes.empty(); ++j) {
      terms.clear();
      for (std::size_t place = j; place < sorted_.size(); ++place) {
        terms.push_back({first_[place] + static_cast<VariableId>(j),
                         static_cast<double>(limit.sizes[sorted_[place].item])});
      }
      model_.add_row(concat("size_", j), -no_bound, static_cast<double>(limit.capacity), terms);
    }
  }

  MilpModel model_;
  std::vector<double> weights_;
  std::size_t bins_;
  double scale_ = 1.0;
  std::vector<detail::WeighedItem<double>> sorted_;  // by decreasing weight
  VariableId makespan_ = 0;
  std::vector<VariableId> first_;  // [place in sorted_] its x for bin 0
};

struct PackingMilpOptions {
  SizeLimit limit = {};
  MilpOptions solver = {};
  /// Steps of `exact_assignment` to find a solution to start from; 0 = no start. If they already prove
  /// optimality, the solver is not called.
  std::uint64_t warm_start_steps = 1000000;
};

/// A packing by a solver, and what is known about the least makespan.
struct PackingMilpResult {
  SolveStatus status = SolveStatus::unknown;
  MilpLimit limit = MilpLimit::none;
  Assignment assignment = {};                            ///< empty unless optimal or feasible
  double bound = 0.0;                                    ///< no assignment is below
  double gap = std::numeric_limits<double>::infinity();  ///< (makespan - bound) / makespan
  double seconds = 0.0;                                  ///< of the solver
  std::int64_t nodes = 0;                                ///< of its search tree
  std::string message = {};                              ///< what it said if it failed
};

namespace detail {

[[nodiscard]] inline bool keeps(const SizeLimit& limit, const Assignment& assignment) {
  if (limit.sizes.empty()) return true;
  std::vector<std::int64_t> filled(assignment.load.size(), 0);
  for (std::size_t i = 0; i < limit.sizes.size(); ++i) filled[assignment.bin[i]] += limit.sizes[i];
  return std::all_of(filled.begin(), filled.end(), [&](std::int64_t f) { return f <= limit.capacity; });
}

}  // namespace detail

/// Solves `PackingModel` (WLB-LLM's Eq. 1 and 2), starting from the best assignment of a short branch and
/// bound. The assignment keeps the sizes exactly, whatever the solver's tolerances, and is never worse than
/// the one that it started from.
/// @param solve any MilpSolver: `solve_glpk`, `solve_cbc`, `solve_highs`, or your own.
/// @return `optimal` makespans are proven up to the solver's tolerances, about 1e-6 of the makespan.
/// @throws InvalidInput like `PackingModel`, and for impossible options of the solver.
template <class Solve>
  requires MilpSolver<Solve>
[[nodiscard]] PackingMilpResult solve_packing(std::span<const double> weights, std::size_t bins,
                                              Solve&& solve, const PackingMilpOptions& options = {}) {
  PackingModel packing(weights, bins, options.limit);
  PackingMilpResult result{.bound = makespan_lower_bound(weights, bins, options.limit)};
  if (options.warm_start_steps > 0) {
    auto start =
        exact_assignment(weights, bins, {.max_steps = options.warm_start_steps, .limit = options.limit});
    result.status = start.status;
    result.bound = std::max(result.bound, start.bound);
    result.assignment = std::move(start.assignment);
    if (result.status == SolveStatus::optimal) result.gap = 0.0;
    if (result.status == SolveStatus::optimal || result.status == SolveStatus::infeasible) return result;
    if (result.status == SolveStatus::feasible) packing.set_initial(result.assignment);
  }
  const MilpResult solved = solve(packing.model(), options.solver);
  result.status = solved.status;
  result.limit = solved.limit;
  result.seconds = solved.seconds;
  result.nodes = solved.nodes;
  result.message = solved.message;
  if (std::isfinite(solved.bound)) result.bound = std::max(result.bound, solved.bound * packing.scale());
  if (!solved.has_solution()) return result;
  Assignment found = packing.decode(solved.values);
  if (detail::keeps(options.limit, found)) {
    improve_assignment(weights, found, {.limit = options.limit});
    if (result.assignment.bin.empty() || found.makespan() < result.assignment.makespan())
      result.assignment = std::move(found);
  }
  if (result.assignment.bin.size() != weights.size()) {
    result.status = SolveStatus::unknown;
    result.limit = MilpLimit::failure;
    result.message = "the solver's packing exceeds the capacity by its tolerances";
    return result;
  }
  if (result.status == SolveStatus::optimal) result.bound = result.assignment.makespan();
  result.bound = std::min(result.bound, result.assignment.makespan());
  result.gap = relative_gap(result.assignment.makespan(), result.bound);
  return result;
}

}  // namespace slimpack
