#pragma once

#include <glpk.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/milp/result.hpp"

namespace slimpack {

namespace detail {

/// GLPK's state of this thread during a solve: silent, and with errors that return instead of ending the
/// process. No C++ objects may be alive in `run`'s calls into GLPK, because an error jumps over their
/// destructors.
class GlpkEnvironment {
 public:
  GlpkEnvironment() : ours_(glp_init_env() == 0), terminal_(glp_term_out(GLP_OFF)) {
    glp_term_hook(&listen, this);
    glp_error_hook(&jump, this);
  }
  ~GlpkEnvironment() {
    glp_error_hook(nullptr, nullptr);
    glp_term_hook(nullptr, nullptr);
    if (ours_ || failed_) {
      glp_free_env();
    } else {
      glp_term_out(terminal_);
    }
  }
  GlpkEnvironment(const GlpkEnvironment&) = delete;
  GlpkEnvironment& operator=(const GlpkEnvironment&) = delete;

  /// Calls `work`; false if GLPK gave up in it. After that only the destructor may be called.
  template <class Work>
  bool run(Work& work) {
    if (setjmp(back_) != 0) {
      failed_ = true;
      return false;
    }
    work();
    return true;
  }

  /// What GLPK said when it gave up.
  [[nodiscard]] const char* said() const { return said_; }

 private:
  /// GLPK is silent until it gives up, then it says why in several pieces.
  static int listen(void* info, const char* text) {
    auto& self = *static_cast<GlpkEnvironment*>(info);
    for (; *text != '\0' && self.length_ + 1 < sizeof self.said_; ++text)
      self.said_[self.length_++] = *text == '\n' ? ' ' : *text;
    return 1;
  }
  static void jump(void* info) { std::longjmp(static_cast<GlpkEnvironment*>(info)->back_, 1); }

  bool ours_;
  int terminal_;
  bool failed_ = false;
  char said_[200] = "";
  std::size_t length_ = 0;
  std::jmp_buf back_;
};

/// One solve by GLPK: the relaxation by the simplex method, then branch and cut on the original columns, so
/// that solutions can be handed in and read during the search.
class GlpkSolve {
 public:
  GlpkSolve(const MilpModel& model, const MilpOptions& options)
      : model_(model), options_(options), search_(model, options), point_(model.variables() + 1) {
    for (std::size_t i = 0; i < model.rows(); ++i) longest_ = std::max(longest_, model.row(i).size());
    index_.resize(longest_ + 1);
    value_.resize(longest_ + 1);
    sign_ = model.minimises() ? 1.0 : -1.0;
    bound_ = -sign_ * std::numeric_limits<double>::infinity();
  }

  template <class Solve>
  MilpResult run(Solve&& again) {
    if (search_.should_stop()) {
      claim_ = MilpClaim::stopped;
    } else {
      GlpkEnvironment environment;
      const auto work = [this] { build_and_solve(); };
      if (!environment.run(work)) {
        claim_ = MilpClaim::failed;
        std::snprintf(message_, sizeof message_, "GLPK: %s", environment.said());
      }
    }
    if (claim_ == MilpClaim::unbounded_or_infeasible)
      claim_ = settle_unbounded(model_, options_, search_.seconds_left(), again);
    return search_.finish(claim_, bound_, nodes_, message_);
  }

 private:
  void build_and_solve() {
    glp_prob* const problem = glp_create_prob();
    build(problem);
    if (solve_relaxation(problem)) {
      if (model_.has_integers()) {
        solve_integers(problem);
      } else {
        take_relaxation(problem);
        bound_ = glp_get_obj_val(problem);
        claim_ = MilpClaim::optimal;
      }
    }
    glp_delete_prob(problem);
  }

  static int bound_type(double lower, double upper) {
    if (lower == upper) return GLP_FX;
    if (lower == -no_bound) return upper == no_bound ? GLP_FR : GLP_UP;
    return upper == no_bound ? GLP_LO : GLP_DB;
  }

  void build(glp_prob* problem) {
    const auto number = [](std::size_t i) { return static_cast<int>(i) + 1; };
    glp_set_obj_dir(problem, model_.minimises() ? GLP_MIN : GLP_MAX);
    glp_set_obj_coef(problem, 0, model_.objective_constant());
    if (model_.variables() > 0) glp_add_cols(problem, static_cast<int>(model_.variables()));
    for (std::size_t j = 0; j < model_.variables(); ++j) {
      const double lower = model_.lower()[j], upper = model_.upper()[j];
      if (model_.is_integer(j)) glp_set_col_kind(problem, number(j), GLP_IV);
      glp_set_col_bnds(problem, number(j), bound_type(lower, upper), lower, upper);
      glp_set_obj_coef(problem, number(j), model_.objective()[j]);
    }
    if (model_.rows() > 0) glp_add_rows(problem, static_cast<int>(model_.rows()));
    for (std::size_t i = 0; i < model_.rows(); ++i) {
      const double lower = model_.row_lower()[i], upper = model_.row_upper()[i];
      glp_set_row_bnds(problem, number(i), bound_type(lower, upper), lower, upper);
      const std::span<const Term> terms = model_.row(i);
      for (std::size_t k = 0; k < terms.size(); ++k) {
        index_[k + 1] = number(terms[k].variable);
        value_[k + 1] = terms[k].coefficient;
      }
      glp_set_mat_row(problem, number(i), static_cast<int>(terms.size()), index_.data(), value_.data());
    }
  }

  /// GLPK counts milliseconds in an int.
  [[nodiscard]] int milliseconds_left() const {
    return static_cast<int>(std::min(search_.seconds_left() * 1e3 + 1.0, 2147483647.0));
  }

  /// Solves the linear program; false if that settles all.
  bool solve_relaxation(glp_prob* problem) {
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.tm_lim = milliseconds_left();
    glp_scale_prob(problem, GLP_SF_AUTO);
    glp_adv_basis(problem, 0);
    const int code = glp_simplex(problem, &parameters);
    const int status = glp_get_status(problem);
    if (code == GLP_ETMLIM) {
      claim_ = MilpClaim::stopped;
    } else if (code != 0) {
      claim_ = MilpClaim::failed;
      std::snprintf(message_, sizeof message_, "GLPK: glp_simplex returned %d", code);
    } else if (status == GLP_OPT) {
      if (model_.has_integers()) bound_ = glp_get_obj_val(problem);
      return true;
    } else if (status == GLP_NOFEAS) {
      claim_ = MilpClaim::infeasible;
    } else if (status == GLP_UNBND) {
      claim_ = model_.has_integers() ? MilpClaim::unbounded_or_infeasible : MilpClaim::unbounded;
    } else {
      claim_ = MilpClaim::failed;
      std::snprintf(message_, sizeof message_, "GLPK: glp_simplex ended with status %d", status);
    }
    return false;
  }

  void take_relaxation(glp_prob* problem) {
    for (std::size_t j = 1; j < point_.size(); ++j)
      point_[j] = glp_get_col_prim(problem, static_cast<int>(j));
    search_.offer(std::span<const double>(point_).subspan(1), glp_get_obj_val(problem));
  }

  void take_incumbent(glp_prob* problem) {
    taken_ = glp_mip_obj_val(problem);
    for (std::size_t j = 1; j < point_.size(); ++j) point_[j] = glp_mip_col_val(problem, static_cast<int>(j));
    search_.offer(std::span<const double>(point_).subspan(1), bound_);
  }

  void solve_integers(glp_prob* problem) {
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.tm_lim = milliseconds_left();
    parameters.mip_gap = options_.relative_gap;
    parameters.mir_cuts = GLP_ON;
    parameters.cov_cuts = GLP_ON;
    parameters.cb_func = [](glp_tree* tree, void* info) { static_cast<GlpkSolve*>(info)->look(tree); };
    parameters.cb_info = this;
    const int code = glp_intopt(problem, &parameters);
    const int status = glp_mip_status(problem);
    if (status == GLP_OPT || status == GLP_FEAS) take_incumbent(problem);
    if (code == GLP_ETMLIM || code == GLP_ESTOP) {
      claim_ = MilpClaim::stopped;
    } else if (code == GLP_EMIPGAP) {
      claim_ = MilpClaim::optimal;
    } else if (code == 0 && status == GLP_OPT) {
      claim_ = MilpClaim::optimal;
      bound_ = glp_mip_obj_val(problem);
    } else if (code == 0 && status == GLP_NOFEAS) {
      claim_ = MilpClaim::infeasible;
    } else {
      claim_ = MilpClaim::failed;
      std::snprintf(message_, sizeof message_, "GLPK: glp_intopt returned %d", code);
    }
  }

  /// GLPK's callback, at every step of its search.
  void look(glp_tree* tree) {
    glp_prob* const problem = glp_ios_get_prob(tree);
    if (glp_ios_reason(tree) == GLP_ISELECT) {
      const int best = glp_ios_best_node(tree);
      // A node whose relaxation is not solved yet states none.
      if (best != 0) bound_ = sign_ * std::max(sign_ * bound_, sign_ * glp_ios_node_bound(tree, best));
      int total = 0;
      glp_ios_tree_size(tree, nullptr, nullptr, &total);
      nodes_ = total;
    }
    if (glp_ios_reason(tree) == GLP_IHEUR && !started_) {
      started_ = true;
      if (search_.has_best()) {
        std::copy(search_.best().begin(), search_.best().end(), point_.begin() + 1);
        glp_ios_heur_sol(tree, point_.data());
      }
    }
    const bool found = glp_mip_status(problem) == GLP_FEAS || glp_mip_status(problem) == GLP_OPT;
    if (found && (std::isnan(taken_) || sign_ * glp_mip_obj_val(problem) < sign_ * taken_))
      take_incumbent(problem);
    if (search_.should_stop()) glp_ios_terminate(tree);
  }

  const MilpModel& model_;
  const MilpOptions& options_;
  MilpSearch search_;
  std::vector<double> point_;  // [1 + variable]
  std::size_t longest_ = 0;    // row
  std::vector<int> index_;
  std::vector<double> value_;
  double sign_ = 1.0;
  double bound_ = 0.0;
  double taken_ = std::numeric_limits<double>::quiet_NaN();  // objective of the latest solution offered
  bool started_ = false;
  std::int64_t nodes_ = 0;
  MilpClaim claim_ = MilpClaim::failed;
  char message_[256] = "";
};

}  // namespace detail

/// Solves a model by GLPK, which is under the GPL; so is a program that includes this header.
///
/// GLPK can't start from a solution, so the initial one is handed in at the first node. It uses one thread
/// and draws nothing at random, so it ignores the seed.
///
/// GLPK keeps its memory and settings per thread, so several threads can solve at once. Within its thread, a
/// solve removes terminal and error hooks that were set before; and if GLPK gives up with an error, all GLPK
/// objects of the thread are gone.
/// @throws InvalidInput if an option is impossible or the initial solution does not keep the model; and what
/// `on_incumbent` throws.
[[nodiscard]] inline MilpResult solve_glpk(const MilpModel& model, const MilpOptions& options = {}) {
  return detail::GlpkSolve(model, options).run(solve_glpk);
}

}  // namespace slimpack
