#include "slimpack/milp/model.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "slimpack/milp/check.hpp"

using namespace slimpack;

namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// max 3x + 2y + 1 with x + y <= 4, x - y >= -1.5, x integer from 0 to 3, y from 0.
MilpModel sample() {
  MilpModel model;
  const VariableId x = model.add_variable("x", -0.5, 3.7, VariableKind::integer);
  const VariableId y = model.add_variable("y", 0.0, no_bound);
  model.add_row("sum", -no_bound, 4.0, {{y, 1.0}, {x, 1.0}});
  model.add_row("", -1.5, no_bound, {{x, 1.0}, {y, -1.0}});
  model.set_objective(Direction::maximise, {{x, 3.0}, {y, 2.0}}, 1.0);
  return model;
}

}  // namespace

TEST_CASE("a model gives back what it was built of") {
  const MilpModel model = sample();
  CHECK(model.variables() == 2);
  CHECK(model.rows() == 2);
  CHECK(model.terms() == 4);
  CHECK(model.lower()[0] == 0.0);
  CHECK(model.upper()[0] == 3.0);
  CHECK(model.upper()[1] == no_bound);
  CHECK(model.is_integer(0));
  CHECK_FALSE(model.is_integer(1));
  CHECK(model.has_integers());
  CHECK(model.variable_name(1) == "y");
  CHECK(model.row_name(0) == "sum");
  CHECK(model.row_name(1).empty());
  CHECK(model.row_text(1) == "row 1");
  CHECK(model.row_text(0) == "row 0 (sum)");
  const auto row = model.row(0);
  CHECK(std::vector<Term>(row.begin(), row.end()) == std::vector<Term>{{0, 1.0}, {1, 1.0}});
  CHECK(model.direction() == Direction::maximise);
  CHECK(model.objective()[0] == 3.0);
  CHECK(model.objective_constant() == 1.0);
}

TEST_CASE("a later objective replaces the one before, and zeros are left out of rows") {
  MilpModel model = sample();
  model.set_objective(Direction::minimise, {{1, 5.0}});
  CHECK(model.objective()[0] == 0.0);
  CHECK(model.objective()[1] == 5.0);
  CHECK(model.objective_constant() == 0.0);
  CHECK(model.minimises());
  const RowId row = model.add_row("r", 0.0, 1.0, {{0, 0.0}, {1, 2.0}});
  CHECK(model.row(row).size() == 1);
}

TEST_CASE("points are checked against bounds, integrality and rows, in this order") {
  const MilpModel model = sample();
  CHECK_FALSE(find_violation(model, std::vector<double>{2.0, 2.0}));
  CHECK(objective_value(model, std::vector<double>{2.0, 2.0}) == 11.0);
  using Kind = MilpViolation::Kind;
  const auto violation = [&](double x, double y) { return find_violation(model, std::vector<double>{x, y}); };
  CHECK(violation(-1.0, 9.0) == MilpViolation{Kind::bound, 0, -1.0});
  CHECK(violation(0.5, 9.0) == MilpViolation{Kind::integrality, 0, 0.5});
  CHECK(violation(3.0, 2.0) == MilpViolation{Kind::row, 0, 5.0});
  CHECK(violation(1.0, 2.6) == MilpViolation{Kind::row, 1, -1.6});
  CHECK(violation(2.0, undefined)->kind == Kind::bound);
  CHECK(violation(2.0, no_bound)->kind == Kind::bound);
  CHECK_FALSE(violation(2.0 + 1e-7, 2.0));
  CHECK(violation(2.0 + 1e-5, 2.0));
  CHECK(find_violation(model, std::vector<double>{2.0 + 1e-7, 2.0}, 1e-9));
  CHECK(describe(model, *violation(3.0, 2.0)) == "row 0 (sum) is 5; expected -inf to 4");
  CHECK(describe(model, *violation(0.5, 1.0)) == "variable 0 (x) is 0.5; expected an integer");
  CHECK(describe(model, *violation(-1.0, 1.0)) == "variable 0 (x) is -1; expected 0 to 3");
  CHECK_THROWS_WITH(find_violation(model, std::vector<double>{1.0}), Catch::Contains("1 values"));
  CHECK_THROWS_WITH(objective_value(model, std::vector<double>{1.0}), Catch::Contains("1 values"));
}

TEST_CASE("models refuse what no solver can work with, and stay as they are") {
  MilpModel model = sample();
  const auto integer = VariableKind::integer;
  CHECK_THROWS_WITH(model.add_variable("z", 1.0, 0.0),
                    Catch::Contains("variable 2 (z) has the bounds 1 and 0"));
  CHECK_THROWS_WITH(model.add_variable("z", undefined, 0.0), Catch::Contains("bounds nan and 0"));
  CHECK_THROWS_WITH(model.add_variable("z", no_bound, no_bound), Catch::Contains("bounds inf and inf"));
  CHECK_THROWS_WITH(model.add_variable("z", 0.0, 1e20), Catch::Contains("bound 1e+20"));
  CHECK_THROWS_WITH(model.add_variable("z", 0.2, 0.8, integer), Catch::Contains("integer from 0.2 to 0.8"));
  CHECK_THROWS_WITH(model.add_variable("z", 0.0, 2.0, VariableKind::binary),
                    Catch::Contains("within 0 to 1"));
  CHECK_THROWS_WITH(model.add_row("r", 0.0, 1.0, {{2, 1.0}}), Catch::Contains("row 2 (r) names variable 2"));
  CHECK_THROWS_WITH(model.add_row("r", 0.0, 1.0, {{1, 1.0}, {0, 1.0}, {1, 2.0}}),
                    Catch::Contains("variable 1 (y) twice"));
  CHECK_THROWS_WITH(model.add_row("r", 0.0, 1.0, {{1, undefined}}),
                    Catch::Contains("coefficient nan of variable 1"));
  CHECK_THROWS_WITH(model.add_row("r", 0.0, 1.0, {{1, no_bound}}), Catch::Contains("coefficient inf"));
  CHECK_THROWS_WITH(model.add_row("r", 0.0, 1.0, {{1, 1e15}}), Catch::Contains("coefficient 1e+15"));
  CHECK_THROWS_WITH(model.add_row("r", 0.0, 1.0, {{1, 1e-10}}), Catch::Contains("coefficient 1e-10"));
  CHECK_THROWS_WITH(model.add_row("r", 2.0, 1.0, {{1, 1.0}}), Catch::Contains("bounds 2 and 1"));
  CHECK_THROWS_WITH(model.add_row("r", -no_bound, no_bound, {{1, 1.0}}), Catch::Contains("no bound"));
  CHECK_THROWS_WITH(model.set_objective(Direction::minimise, {{7, 1.0}}),
                    Catch::Contains("the objective names variable 7"));
  CHECK_THROWS_WITH(model.set_objective(Direction::minimise, {}, undefined),
                    Catch::Contains("constant is nan"));
  CHECK_THROWS_WITH(model.set_initial_solution({1.0}), Catch::Contains("1 values"));
  CHECK_THROWS_WITH(model.set_initial_solution({1.0, undefined}), Catch::Contains("variable 1 (y) is nan"));
  CHECK(model.variables() == 2);
  CHECK(model.rows() == 2);
  CHECK(model.terms() == 4);
  CHECK(model.objective()[0] == 3.0);
  CHECK(model.initial_solution().empty());
}
