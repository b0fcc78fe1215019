#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "slimpack/partition/pack_pipeline.hpp"
#include "slimpack/partition/packing_milp.hpp"
#include "tests/milp/solvers.hpp"
#include "tests/partition/pipeline_samples.hpp"

using namespace slimpack;

namespace {

/// Eq. 1's least objective by a solver: one program for each number of packs in appendix C's range; above it, the first number with
/// which the samples fit.
template <class Solve>
double least_objective(const test::PipelineSamples& c, Solve&& solve) {
  const Tokens all = std::accumulate(c.tokens.begin(), c.tokens.end(), Tokens{0});
  const auto samples = static_cast<Tokens>(c.tokens.size());
  const Tokens first = std::max(Tokens{1}, (all + c.kind.max_tokens - 1) / c.kind.max_tokens),
               last = std::max(first, std::min(all / c.useful_tokens, samples));
  double best = std::numeric_limits<double>::infinity();
  for (Tokens packs = first; packs <= last || (packs <= samples && best > 1e300); ++packs) {
    const auto v = static_cast<std::size_t>(packs);
    const auto solved = solve_packing(c.seconds, v, solve, {.limit = {c.tokens, c.kind.max_tokens}});
    if (solved.status == SolveStatus::infeasible) continue;
    REQUIRE(solved.status == SolveStatus::optimal);
    const double slowest = solved.assignment.makespan() + c.pack_seconds;
    best = std::min(best, static_cast<double>(c.kind.stages - 1 + v) * slowest);
  }
  return best;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE(
    "packings of a pipeline are as good as a solver's of Eq. 1, or state a gap that holds", "",
    test::Solvers) {
  int gaps = 0, above = 0;
  const unsigned cases = TestType::integers_alone ? 0 : 60;
  for (unsigned seed = 1; seed <= cases; ++seed) {
    INFO("seed " << seed);
    const test::PipelineSamples c = test::random_pipeline_samples(seed, 9);
    const double least = least_objective(c, TestType::solve);
    PackPipelineOptions options{.useful_tokens = c.useful_tokens, .gap = 0.0};
    const PipelinePacking exact = pack_pipeline(c.seconds, c.tokens, c.kind, c.pack_seconds, options);
    CHECK(exact.seconds == Approx(least).epsilon(1e-6));
    CHECK(exact.bound <= least * (1.0 + 1e-6));
    const Tokens all = std::accumulate(c.tokens.begin(), c.tokens.end(), Tokens{0});
    above += static_cast<Tokens>(exact.packs) > std::max(Tokens{1}, all / c.useful_tokens) ? 1 : 0;
    options.max_exchange_steps = options.max_exact_steps = 0;
    options.most_counts = 1;
    const PipelinePacking quick = pack_pipeline(c.seconds, c.tokens, c.kind, c.pack_seconds, options);
    CHECK(quick.seconds >= exact.seconds * (1.0 - 1e-9));
    CHECK(quick.bound <= exact.seconds * (1.0 + 1e-9));
    CHECK(quick.seconds <= exact.seconds * (1.0 + quick.gap()) * (1.0 + 1e-9));
    gaps += quick.gap() > 1e-6 ? 1 : 0;
  }
  CHECK((cases == 0 || gaps > 5));
  CHECK((cases == 0 || above > 0));
}
