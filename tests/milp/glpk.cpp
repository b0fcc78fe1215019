#ifdef SLIMPACK_TEST_GLPK
#include "slimpack/milp/glpk.hpp"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tests/milp/exhaustive.hpp"

using namespace slimpack;

namespace {

/// Two megabytes of rows.
MilpModel large_model() {
  MilpModel model;
  std::vector<Term> terms;
  for (int j = 0; j < 4000; ++j) terms.push_back({model.add_binary(), 1.0 + j % 7});
  for (int i = 0; i < 10; ++i) model.add_row("", -no_bound, 1000.0 + i, terms);
  model.set_objective(Direction::maximise, terms);
  return model;
}

}  // namespace

TEST_CASE("if GLPK gives up, the process and the initial solution survive") {
  // In a separate thread, because GLPK keeps its settings per thread.
  MilpModel model = large_model();
  MilpResult without, with, after;
  std::thread([&] {
    glp_init_env();
    glp_mem_limit(1);
    without = solve_glpk(model);
    model.set_initial_solution(std::vector<double>(model.variables(), 0.0));
    glp_init_env();
    glp_mem_limit(1);
    with = solve_glpk(model);
    after = solve_glpk(test::random_model(1));
  }).join();
  CHECK(without.status == SolveStatus::unknown);
  CHECK(without.limit == MilpLimit::failure);
  CHECK_THAT(without.message, Catch::Contains("memory allocation limit exceeded"));
  CHECK(with.status == SolveStatus::feasible);
  CHECK(with.limit == MilpLimit::failure);
  CHECK(with.objective == 0.0);
  CHECK(after.status == SolveStatus::optimal);
}

TEST_CASE("a solve leaves GLPK's terminal output and objects of its thread as they were") {
  bool on = false;
  int columns = 0;
  std::thread([&] {
    glp_term_out(GLP_ON);
    glp_prob* const mine = glp_create_prob();
    glp_add_cols(mine, 3);
    static_cast<void>(solve_glpk(test::random_model(1)));
    on = glp_term_out(GLP_ON) == GLP_ON;
    columns = glp_get_num_cols(mine);
    glp_delete_prob(mine);
    glp_free_env();
  }).join();
  CHECK(on);
  CHECK(columns == 3);
}
#endif
