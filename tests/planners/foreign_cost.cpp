// A user's own model of time, with nothing that the library's has beyond the concept: no closed form, no
// context parallelism, no recomputation. Times come from a table, as a profiler writes it.

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "oracle.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

namespace foreign {

struct ProfiledStage {
  double forward_milliseconds_per_1k = 0.0;
  double slowdown_per_1k = 0.0;  ///< of a token, by its position
};

/// Superquadratic in the position, so that nothing may assume a polynomial of degree two.
struct ProfiledTimes {
  std::array<ProfiledStage, 3> profile{{{4.0, 0.02}, {4.0, 0.02}, {5.5, 0.02}}};

  unsigned stages() const { return 3; }
  float slice_seconds(std::size_t stage, slimpack::Tokens begin, slimpack::Tokens end,
                      slimpack::Pass pass) const {
    const ProfiledStage& p = profile[stage];
    const auto until = [&](slimpack::Tokens token) {
      const double x = static_cast<double>(token) * 1e-3;
      return x + p.slowdown_per_1k * std::pow(x, 2.5);
    };
    const double passes = pass == slimpack::Pass::forward ? 1.0 : 2.1;
    return static_cast<float>(1e-3 * p.forward_milliseconds_per_1k * passes * (until(end) - until(begin)));
  }
  double pack_seconds(std::size_t, slimpack::Pass) const { return 2e-4; }
  double transfer_seconds(std::size_t, slimpack::Tokens tokens, slimpack::Pass) const {
    return 1e-5 + 1e-8 * static_cast<double>(tokens);
  }
};

/// Bytes that do not depend on recomputation, because there is none.
struct FixedBytes {
  double capacity = 0.0;

  double capacity_bytes() const { return capacity; }
  double static_bytes(std::size_t stage) const { return stage == 0 ? 3e9 : 2e9; }
  double activation_bytes(std::size_t, int) const { return 40e3; }
  double kv_gradient_bytes(std::size_t) const { return 4e3; }
  double workspace_bytes(std::size_t, slimpack::Pass, slimpack::Tokens tokens, int) const {
    return 1e4 * static_cast<double>(tokens);
  }
};

/// Can't be assigned, and is merged all the same.
struct PinnedCost {
  const slimpack::CalibratedCost cost;
  const double share = 1.0;         ///< of the model's seconds
  const double merged_extra = 0.0;  ///< seconds more of a merged slice
  const double extra = 0.0;

  std::size_t stages() const { return cost.stages(); }
  double slice_seconds(std::size_t stage, slimpack::Tokens begin, slimpack::Tokens end,
                       slimpack::Pass pass) const {
    return share * cost.slice_seconds(stage, begin, end, pass) + extra;
  }
  double pack_seconds(std::size_t stage, slimpack::Pass pass) const { return cost.pack_seconds(stage, pass); }
  double transfer_seconds(std::size_t stage, slimpack::Tokens tokens, slimpack::Pass pass) const {
    return cost.transfer_seconds(stage, tokens, pass);
  }
  bool supports_context_parallel(std::int32_t group) const { return cost.supports_context_parallel(group); }
  PinnedCost with_context_parallel(std::int32_t group) const {
    return {cost.with_context_parallel(group), share, merged_extra, merged_extra};
  }
};

}  // namespace foreign

static_assert(slimpack::CostModel<foreign::ProfiledTimes>);
static_assert(!slimpack::MergeableCostModel<foreign::ProfiledTimes>);
static_assert(!slimpack::RecomputingCostModel<foreign::ProfiledTimes>);
static_assert(!slimpack::PolynomialCostModel<foreign::ProfiledTimes>);
static_assert(slimpack::MemoryModel<foreign::FixedBytes>);

using namespace slimpack;

namespace {

Job job_of(std::int32_t dp) {
  std::mt19937 random(1);
  Job job = oracle::random_job(random, dp, 80e9);
  job.model.layers = 6;
  job.layout.pp = 3;
  return job;
}

void check(const Plan& plan, const foreign::FixedBytes& memory) {
  CHECK(violations(plan).empty());
  CHECK(plan.step.pipeline_seconds == Approx(slimpack::testing::naive_seconds(plan)).epsilon(1e-9));
  CHECK(plan.step.sync_seconds == 0.0);
  CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
  const auto naive = slimpack::testing::naive_peak_bytes(plan, memory);
  for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < 3; ++s) {
      CHECK(plan.step.peak_bytes[p][s] == Approx(naive[p][s]).epsilon(1e-6));
      CHECK(plan.step.peak_bytes[p][s] <= memory.capacity);
    }
  }
  for (const std::int32_t layers : plan.backward.recompute_layers.values()) CHECK(layers == 0);
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) CHECK(plan.forward.pipelines[k].size() == 1);
}

}  // namespace

TEST_CASE("planners work with a user's own cost and memory model") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto dp = static_cast<std::int32_t>(1 + seed % 4);
    const std::vector<Tokens> lengths = oracle::random_lengths(random, 40, static_cast<int>(seed % 4), 30000);
    const foreign::FixedBytes memory{.capacity = 80e9};
    const Plan ours = plan_slimpack(lengths, job_of(dp), foreign::ProfiledTimes{}, memory);
    check(ours, memory);
    check(plan_megatron(lengths, job_of(dp), foreign::ProfiledTimes{}, memory), memory);
    CHECK(ours.step.lower_bound_seconds > 0.0);
  }
}

TEST_CASE("a model that can't be assigned is planned with, merged samples too") {
  std::vector<Tokens> lengths(40, 500);
  lengths.push_back(60000);
  const Job job = job_of(4);
  const foreign::FixedBytes memory{.capacity = 80e9};
  const Plan plan = plan_slimpack(lengths, job, foreign::PinnedCost{CalibratedCost(job)}, memory);
  CHECK(violations(plan).empty());
  CHECK(plan.forward.pipelines[0].size() > 1);
  const auto refused = [&](const foreign::PinnedCost& cost, const std::string& text) {
    CHECK_THROWS_WITH(plan_slimpack(lengths, job, cost, memory), Catch::Contains(text));
  };
  for (const double bad : {std::nan(""), -1e3})
    refused({CalibratedCost(job), 1.0, bad},
            "seconds for sample 40 of 60000 tokens on each of 2 merged pipelines");
  for (const double extra : {0.0, 1e-3})
    refused({CalibratedCost(job), 0.0, extra}, "0 seconds for all 41 samples; expected some work");
}

TEST_CASE("without recomputation a small memory shortens the lead") {
  std::mt19937 random(5);
  const std::vector<Tokens> lengths = oracle::random_lengths(random, 60, 0, 30000);
  const SlimPackOptions options{.packs = 24};
  const foreign::FixedBytes roomy{.capacity = 80e9};
  const Plan wide = plan_slimpack(lengths, job_of(1), foreign::ProfiledTimes{}, roomy, options);
  double most = 0.0;
  for (const double bytes : wide.step.peak_bytes[0]) most = std::max(most, bytes);

  const foreign::FixedBytes tight{.capacity = most - 1e7};
  const Plan narrow = plan_slimpack(lengths, job_of(1), foreign::ProfiledTimes{}, tight, options);
  check(narrow, tight);
  CHECK(narrow.pipelines[0].order != wide.pipelines[0].order);
  CHECK(narrow.step.seconds >= wide.step.seconds);
}

TEST_CASE(
    "without merging a sample that memory can't hold is refused with the one pipeline there is for it") {
  const std::vector<Tokens> lengths{5000, 30000, 400};
  const foreign::FixedBytes memory{.capacity = 3.5e9};
  CHECK_THROWS_WITH(plan_slimpack(lengths, job_of(2), foreign::ProfiledTimes{}, memory),
                    Catch::Contains("sample 1 has 30000 tokens") && Catch::Contains("on 1 pipeline"));
  CHECK_THROWS_WITH(plan_megatron(lengths, job_of(2), foreign::ProfiledTimes{}, memory),
                    Catch::Contains("do not fit"));
}

TEST_CASE("a cost model that gives no durations is refused") {
  struct Broken {
    double slice = 0.0, pack = 0.0, transfer = 0.0;
    foreign::ProfiledTimes times = {};

    std::size_t stages() const { return times.stages(); }
    double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
      const double seconds = times.slice_seconds(stage, begin, end, pass);
      return stage == 1 && end > 400 && pass == Pass::backward ? seconds + slice : seconds;
    }
    double pack_seconds(std::size_t stage, Pass) const { return 1e-4 + (stage == 2 ? pack : 0.0); }
    double transfer_seconds(std::size_t, Tokens, Pass) const { return transfer; }
  };
  const std::vector<Tokens> lengths{300, 400, 5000, 30};
  const foreign::FixedBytes memory{.capacity = 80e9};
  const auto refused = [&](const Broken& cost, const std::string& text) {
    CHECK_THROWS_WITH(plan_slimpack(lengths, job_of(2), cost, memory), Catch::Contains(text));
    CHECK_THROWS_WITH(plan_megatron(lengths, job_of(2), cost, memory), Catch::Contains(text));
  };
  CHECK(violations(plan_slimpack(lengths, job_of(2), Broken{}, memory)).empty());
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {infinite, std::nan(""), -1e9}) {
    refused({.slice = bad}, " tokens, backward on stage 1; expected");
    refused({.pack = bad}, " seconds for the constant of a forward pack on stage 2; expected");
    refused({.transfer = bad},
            " seconds for a forward transfer of one token between stages 0 and 1; expected");
  }
}
