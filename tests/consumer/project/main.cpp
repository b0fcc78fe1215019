// Plans a batch, and uses each optional part that came along.
#include <cstdio>
#include <numeric>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/html.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/version.hpp"

#ifdef CONSUMER_JSON
#include "slimpack/plan/json.hpp"
#endif
#ifdef CONSUMER_EIGEN
#include "slimpack/cost/fit.hpp"
#endif
#ifdef CONSUMER_BOOST
#include "slimpack/dag/boost.hpp"
#endif
#ifdef CONSUMER_GLPK
#include "slimpack/milp/glpk.hpp"
#endif
#ifdef CONSUMER_CBC
#include "slimpack/milp/cbc.hpp"
#endif
#ifdef CONSUMER_HIGHS
#include "slimpack/milp/highs.hpp"
#endif

static_assert(__cplusplus >= 202002L, "slimpack::slimpack asks for C++20");
static_assert(slimpack::version_major > 0 || slimpack::version_minor > 0, "a version");

int main() {
  const std::vector<slimpack::Tokens> lengths{20000, 3000, 500};
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-7b"),
                          .device = slimpack::device_preset("h100"),
                          .layout = {.dp = 1, .tp = 8, .pp = 2}};
  slimpack::Plan plan = slimpack::plan_slimpack(lengths, job);
#ifdef CONSUMER_JSON
  plan = slimpack::read_json(slimpack::to_json(plan));
#endif
#ifdef CONSUMER_GLPK
  if (slimpack::solve_glpk(slimpack::MilpModel()).status != slimpack::SolveStatus::optimal) return 1;
#endif
#ifdef CONSUMER_CBC
  if (slimpack::solve_cbc(slimpack::MilpModel()).status != slimpack::SolveStatus::optimal) return 1;
#endif
#ifdef CONSUMER_HIGHS
  if (slimpack::solve_highs(slimpack::MilpModel()).status != slimpack::SolveStatus::optimal) return 1;
#endif
  slimpack::Tokens tokens = 0;
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) tokens += count_tokens(plan.forward.packs[k]);
  std::printf("%lld tokens in %.3f s\n", static_cast<long long>(tokens), plan.step.seconds);
  return tokens == std::accumulate(lengths.begin(), lengths.end(), slimpack::Tokens{0}) ? 0 : 1;
}
