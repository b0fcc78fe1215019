#pragma once

#include <cmath>
#include <coin/CbcEventHandler.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CbcSolver.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"

namespace slimpack {

namespace detail {

/// Watches a solve by CBC: solutions of all of the model's columns go to the search, which may end it.
class CbcListener final : public CbcEventHandler {
 public:
  CbcListener(MilpSearch& search, std::size_t columns, double sign)
      : search_(&search), columns_(columns), sign_(sign) {}
  [[nodiscard]] CbcEventHandler* clone() const override { return new CbcListener(*this); }

  CbcAction event(CbcEvent kind) override {
    const bool found = kind == solution || kind == heuristicSolution;
    // Searches within the search have models of their own.
    const bool whole = model_ != nullptr && model_->getNumCols() >= 0 &&
                       static_cast<std::size_t>(model_->getNumCols()) == columns_;
    if (found && whole && model_->bestSolution() != nullptr) {
      const double bound = model_->getBestPossibleObjValue();
      search_->offer({model_->bestSolution(), columns_},
                     std::abs(bound) < 1e30 ? sign_ * bound : std::nan(""));
    }
    return search_->should_stop() ? stop : noAction;
  }

 private:
  MilpSearch* search_;
  std::size_t columns_;
  double sign_;
};

/// CBC keeps its settings in variables of the whole process.
inline std::mutex& cbc_in_use() {
  static std::mutex mutex;
  return mutex;
}

/// One solve by CBC, which always minimises: an objective to be maximised changes its sign.
class CbcSolve {
 public:
  CbcSolve(const MilpModel& model, const MilpOptions& options)
      : model_(model), options_(options), search_(model, options), sign_(model.minimises() ? 1.0 : -1.0) {}

  template <class Solve>
  MilpResult run(Solve&& again) {
    if (search_.should_stop()) return search_.finish(MilpClaim::stopped, std::nan(""), 0);
    OsiClpSolverInterface solver;
    load(solver);
    if (model_.has_integers()) {
      solve_integers(solver);
    } else {
      solve_relaxation(solver);
    }
    if (claim_ == MilpClaim::unbounded_or_infeasible)
      claim_ = settle_unbounded(model_, options_, search_.seconds_left(), again);
    return search_.finish(claim_, bound_, nodes_, message_);
  }

 private:
  void load(OsiClpSolverInterface& solver) const {
    std::vector<double> value, objective;
    std::vector<int> index, length;
    std::vector<CoinBigIndex> start;
    for (std::size_t i = 0; i < model_.rows(); ++i) {
      start.push_back(static_cast<CoinBigIndex>(value.size()));
      for (const Term& term : model_.row(i)) {
        index.push_back(static_cast<int>(term.variable));
        value.push_back(term.coefficient);
      }
      length.push_back(static_cast<int>(model_.row(i).size()));
    }
    start.push_back(static_cast<CoinBigIndex>(value.size()));
    for (const double coefficient : model_.objective()) objective.push_back(sign_ * coefficient);
    const CoinPackedMatrix matrix(false, static_cast<int>(model_.variables()),
                                  static_cast<int>(model_.rows()), static_cast<CoinBigIndex>(value.size()),
                                  value.data(), index.data(), start.data(), length.data());
    solver.messageHandler()->setLogLevel(0);
    solver.getModelPtr()->setLogLevel(0);
    solver.loadProblem(matrix, model_.lower().data(), model_.upper().data(), objective.data(),
                       model_.row_lower().data(), model_.row_upper().data());
    solver.setDblParam(OsiObjOffset, -sign_ * model_.objective_constant());
    for (std::size_t j = 0; j < model_.variables(); ++j) {
      if (model_.is_integer(j)) solver.setInteger(static_cast<int>(j));
    }
  }

  /// CBC's objective as ours.
  [[nodiscard]] double ours(double objective) const { return sign_ * objective; }

  void solve_relaxation(OsiClpSolverInterface& solver) {
    solver.getModelPtr()->setMaximumWallSeconds(search_.seconds_left());
    solver.initialSolve();
    if (solver.isProvenOptimal()) {
      bound_ = ours(solver.getObjValue());
      search_.offer({solver.getColSolution(), model_.variables()}, bound_);
      claim_ = MilpClaim::optimal;
    } else if (solver.isProvenPrimalInfeasible()) {
      claim_ = MilpClaim::infeasible;
    } else if (solver.isProvenDualInfeasible()) {
      claim_ = MilpClaim::unbounded_or_infeasible;
    } else if (search_.should_stop()) {
      claim_ = MilpClaim::stopped;
    } else {
      fail(concat("Clp ended with status ", solver.getModelPtr()->status()));
    }
  }

  void solve_integers(OsiClpSolverInterface& solver) {
    const std::scoped_lock lock(cbc_in_use());
    if (search_.should_stop()) {
      claim_ = MilpClaim::stopped;
      return;
    }
    CbcModel cbc(solver);
    CbcSolverUsefulData data;
    data.noPrinting_ = true;
    data.useSignalHandler_ = false;
    CbcMain0(cbc, data);
    cbc.setLogLevel(0);
    const CbcListener listener(search_, model_.variables(), sign_);
    cbc.passInEventHandler(&listener);
    if (search_.has_best()) start_from_best(cbc);
    std::vector<std::string> words{"slimpack", "-log", "0", "-randomCbcSeed",
                                   std::to_string(options_.seed % 100000000)};
    const auto add = [&](const char* name, const std::string& word) {
      words.insert(words.end(), {name, word});
    };
    add("-allowableGap", "0");
    add("-ratioGap", shown(options_.relative_gap));
    if (std::isfinite(options_.time_limit_seconds)) {
      add("-timeMode", "elapsed");
      add("-sec", shown(search_.seconds_left()));
    }
    // Preprocessing loses optimal solutions in version 2.10, and a preprocessed model's solutions are not
    // ours.
    add("-preprocess", "off");
    words.insert(words.end(), {"-solve", "-quit"});
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    const auto keep_going = [](CbcModel*, int) { return 0; };
    CbcMain1(static_cast<int>(arguments.size()), arguments.data(), cbc, keep_going, data);
    conclude(cbc);
  }

  static std::string shown(double value) {
    char digits[64];
    std::snprintf(digits, sizeof digits, "%.17g", value);
    return digits;
  }

  void start_from_best(CbcModel& cbc) const {
    std::vector<std::pair<std::string, double>> start;
    for (std::size_t j = 0; j < model_.variables(); ++j)
      start.emplace_back(cbc.solver()->getColName(static_cast<int>(j)), search_.best()[j]);
    cbc.setMIPStart(start);
  }

  void conclude(CbcModel& cbc) {
    nodes_ = cbc.getNodeCount();
    const double stated = cbc.getBestPossibleObjValue();
    if (std::abs(stated) < 1e30) bound_ = ours(stated);
    if (cbc.bestSolution() != nullptr) search_.offer({cbc.bestSolution(), model_.variables()}, bound_);
    if (search_.should_stop()) {
      claim_ = MilpClaim::stopped;
    } else if (cbc.isContinuousUnbounded() || cbc.secondaryStatus() == 7) {
      claim_ = MilpClaim::unbounded_or_infeasible;
    } else if (cbc.isProvenOptimal()) {
      claim_ = MilpClaim::optimal;
    } else if (cbc.isProvenInfeasible()) {
      claim_ = MilpClaim::infeasible;
    } else if (cbc.isSecondsLimitReached()) {
      claim_ = MilpClaim::stopped;
    } else if (cbc.secondaryStatus() == 2) {
      claim_ = MilpClaim::optimal;
    } else {
      fail(concat("CBC ended with status ", cbc.status(), ", ", cbc.secondaryStatus()));
    }
  }

  void fail(std::string message) {
    claim_ = MilpClaim::failed;
    message_ = std::move(message);
  }

  const MilpModel& model_;
  const MilpOptions& options_;
  MilpSearch search_;
  double sign_;
  double bound_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t nodes_ = 0;
  MilpClaim claim_ = MilpClaim::failed;
  std::string message_;
};

}  // namespace detail

/// Solves a model by CBC (branch and cut over Clp), with its defaults but without preprocessing; an initial
/// solution is its MIP start.
///
/// Uses one thread, and CBC is not made for several: solves in different threads wait for each other, so
/// `on_incumbent` must not start one. It can exceed its time limit by a second, or by more in a long cut or
/// heuristic.
/// @throws InvalidInput if an option is impossible or the initial solution does not keep the model; and what
/// `on_incumbent` throws.
[[nodiscard]] inline MilpResult solve_cbc(const MilpModel& model, const MilpOptions& options = {}) {
  return detail::CbcSolve(model, options).run(solve_cbc);
}

}  // namespace slimpack
