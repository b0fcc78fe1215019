#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/core/solve.hpp"
#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"
#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/dispatch_bound.hpp"
#include "slimpack/partition/dispatch_search.hpp"

namespace slimpack {

/// Hydraulis's dispatching (Eq. 3) as a mixed-integer linear program.
///
/// Data: samples i; pipelines j with PP_j stages, of some kind; t_ij, the seconds of sample i on one stage of j.
/// Variables: m_ij in {0, 1}, sample i is on pipeline j, for those j that hold it; e_j, seconds of the longest sample
/// of j; T, the makespan.
///
///     minimise    T
///     subject to  sum_j m_ij = 1                               for every sample i
///                 sum_i t_ij m_ij + (PP_j - 1) e_j <= T        for every pipeline j
///                 t_ij m_ij <= e_j                             for all i and j, if PP_j > 1
///                 m_ij = 0                                     for the n-th pipeline j of a kind, if i is not among
///                                                              the kind's samples after the n - 1 with the most seconds
///                 T >= dispatch_lower_bound
///
/// The last two lines change no optimum: pipelines of a kind are interchangeable, so they may be numbered by the
/// longest sample of each.
class DispatchModel {
 public:
  /// @param problem its lists have to outlive this. @throws InvalidInput like `dispatch_lower_bound`.
  /// O(samples pipelines). Seconds below 1e-9 of the bound are left out: solvers see no difference.
  explicit DispatchModel(const DispatchProblem& problem)
      : problem_(problem), first_(detail::first_pipelines(problem)), kind_(first_.back()) {
    const double bound = dispatch_lower_bound(problem).seconds;
    if (bound > 0.0) scale_ = bound;
    // The bound is a little less than what it is proven to be, as is what rounding leaves of a start's makespan.
    makespan_ = model_.add_variable("makespan", bound / scale_ * (1.0 - 1e-9), no_bound);
    for (std::size_t k = 0; k < problem.kinds.size(); ++k) add_kind(k);
    add_sample_rows();
    for (std::size_t j = 0; j < kind_.size(); ++j) add_pipeline_rows(j);
    model_.set_objective(Direction::minimise, {{makespan_, 1.0}});
  }

  /// The objective is in multiples of `scale`.
  [[nodiscard]] const MilpModel& model() const { return model_; }
  /// The seconds that the objective's 1 stands for.
  [[nodiscard]] double scale() const { return scale_; }

  /// Lets the solver start from a dispatch of the problem. O(samples pipelines).
  void set_initial(const Dispatch& dispatch) { model_.set_initial_solution(encode(dispatch)); }

  /// The values of the variables for a dispatch, with the pipelines of every kind renumbered. O(samples pipelines).
  [[nodiscard]] std::vector<double> encode(const Dispatch& dispatch) const {
    require(dispatch.pipeline.size() == problem_.lengths.size(), "the dispatch has pipelines for ",
            dispatch.pipeline.size(), " of ", problem_.lengths.size(), " samples; expected one for each");
    std::vector<double> values(model_.variables(), 0.0), load(kind_.size(), 0.0), most(kind_.size(), 0.0);
    std::vector<std::size_t> number(kind_.size(), kind_.size());
    for (std::size_t k = 0; k < problem_.kinds.size(); ++k) {
      std::size_t next = first_[k];
      for (const SampleId i : samples_[k]) {
        const std::size_t p = dispatch.pipeline[i];
        require(p < kind_.size(), "sample ", i, " is on pipeline ", p, "; expected less than ", kind_.size());
        if (kind_[p] != k) continue;
        if (number[p] == kind_.size()) number[p] = next++;
        set_sample(values, i, number[p]);
        load[number[p]] += problem_.seconds_on(k, i) / scale_;
        most[number[p]] = std::max(most[number[p]], problem_.seconds_on(k, i) / scale_);
      }
    }
    values[makespan_] = model_.lower()[makespan_];
    for (std::size_t j = 0; j < kind_.size(); ++j) {
      if (longest_[j] != no_variable) values[longest_[j]] = most[j];
      values[makespan_] = std::max(values[makespan_], load[j] + most[j] * problem_.other_stages(kind_[j]));
    }
    return values;
  }

  /// The dispatch that values of the variables describe, each sample on the pipeline of its largest m_ij.
  /// @throws InvalidInput if there is not a value for every variable. O(samples pipelines).
  [[nodiscard]] Dispatch decode(std::span<const double> values) const {
    require(values.size() == model_.variables(), "the point has ", values.size(), " values; expected ",
            model_.variables());
    std::vector<PipelineId> pipeline(problem_.lengths.size());
    std::vector<double> most(problem_.lengths.size(), -1.0);
    for (const Place& place : places_) {
      if (values[place.variable] <= most[place.sample]) continue;
      most[place.sample] = values[place.variable];
      pipeline[place.sample] = static_cast<PipelineId>(place.pipeline);
    }
    return detail::dispatch_of(problem_, std::move(pipeline));
  }

 private:
  struct Place {
    SampleId sample;
    std::size_t pipeline;
    VariableId variable;  // m_ij
  };
  static constexpr VariableId no_variable = ~VariableId{0};

  /// The samples that the kind holds, and the variables of its pipelines.
  void add_kind(std::size_t k) {
    std::vector<SampleId> held;
    for (SampleId i = 0; i < problem_.lengths.size(); ++i) {
      if (problem_.holds(k, i)) held.push_back(i);
    }
    std::stable_sort(held.begin(), held.end(), [&](SampleId a, SampleId b) {
      return problem_.seconds_on(k, a) > problem_.seconds_on(k, b);
    });
    for (std::size_t j = first_[k]; j < first_[k + 1]; ++j) {
      kind_[j] = k;
      longest_.push_back(problem_.kinds[k].stages > 1 ? model_.add_variable(concat("e_", j), 0.0, no_bound)
                                                      : no_variable);
      begin_.push_back(places_.size());
      for (std::size_t place = j - first_[k]; place < held.size(); ++place)
        places_.push_back({held[place], j, model_.add_binary(concat("m_", held[place], "_", j))});
    }
    samples_.push_back(std::move(held));
  }

  void add_sample_rows() {
    begin_.push_back(places_.size());
    std::vector<std::vector<Term>> terms(problem_.lengths.size());
    for (const Place& place : places_) terms[place.sample].push_back({place.variable, 1.0});
    for (std::size_t i = 0; i < terms.size(); ++i) model_.add_row(concat("sample_", i), 1.0, 1.0, terms[i]);
  }

  void add_pipeline_rows(std::size_t j) {
    std::vector<Term> terms{{makespan_, -1.0}};
    if (longest_[j] != no_variable) terms.push_back({longest_[j], problem_.other_stages(kind_[j])});
    for (std::size_t n = begin_[j]; n < begin_[j + 1]; ++n) {
      const Place& place = places_[n];
      const double seconds = problem_.seconds_on(kind_[j], place.sample) / scale_;
      if (seconds < 1e-9) continue;
      terms.push_back({place.variable, seconds});
      if (longest_[j] != no_variable)
        model_.add_row(concat("longest_", place.sample, "_", j), -no_bound, 0.0,
                       {{place.variable, seconds}, {longest_[j], -1.0}});
    }
    model_.add_row(concat("pipeline_", j), -no_bound, 0.0, terms);
  }

  void set_sample(std::vector<double>& values, SampleId sample, std::size_t pipeline) const {
    for (std::size_t n = begin_[pipeline]; n < begin_[pipeline + 1]; ++n) {
      if (places_[n].sample == sample) values[places_[n].variable] = 1.0;
    }
  }

  MilpModel model_;
  DispatchProblem problem_;
  std::vector<std::size_t> first_;              // [kind] its first pipeline
  std::vector<std::size_t> kind_;               // [pipeline]
  std::vector<std::vector<SampleId>> samples_;  // [kind] what it holds, by falling seconds
  double scale_ = 1.0;
  VariableId makespan_ = 0;
  std::vector<VariableId> longest_;  // [pipeline] its e
  std::vector<Place> places_;
  std::vector<std::size_t> begin_;  // [pipeline] in places_, and their end
};

struct DispatchMilpOptions {
  MilpOptions solver = {};
  bool start_from_search = true;  ///< whether the solver starts from `search_dispatch`'s answer
  DispatchOptions search = {};
};

/// A dispatch by a solver, and what is known about the least makespan.
struct DispatchMilpResult {
  SolveStatus status = SolveStatus::unknown;
  MilpLimit limit = MilpLimit::none;
  Dispatch dispatch = {};                                ///< empty unless optimal or feasible
  double bound = 0.0;                                    ///< no dispatch is below
  double gap = std::numeric_limits<double>::infinity();  ///< (makespan - bound) / makespan
  double seconds = 0.0;                                  ///< of the solver
  std::int64_t nodes = 0;                                ///< of its search tree
  std::string message = {};                              ///< what it said if it failed
};

/// Solves `DispatchModel` (Hydraulis's Eq. 3).
/// @param solve any MilpSolver: `solve_glpk`, `solve_cbc`, `solve_highs`, or your own.
/// @return `optimal` makespans are proven up to the solver's tolerances, about 1e-6 of the makespan.
/// @throws InvalidInput like `search_dispatch`, and for impossible options of the solver.
template <class Solve>
  requires MilpSolver<Solve>
[[nodiscard]] DispatchMilpResult solve_dispatch(const DispatchProblem& problem, Solve&& solve,
                                                const DispatchMilpOptions& options = {}) {
  DispatchModel dispatching(problem);
  DispatchMilpResult result{.bound = dispatch_lower_bound(problem).seconds};
  if (options.start_from_search) {
    DispatchResult start = search_dispatch(problem, options.search);
    result.bound = std::max(result.bound, start.bound);
    result.dispatch = std::move(start.dispatch);
    dispatching.set_initial(result.dispatch);
  }
  const MilpResult solved = solve(dispatching.model(), options.solver);
  result.status = solved.status;
  result.limit = solved.limit;
  result.seconds = solved.seconds;
  result.nodes = solved.nodes;
  result.message = solved.message;
  if (std::isfinite(solved.bound)) result.bound = std::max(result.bound, solved.bound * dispatching.scale());
  if (!solved.has_solution()) return result;
  Dispatch found = dispatching.decode(solved.values);
  if (!options.start_from_search || found.makespan() < result.dispatch.makespan())
    result.dispatch = std::move(found);
  if (result.status == SolveStatus::optimal) result.bound = result.dispatch.makespan();
  result.bound = std::min(result.bound, result.dispatch.makespan());
  result.gap = relative_gap(result.dispatch.makespan(), result.bound);
  return result;
}

}  // namespace slimpack
