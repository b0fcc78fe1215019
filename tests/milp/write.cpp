#include "slimpack/milp/write.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/milp/exhaustive.hpp"

#ifdef SLIMPACK_TEST_GLPK
#include <glpk.h>
#endif
#ifdef SLIMPACK_TEST_CBC
#include <coin/Cbc_C_Interface.h>
#endif
#ifdef SLIMPACK_TEST_HIGHS
#include <interfaces/highs_c_api.h>
#endif

using namespace slimpack;

namespace {

/// What a solver makes of a file: its optimum, or nothing if there is no solution.
struct Reader {
  const char* name;
  std::function<std::optional<double>(const std::string& path, bool lp)> optimum;
};

#ifdef SLIMPACK_TEST_GLPK
std::optional<double> optimum_by_glpk(const std::string& path, bool lp) {
  glp_term_out(GLP_OFF);
  glp_prob* const problem = glp_create_prob();
  const int code = lp ? glp_read_lp(problem, nullptr, path.c_str())
                      : glp_read_mps(problem, GLP_MPS_FILE, nullptr, path.c_str());
  REQUIRE(code == 0);
  glp_iocp parameters;
  glp_init_iocp(&parameters);
  parameters.presolve = GLP_ON;
  const int ran = glp_intopt(problem, &parameters);
  std::optional<double> objective;
  if (ran == 0 && glp_mip_status(problem) == GLP_OPT) objective = glp_mip_obj_val(problem);
  glp_delete_prob(problem);
  return objective;
}
#endif

#ifdef SLIMPACK_TEST_CBC
std::optional<double> optimum_by_cbc(const std::string& path, bool lp) {
  Cbc_Model* const model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  REQUIRE((lp ? Cbc_readLp(model, path.c_str()) : Cbc_readMps(model, path.c_str())) == 0);
  Cbc_solve(model);
  std::optional<double> objective;
  if (Cbc_isProvenOptimal(model) != 0) objective = Cbc_getObjValue(model);
  Cbc_deleteModel(model);
  return objective;
}
#endif

#ifdef SLIMPACK_TEST_HIGHS
std::optional<double> optimum_by_highs(const std::string& path, bool) {
  void* const highs = Highs_create();
  Highs_setBoolOptionValue(highs, "output_flag", 0);
  REQUIRE(Highs_readModel(highs, path.c_str()) != kHighsStatusError);
  Highs_run(highs);
  std::optional<double> objective;
  if (Highs_getModelStatus(highs) == kHighsModelStatusOptimal) objective = Highs_getObjectiveValue(highs);
  Highs_destroy(highs);
  return objective;
}
#endif

std::vector<Reader> readers() {
  std::vector<Reader> all;
#ifdef SLIMPACK_TEST_GLPK
  all.push_back({"GLPK", optimum_by_glpk});
#endif
#ifdef SLIMPACK_TEST_CBC
  all.push_back({"CBC", optimum_by_cbc});
#endif
#ifdef SLIMPACK_TEST_HIGHS
  all.push_back({"HiGHS", optimum_by_highs});
#endif
  return all;
}

/// Writes a file that is deleted at the end of the scope.
struct File {
  std::string path;
  File(const std::string& text, const char* extension)
      : path(std::filesystem::temp_directory_path() /
             ("slimpack_write_" + std::to_string(::getpid()) + extension)) {
    std::ofstream(path) << text;
  }
  ~File() { std::remove(path.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

/// Every reader finds the model itself in both of its files.
void check_files(const MilpModel& model, std::optional<double> optimum) {
  for (const bool lp : {true, false}) {
    const std::string text = lp ? to_lp(model) : to_mps(model);
    const File file(text, lp ? ".lp" : ".mps");
    for (const Reader& reader : readers()) {
      INFO(reader.name << " reads\n" << text);
      const auto read = reader.optimum(file.path, lp);
      REQUIRE(read.has_value() == optimum.has_value());
      // MPS files minimise.
      if (read) CHECK((!lp && !model.minimises() ? -*read : *read) == Approx(*optimum).margin(1e-9));
    }
  }
}

}  // namespace

TEST_CASE("solvers read from files what models say") {
  int solved = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    const MilpModel model = test::random_model(seed);
    INFO("seed " << seed << "\n" << test::print(model));
    const auto best = test::best_objective(model);
    check_files(model, best);
    if (best) ++solved;
  }
  CHECK(solved > 20);
}

TEST_CASE("files know every kind of bound") {
  MilpModel model;
  const VariableId a = model.add_variable("a", -no_bound, no_bound);
  const VariableId b = model.add_variable("b", -no_bound, -2.5);
  const VariableId c = model.add_variable("c", -7.25, no_bound);
  const VariableId d = model.add_variable("d", 0.0, no_bound, VariableKind::integer);
  const VariableId e = model.add_variable("e", -no_bound, 4.0, VariableKind::integer);
  const VariableId f = model.add_variable("f", 1.0, 1.0, VariableKind::binary);
  const VariableId g = model.add_variable("g", -3.0, -1.0, VariableKind::integer);
  model.add_row("", -9.5, no_bound, {{a, 1.0}});
  model.add_row("", -20.0, 3.0, {{b, 1.0}, {g, 0.5}});
  model.add_row("", -no_bound, 8.5, {{d, 1.0}, {e, 1.0}});
  model.add_row("", 2.0, no_bound, {{d, 1.0}, {e, 0.125}});
  model.set_objective(Direction::minimise,
                      {{a, 1.0}, {b, 2.0}, {c, 1.0}, {d, -1.0}, {e, -2.0}, {f, 100.0}, {g, 3.0}}, 0.1);
  // a = -9.5, b = -18.5, c = -7.25, d = e = 4, f = 1, g = -3
  check_files(model, 25.35);
}

TEST_CASE("files have constants, empty rows and empty objectives") {
  MilpModel model;
  const VariableId x = model.add_variable("x", 0.0, 4.0);
  check_files(model, 0.0);
  model.set_objective(Direction::maximise, {{x, 0.5}}, -3.25);
  check_files(model, -1.25);
  model.add_row("nothing", -1.0, 1.0, {});
  check_files(model, -1.25);
}

TEST_CASE("names are made unique and readable") {
  MilpModel model;
  std::vector<Term> sum;
  const std::vector<const char*> names{
      "x", "x", "x_1",   "",   "3",   "e5",     "a b", "a+b", "free",   "ST", "x3",    "one",    "inf",
      "é", "_", "[1,2]", "x:", "Max", "Binary", "END", "end", "bounds", "<=", "\\com", "general"};
  for (const char* name : names) sum.push_back({model.add_binary(name), 1.0});
  sum.push_back({model.add_binary(std::string(300, 'y')), 1.0});
  sum.push_back({model.add_binary(std::string(300, 'y')), 1.0});
  model.set_objective(Direction::maximise, sum, 5.0);
  const auto count = static_cast<double>(sum.size());
  for (const char* name : {"objective", "objective", "", "x", "a_low", "a", "r3", "st", "RHS"})
    model.add_row(name, 1.0, count - 2.5, sum);
  check_files(model, count - 3.0 + 5.0);
}

TEST_CASE("numbers read back the same") {
  MilpModel model;
  const VariableId x = model.add_variable("x", 0.1, 1.0 / 3.0);
  model.set_objective(Direction::maximise, {{x, 1.0}});
  for (const std::string& text : {to_lp(model), to_mps(model)}) {
    INFO(text);
    const std::size_t at = text.find("0.333");
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(text.substr(at)) == 1.0 / 3.0);
  }
}
