#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/check.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"

namespace slimpack {

/// A solver: any function from a model and options to a result. `solve_glpk`, `solve_cbc` and `solve_highs`
/// are three; formulations take any. `MilpSearch` is what a further one is built on.
template <class S>
concept MilpSolver = requires(S& solve, const MilpModel& model, const MilpOptions& options) {
  { solve(model, options) } -> std::same_as<MilpResult>;
};

/// What a solver claims when it ends.
enum class MilpClaim : std::uint8_t {
  optimal,                  ///< the best solution it reported is optimal, up to the gap asked for
  infeasible,               ///< there is no solution
  unbounded,                ///< there are solutions, and always better ones
  unbounded_or_infeasible,  ///< one of the two
  stopped,                  ///< by a limit
  failed,
};

/// What all back ends share; one for each solve. It checks options and initial solution, keeps the best
/// solution (at first, the initial one), watches the clock, calls `on_incumbent`, and turns the solver's
/// claim into a result that no claim of the solver can make worse than the best solution seen.
class MilpSearch {
 public:
  /// @throws InvalidInput if an option is impossible, or the initial solution breaks the model; names
  /// the row or variable.
  MilpSearch(const MilpModel& model, const MilpOptions& options)
      : model_(&model), options_(&options), start_(Clock::now()) {
    validate(options);
    if (model.initial_solution().empty()) return;
    const std::vector<double> initial(model.initial_solution().begin(), model.initial_solution().end());
    if (const auto violation = find_violation(model, initial))
      require(false, "the initial solution does not keep the model: ", describe(model, *violation));
    keep(initial);
  }

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  [[nodiscard]] double seconds_left() const {
    return std::max(0.0, options_->time_limit_seconds - seconds());
  }
  /// Whether the solver has to end: the time is up, or the callback asked for it or threw.
  [[nodiscard]] bool should_stop() {
    if (!stopped_ && seconds() >= options_->time_limit_seconds) {
      stopped_ = true;
      limit_ = MilpLimit::time;
    }
    return stopped_;
  }

  /// Notes that the solver ends by a limit of its own on nodes or steps.
  void stop_by_work() {
    if (limit_ == MilpLimit::none) limit_ = MilpLimit::work;
    stopped_ = true;
  }

  /// The best solution so far; empty if there is none.
  [[nodiscard]] std::span<const double> best() const { return best_; }
  [[nodiscard]] bool has_best() const { return known_; }

  /// Notes a solution, with integers rounded and variables brought within their bounds. Ignores it if it then
  /// breaks the model or is no better than the best. @param bound what is known at that moment; NaN if
  /// nothing.
  /// @return whether the solver may continue. Throws nothing: `finish` throws what the callback threw.
  bool offer(std::span<const double> values, double bound) noexcept {
    if (limit_ == MilpLimit::callback) return false;  // what the callback saw last is the result
    try {
      std::optional<std::vector<double>> point = clean(values);
      if (!point || (known_ && !better(objective_value(*model_, *point), objective_))) return !should_stop();
      keep(std::move(*point));
      if (options_->on_incumbent && !stopped_) {
        const double stated = std::isnan(bound) ? worst_bound() : bound;
        if (!options_->on_incumbent({objective_, stated, best_, seconds()})) {
          stopped_ = true;
          limit_ = MilpLimit::callback;
        }
      }
    } catch (...) {
      stopped_ = true;
      thrown_ = std::current_exception();
    }
    return !should_stop();
  }

  /// The result. @param bound that the solver states; NaN if none. @param message kept if it failed.
  /// @throws what the callback threw.
  [[nodiscard]] MilpResult finish(MilpClaim claim, double bound, std::int64_t nodes,
                                  std::string message = {}) {
    if (thrown_) std::rethrow_exception(thrown_);
    MilpResult result{.nodes = nodes};
    result.bound = std::isnan(bound) ? worst_bound() : bound;
    if (known_) {
      result.objective = objective_;
      result.values = best_;
      conclude_known(claim, result);
    } else {
      conclude_unknown(claim, result);
    }
    result.gap = relative_gap(result.objective, result.bound);
    if (result.limit == MilpLimit::failure) result.message = std::move(message);
    result.seconds = seconds();
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool better(double a, double b) const { return model_->minimises() ? a < b : a > b; }
  [[nodiscard]] double worst_bound() const {
    return model_->minimises() ? -std::numeric_limits<double>::infinity()
                               : std::numeric_limits<double>::infinity();
  }

  void keep(std::vector<double> values) {
    best_ = std::move(values);
    objective_ = objective_value(*model_, best_);
    known_ = true;
  }

  /// The point with exact integers and bounds; as it was given if only that keeps the model; nothing if
  /// neither does.
  [[nodiscard]] std::optional<std::vector<double>> clean(std::span<const double> values) const {
    std::vector<double> point(values.begin(), values.end());
    for (std::size_t j = 0; j < point.size(); ++j) {
      if (model_->is_integer(j)) point[j] = std::round(point[j]) + 0.0;
      point[j] = std::clamp(point[j], model_->lower()[j], model_->upper()[j]);
    }
    if (!find_violation(*model_, point)) return point;
    point.assign(values.begin(), values.end());
    if (!find_violation(*model_, point)) return point;
    return std::nullopt;
  }

  void conclude_known(MilpClaim claim, MilpResult& result) const {
    result.status = SolveStatus::feasible;
    // A bound beyond the objective is wrong, mostly by tolerances; the solution is valid.
    if (better(result.objective, result.bound)) result.bound = result.objective;
    switch (claim) {
      case MilpClaim::optimal:
        if (options_->relative_gap == 0.0) result.bound = result.objective;
        break;
      case MilpClaim::stopped:
        result.limit = limit_ == MilpLimit::none ? MilpLimit::time : limit_;
        break;
      case MilpClaim::unbounded:
        result.status = SolveStatus::unbounded;
        result.bound = worst_bound();
        return;
      default:
        result.limit = MilpLimit::failure;
        break;
    }
    if (relative_gap(result.objective, result.bound) <= 1e-9) {
      result.status = SolveStatus::optimal;
      result.limit = MilpLimit::none;
    } else if (claim == MilpClaim::optimal) {
      result.limit = MilpLimit::gap;
    }
  }

  void conclude_unknown(MilpClaim claim, MilpResult& result) const {
    switch (claim) {
      case MilpClaim::infeasible:
        result.status = SolveStatus::infeasible;
        result.bound = -worst_bound();
        break;
      case MilpClaim::unbounded:
        result.status = SolveStatus::unbounded;
        result.bound = worst_bound();
        break;
      case MilpClaim::stopped:
        result.limit = limit_ == MilpLimit::none ? MilpLimit::time : limit_;
        break;
      default:
        result.limit = MilpLimit::failure;
        break;
    }
  }

  const MilpModel* model_;
  const MilpOptions* options_;
  Clock::time_point start_;
  std::vector<double> best_;
  double objective_ = std::numeric_limits<double>::quiet_NaN();
  bool known_ = false;
  bool stopped_ = false;
  MilpLimit limit_ = MilpLimit::none;
  std::exception_ptr thrown_;
};

/// Tells an unbounded model from an infeasible one by solving it without its objective: with rational
/// numbers, as here, a mixed-integer program whose relaxation is unbounded is itself unbounded if it has a
/// solution.
/// @param seconds_left of the time limit. @param solve the back end.
template <class Solve>
[[nodiscard]] MilpClaim settle_unbounded(const MilpModel& model, const MilpOptions& options,
                                         double seconds_left, Solve&& solve) {
  if (!model.initial_solution().empty()) return MilpClaim::unbounded;
  MilpModel feasibility = model;
  feasibility.set_objective(Direction::minimise, {});
  MilpOptions quiet = options;
  quiet.on_incumbent = {};
  quiet.time_limit_seconds = seconds_left;
  const MilpResult any = solve(feasibility, quiet);
  if (any.has_solution()) return MilpClaim::unbounded;
  if (any.status == SolveStatus::infeasible) return MilpClaim::infeasible;
  return any.limit == MilpLimit::failure ? MilpClaim::failed : MilpClaim::stopped;
}

}  // namespace slimpack
