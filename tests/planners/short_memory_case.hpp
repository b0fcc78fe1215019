#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "oracle.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/slimpack_options.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

// Random jobs in little memory, and what must hold of every plan.
namespace oracle {

using namespace slimpack;

struct ShortMemoryCase {
  std::vector<Tokens> lengths;
  Job job;
  SlimPackOptions options;
  MemoryOptions memory;
};

inline ShortMemoryCase short_memory_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  ShortMemoryCase c;
  const int dp = pick(1, 5);
  const auto samples = static_cast<std::size_t>(dp + pick(0, 40));
  c.lengths = oracle::random_lengths(random, samples, pick(0, 3), 900);
  c.memory.reserve_bytes = 0.0;
  c.job = oracle::random_job(random, dp, 1e9);
  // Just above what weights need, so that recomputation, shorter leads and merging all happen.
  const TransformerMemory roomy(c.job, c.memory);
  double fixed = 0.0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(c.job.layout.pp); ++s)
    fixed = std::max(fixed, roomy.static_bytes(s));
  c.job.device.memory_bytes = fixed + 2e6 * std::exp(0.8 * pick(0, 5));
  const Tokens tiles[] = {1, 16, 128};
  c.options = {.tile = tiles[pick(0, 2)],
               .asymmetric = pick(0, 3) != 0,
               .fill = pick(0, 3) != 0,
               .inject = pick(0, 3) != 0,
               .merge = pick(0, 3) != 0,
               .group_sizes = pick(0, 1) == 0 ? GroupSizes::any : GroupSizes::powers_of_two,
               .equal_packs = pick(0, 2) == 0,
               .packs = pick(0, 3) == 0 ? static_cast<std::size_t>(pick(1, 9)) : 0};
  return c;
}

template <MemoryModel M>
void check_plan(const Plan& plan, const M& memory) {
  CHECK(violations(plan).empty());
  for (const std::string& violation : violations(plan)) UNSCOPED_INFO(violation);
  CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
  CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
  CHECK(plan.step.lower_bound_seconds > 0.0);
  const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
  const auto naive = slimpack::testing::naive_peak_bytes(plan, memory);
  for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < plan.pipelines[p].stages(); ++s) {
      CHECK(plan.step.peak_bytes[p][s] == Approx(naive[p][s]).epsilon(1e-6));
      CHECK(plan.step.peak_bytes[p][s] == Approx(curves.peak_bytes[p][s]).epsilon(1e-6));
      CHECK(plan.step.peak_bytes[p][s] <= memory.capacity_bytes() * (1.0 + 1e-9));
    }
  }
}

}  // namespace oracle
