#include "slimpack/partition/packing_milp.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "slimpack/partition/capped_search.hpp"
#include "slimpack/partition/greedy.hpp"
#include "tests/effort.hpp"
#include "tests/milp/solvers.hpp"
#include "tests/partition/instances.hpp"

using namespace slimpack;

namespace {

struct Instance {
  std::vector<std::int64_t> sizes;
  std::vector<double> weights;
  std::size_t bins;
  std::int64_t capacity;

  [[nodiscard]] SizeLimit limit() const { return {sizes, capacity}; }
};

/// Documents by seed, with attention's work (Eq. 1) or with linear work added (Eq. 2): heavy or light
/// tails, the capacity tight or not.
Instance random_instance(unsigned seed, std::size_t most) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Instance instance;
  instance.bins = static_cast<std::size_t>(pick(1, 4));
  const auto count = static_cast<std::size_t>(pick(1, static_cast<std::int64_t>(most)));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double tail = std::lognormal_distribution<double>(6.0, 1.3)(random);
    const std::int64_t size =
        seed % 3 == 0 ? pick(500, 1000) : 1 + static_cast<std::int64_t>(std::min(tail, 1e5));
    instance.sizes.push_back(size);
    const auto d = static_cast<double>(size);
    instance.weights.push_back(seed % 2 == 0 ? d * d : d * d + 3000.0 * d);
    sum += size;
  }
  const std::int64_t longest = *std::max_element(instance.sizes.begin(), instance.sizes.end());
  const auto mean = static_cast<double>(sum) / static_cast<double>(instance.bins);
  const double slack = seed % 4 == 0 ? 2.0 : 1.0 + static_cast<double>(pick(0, 10)) / 100.0;
  instance.capacity = std::max(longest, static_cast<std::int64_t>(std::ceil(slack * mean)));
  return instance;
}

void check_solution(const Instance& instance, const PackingMilpResult& result) {
  REQUIRE(result.assignment.bin.size() == instance.sizes.size());
  CHECK(result.assignment.load == test::loads_of(instance.weights, result.assignment.bin, instance.bins));
  for (const std::int64_t filled : test::loads_of(instance.sizes, result.assignment.bin, instance.bins))
    CHECK(filled <= instance.capacity);
  CHECK(result.bound <= result.assignment.makespan());
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("packing by MILP alone, and the search of our own, are as good as trying everything",
                        "", test::Solvers) {
  if constexpr (!TestType::integers_alone) {
    int infeasible = 0;
    for (unsigned seed = 1; seed <= 200; ++seed) {
      const Instance instance = random_instance(seed, 8);
      INFO("seed " << seed << ", " << instance.bins << " bins of " << instance.capacity << ", sizes "
                   << test::print(instance.sizes));
      const double best =
          test::Exhaustive<double>{instance.weights, instance.bins, instance.sizes, instance.capacity}
              .solve();
      const PackingMilpResult result = solve_packing(
          instance.weights, instance.bins,
          [](const MilpModel& model, const MilpOptions& o) { return TestType::solve(model, o); },
          {.limit = instance.limit(), .warm_start_steps = 0});
      const auto own =
          capped_search(std::span<const double>(instance.weights), instance.limit(), instance.bins);
      CHECK(own.status == result.status);
      if (best < 0.0) {
        ++infeasible;
        CHECK(result.status == SolveStatus::infeasible);
        continue;
      }
      CHECK(own.assignment.makespan() == Approx(result.assignment.makespan()).epsilon(2e-6));
      REQUIRE(result.status == SolveStatus::optimal);
      check_solution(instance, result);
      CHECK(result.assignment.makespan() == Approx(best).epsilon(2e-6));
      CHECK(result.gap == 0.0);
    }
    CHECK(infeasible > 5);
    CHECK(infeasible < 120);
  }
}

TEMPLATE_LIST_TEST_CASE("packing by MILP agrees with branch and bound on larger cases", "", test::Solvers) {
  if constexpr (!TestType::integers_alone) {
    for (unsigned seed = 1; seed <= slimpack::testing::seeds(60, 15); ++seed) {
      const Instance instance = random_instance(seed, 14);
      INFO("seed " << seed << ", " << instance.bins << " bins of " << instance.capacity << ", sizes "
                   << test::print(instance.sizes));
      const auto exact = exact_assignment(instance.weights, instance.bins, {.limit = instance.limit()});
      REQUIRE(exact.status != SolveStatus::feasible);
      for (const std::uint64_t steps : {std::uint64_t{0}, std::uint64_t{20}}) {
        const PackingMilpResult result = solve_packing(
            instance.weights, instance.bins,
            [](const MilpModel& model, const MilpOptions& o) { return TestType::solve(model, o); },
            {.limit = instance.limit(), .warm_start_steps = steps});
        REQUIRE(result.status == exact.status);
        if (exact.status == SolveStatus::infeasible) continue;
        check_solution(instance, result);
        CHECK(result.assignment.makespan() == Approx(exact.assignment.makespan()).epsilon(2e-6));
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("without time, packing is as good as its start", "", test::Solvers) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    const Instance instance = random_instance(seed, 30);
    INFO("seed " << seed);
    const auto start =
        exact_assignment(instance.weights, instance.bins, {.max_steps = 50, .limit = instance.limit()});
    const PackingMilpResult result = solve_packing(
        instance.weights, instance.bins,
        [](const MilpModel& model, const MilpOptions& o) { return TestType::solve(model, o); },
        {.limit = instance.limit(), .solver = {.time_limit_seconds = 0.0}, .warm_start_steps = 50});
    CHECK(result.status == start.status);
    if (start.assignment.bin.empty()) continue;
    check_solution(instance, result);
    CHECK(result.assignment.makespan() <= start.assignment.makespan());
  }
}

TEST_CASE("any assignment is a solution of the packing model, its bins renumbered") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const auto weights = test::random_weights<double>(seed, 1 + random() % 20);
    const std::size_t bins = 1 + random() % 6;
    INFO("seed " << seed << ", " << bins << " bins, weights " << test::print(weights));
    const PackingModel packing(weights, bins);
    Assignment assignment{{}, std::vector<double>(bins, 0.0)};
    for (std::size_t i = 0; i < weights.size(); ++i)
      assignment.bin.push_back(static_cast<std::uint32_t>(random() % bins));
    assignment.load = test::loads_of(weights, assignment.bin, bins);
    const std::vector<double> values = packing.encode(assignment);
    REQUIRE_FALSE(find_violation(packing.model(), values, 1e-12));
    CHECK(objective_value(packing.model(), values) * packing.scale() >= assignment.makespan() * (1 - 1e-12));
    const Assignment decoded = packing.decode(values);
    CHECK(decoded.load == test::loads_of(weights, decoded.bin, bins));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j)
        CHECK((decoded.bin[i] == decoded.bin[j]) == (assignment.bin[i] == assignment.bin[j]));
    }
  }
}

TEST_CASE("a packing model has no more variables than symmetry needs") {
  const PackingModel packing(std::vector<double>{5.0, 9.0, 7.0, 1.0}, 3,
                             {std::vector<std::int64_t>{5, 9, 7, 1}, 12});
  CHECK(packing.scale() == 9.0);
  CHECK(packing.model().variables() == 1 + 1 + 2 + 3 + 3);
  CHECK(packing.model().rows() == 4 + 3 + 3);
  CHECK(packing.model().lower()[0] == 1.0);
  CHECK(packing.model().row_text(0) == "row 0 (item_1)");
}

TEST_CASE("packing refuses what makes no sense") {
  const std::vector<double> weights{1.0, 2.0};
  CHECK_THROWS_WITH(PackingModel(weights, 0), Catch::Contains("0 bins"));
  CHECK_THROWS_WITH(PackingModel(std::vector<double>{1.0, -2.0}, 2), Catch::Contains("item 1 is -2"));
  const std::vector<std::int64_t> sizes{5, 11};
  CHECK_THROWS_WITH(PackingModel(weights, 2, {sizes, 10}), Catch::Contains("item 1 is 11"));
  PackingModel packing(weights, 2);
  CHECK_THROWS_WITH(packing.set_initial({{0}, {}}), Catch::Contains("bins for 1 of 2"));
  CHECK_THROWS_WITH(packing.set_initial({{0, 2}, {}}), Catch::Contains("bin of item 1 is 2"));
  CHECK_THROWS_WITH(packing.decode(std::vector<double>{1.0}), Catch::Contains("1 values"));
}

TEST_CASE("a solver that finds nothing leaves a packing as good as its start") {
  std::vector<double> weights;
  for (int i = 0; i < 40; ++i) weights.push_back(2000.0 + (i * 7919) % 2003);
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const auto useless = [](const MilpModel& model, const MilpOptions& options) {
    CHECK_FALSE(model.initial_solution().empty());
    return MilpSearch(model, options).finish(MilpClaim::failed, unknown, 0, "no idea");
  };
  const PackingMilpResult result = solve_packing(weights, 7, useless, {.warm_start_steps = 100});
  const auto start = exact_assignment(weights, 7, {.max_steps = 100});
  REQUIRE(start.status == SolveStatus::feasible);
  CHECK(result.status == SolveStatus::feasible);
  CHECK(result.limit == MilpLimit::failure);
  CHECK(result.message == "no idea");
  CHECK(result.assignment.makespan() <= start.assignment.makespan());
  CHECK(result.bound >= makespan_lower_bound(weights, 7));
  const auto lost = [](const MilpModel& model, const MilpOptions& options) {
    return MilpSearch(model, options).finish(MilpClaim::stopped, unknown, 0);
  };
  const PackingMilpResult nothing = solve_packing(weights, 7, lost, {.warm_start_steps = 0});
  CHECK(nothing.status == SolveStatus::unknown);
  CHECK(nothing.assignment.bin.empty());
}

#ifdef SLIMPACK_TEST_GLPK
TEST_CASE("documents of one token are packed with one of a million") {
  std::vector<double> weights{1e12};
  std::vector<std::int64_t> sizes{1000000};
  for (int i = 0; i < 20; ++i) {
    weights.push_back(1.0);
    sizes.push_back(1);
  }
  const PackingMilpResult result =
      solve_packing(weights, 2, solve_glpk, {.limit = {sizes, 1000010}, .warm_start_steps = 0});
  CHECK(result.status == SolveStatus::optimal);
  CHECK(result.assignment.makespan() == Approx(1e12));
}
#endif
