#pragma once

#include <interfaces/highs_c_api.h>

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
#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"

namespace slimpack {

namespace detail {

/// One solve by HiGHS.
class HighsSolve {
 public:
  HighsSolve(const MilpModel& model, const MilpOptions& options)
      : model_(model), options_(options), search_(model, options), highs_(Highs_create()) {}
  ~HighsSolve() { Highs_destroy(highs_); }
  HighsSolve(const HighsSolve&) = delete;
  HighsSolve& operator=(const HighsSolve&) = delete;

  template <class Solve>
  MilpResult run(Solve&& again) {
    if (search_.should_stop()) {
      claim_ = MilpClaim::stopped;
    } else if (set_options() && load()) {
      solve();
    }
    if (claim_ == MilpClaim::unbounded_or_infeasible)
      claim_ = settle_unbounded(model_, options_, search_.seconds_left(), again);
    return search_.finish(claim_, bound_, nodes_, message_);
  }

 private:
  bool fail(std::string message) {
    claim_ = MilpClaim::failed;
    message_ = "HiGHS: " + std::move(message);
    return false;
  }

  bool set_options() {
    const auto ok = [](HighsInt status) { return status == kHighsStatusOk; };
    bool done = ok(Highs_setBoolOptionValue(highs_, "output_flag", 0)) &&
                ok(Highs_setDoubleOptionValue(highs_, "mip_rel_gap", options_.relative_gap)) &&
                ok(Highs_setDoubleOptionValue(highs_, "mip_abs_gap", 0.0)) &&
                ok(Highs_setIntOptionValue(highs_, "random_seed",
                                           static_cast<HighsInt>(options_.seed % 0x7fffffffU)));
    if (std::isfinite(options_.time_limit_seconds))
      done = done && ok(Highs_setDoubleOptionValue(highs_, "time_limit", search_.seconds_left()));
    if (options_.threads == 1) {
      done = done && ok(Highs_setStringOptionValue(highs_, "parallel", "off"));
    } else {
      done = done && ok(Highs_setIntOptionValue(highs_, "threads", options_.threads)) &&
             ok(Highs_setStringOptionValue(highs_, "parallel", "on"));
    }
    return done || fail("an option was refused");
  }

  bool load() {
    std::vector<HighsInt> start, index, integrality;
    std::vector<double> value;
    for (std::size_t i = 0; i < model_.rows(); ++i) {
      start.push_back(static_cast<HighsInt>(value.size()));
      for (const Term& term : model_.row(i)) {
        index.push_back(static_cast<HighsInt>(term.variable));
        value.push_back(term.coefficient);
      }
    }
    start.push_back(static_cast<HighsInt>(value.size()));
    for (std::size_t j = 0; j < model_.variables(); ++j)
      integrality.push_back(model_.is_integer(j) ? kHighsVarTypeInteger : kHighsVarTypeContinuous);
    const HighsInt sense = model_.minimises() ? kHighsObjSenseMinimize : kHighsObjSenseMaximize;
    const HighsInt status = Highs_passMip(
        highs_, static_cast<HighsInt>(model_.variables()), static_cast<HighsInt>(model_.rows()),
        static_cast<HighsInt>(value.size()), kHighsMatrixFormatRowwise, sense, model_.objective_constant(),
        model_.objective().data(), model_.lower().data(), model_.upper().data(), model_.row_lower().data(),
        model_.row_upper().data(), start.data(), index.data(), value.data(), integrality.data());
    if (status != kHighsStatusOk) return fail("the model was refused");
    if (search_.has_best() && model_.has_integers())
      static_cast<void>(Highs_setSolution(highs_, search_.best().data(), nullptr, nullptr, nullptr));
    return true;
  }

  static void listen(int kind, const char*, const HighsCallbackDataOut* out, HighsCallbackDataIn* in,
                     void* self) {
    auto& solve = *static_cast<HighsSolve*>(self);
    if (kind == kHighsCallbackMipImprovingSolution && out->mip_solution != nullptr)
      solve.search_.offer({out->mip_solution, solve.model_.variables()}, stated(out->mip_dual_bound));
    if (in != nullptr) in->user_interrupt = solve.search_.should_stop() ? 1 : 0;
  }

  /// A bound as HiGHS states it; NaN if it states none.
  static double stated(double bound) { return std::abs(bound) < 1e30 ? bound : std::nan(""); }

  void solve() {
    Highs_setCallback(highs_, &listen, this);
    for (const HighsInt kind :
         {kHighsCallbackMipImprovingSolution, kHighsCallbackMipInterrupt, kHighsCallbackSimplexInterrupt})
      Highs_startCallback(highs_, kind);
    const HighsInt ran = Highs_run(highs_);
    Highs_setCallback(highs_, nullptr, nullptr);
    read_counts();
    std::vector<double> values(model_.variables());
    HighsInt known = kHighsSolutionStatusNone;
    Highs_getIntInfoValue(highs_, "primal_solution_status", &known);
    if (known == kHighsSolutionStatusFeasible || values.empty()) {
      Highs_getSolution(highs_, values.data(), nullptr, nullptr, nullptr);
      search_.offer(values, bound_);
    }
    conclude(ran, Highs_getModelStatus(highs_));
  }

  void read_counts() {
    if (!model_.has_integers()) return;
    Highs_getInt64InfoValue(highs_, "mip_node_count", &nodes_);
    nodes_ = std::max<std::int64_t>(nodes_, 0);
    double bound = bound_;
    if (Highs_getDoubleInfoValue(highs_, "mip_dual_bound", &bound) == kHighsStatusOk) bound_ = stated(bound);
  }

  void conclude(HighsInt ran, HighsInt status) {
    if (status == kHighsModelStatusOptimal || status == kHighsModelStatusModelEmpty) {
      claim_ = MilpClaim::optimal;
      if (!model_.has_integers()) bound_ = Highs_getObjectiveValue(highs_);
    } else if (status == kHighsModelStatusInfeasible) {
      claim_ = MilpClaim::infeasible;
    } else if (status == kHighsModelStatusUnbounded || status == kHighsModelStatusUnboundedOrInfeasible) {
      claim_ = MilpClaim::unbounded_or_infeasible;
    } else if (status == kHighsModelStatusTimeLimit || status == kHighsModelStatusInterrupt) {
      claim_ = MilpClaim::stopped;
    } else {
      fail(concat("run returned ", ran, ", model status ", status));
    }
  }

  const MilpModel& model_;
  const MilpOptions& options_;
  MilpSearch search_;
  void* highs_;
  double bound_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t nodes_ = 0;
  MilpClaim claim_ = MilpClaim::failed;
  std::string message_;
};

}  // namespace detail

/// Solves a model by HiGHS; an initial solution is its MIP start.
///
/// With `threads` above 1, HiGHS starts threads of its own. It depends on its version whether a later solve
/// may ask for another number; a refusal ends as a `failure`.
/// @throws InvalidInput if an option is impossible or the initial solution does not keep the model; and what
/// `on_incumbent` throws.
[[nodiscard]] inline MilpResult solve_highs(const MilpModel& model, const MilpOptions& options = {}) {
  return detail::HighsSolve(model, options).run(solve_highs);
}

}  // namespace slimpack
