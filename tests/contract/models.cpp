// The library's own models keep the contract that a user's model is examined by.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/check.hpp"
#include "slimpack/cost/conformance.hpp"
#include "slimpack/cost/measured.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/memory_conformance.hpp"
#include "tests/cost/random_jobs.hpp"
#include "tests/cost/random_profile.hpp"

#ifdef SLIMPACK_TEST_EIGEN
#include "slimpack/cost/fit.hpp"
#endif

using namespace slimpack;
using slimpack::testing::Random;

namespace {

void expect_none(const std::vector<std::string>& violations) {
  for (const std::string& violation : violations) FAIL_CHECK(violation);
}

}  // namespace

TEST_CASE("the calibrated model keeps the contract on any job") {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    auto [job, options, members] = testing::random_calibrated(random);
    if (random.chance(0.3)) options.offload = random.number(0.0, 1.0);
    const CalibratedCost cost(job, options);
    expect_none(check_cost_model(
        cost, {.seed = seed, .trials = 20, .longest = random.one_of<Tokens>({300, 1 << 20})}));
    const TransformerMemory memory(job, {.zero_stage = static_cast<int>(random.tokens(0, 3)),
                                         .offload = options.offload,
                                         .gathers_keys = random.chance(0.5)});
    expect_none(check_memory_model(memory, memory.layers(), {.seed = seed, .trials = 20}));
    CHECK_NOTHROW(check_models(cost, memory, layout_strategy(job)));
  }
}

TEST_CASE("the measured model keeps the contract with any profile") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Profile profile =
        random.chance(0.5) ? testing::gpu_machine(seed) : testing::machine(seed, random.chance(0.5));
    const std::vector<std::int32_t> layers =
        random.one_of<std::vector<std::int32_t>>({{5}, {2, 3}, {1, 0, 4}});
    const MeasuredCost cost(profile, testing::profiled_model(), layers,
                            {.exchange = random.chance(0.5) ? KeyExchange::ring : KeyExchange::all_to_all});
    expect_none(check_cost_model(cost, {.seed = seed, .trials = 20}));
  }
}

#ifdef SLIMPACK_TEST_EIGEN
TEST_CASE("the fitted model keeps the contract with any fit") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto fit = [&] {
      return QuadraticFit{random.chance(0.2) ? 0.0 : random.number(0.0, 1e-9),
                          random.chance(0.2) ? 0.0 : random.number(0.0, 1e-5), random.number(0.0, 1e-2)};
    };
    const FittedCost cost(fit(), fit(), 3, {random.number(1e8, 1e11), random.number(0.0, 1e-4)}, 8192.0);
    expect_none(check_cost_model(cost, {.seed = seed, .trials = 50}));
  }
}
#endif
