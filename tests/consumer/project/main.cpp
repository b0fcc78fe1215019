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
#ifdef CONSUMER_KERNELS
#include <cmath>

#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#endif
#ifdef CONSUMER_MPI
#include "kernels/transport/mpi.hpp"
#endif

static_assert(__cplusplus >= 202002L, "slimpack::slimpack asks for C++20");
static_assert(slimpack::version_major > 0 || slimpack::version_minor > 0, "a version");

#ifdef CONSUMER_KERNELS
/// Trains a small model for a step, on a thread for each of two stages.
bool trains() {
  const slimpack::Transformer model{"small", 2, 8, 2, 1, 4, 12, 10};
  const slimpack::Job job{.model = model, .device = slimpack::device_preset("cpu"), .layout = {.pp = 2}};
  const slimpack::kernels::CpuMemory memory(model, std::vector<std::int32_t>{1, 1}, sizeof(float));
  const std::vector<slimpack::Tokens> lengths{20, 7};
  const slimpack::Plan plan = slimpack::plan_slimpack(lengths, job, slimpack::CalibratedCost(job), memory);
  slimpack::Ragged<std::int32_t> ids;
  for (const slimpack::Tokens length : plan.tokens) ids.add_row(static_cast<std::size_t>(length), 3);
  double loss = 0.0;
  slimpack::kernels::run_in_process(2, [&](slimpack::kernels::InProcessTransport& t) {
    slimpack::kernels::RankExecutor<slimpack::kernels::CpuStage<float>, slimpack::kernels::InProcessTransport>
        rank(t, model, plan);
    const double own = rank.step(plan, ids).loss;
    if (t.rank() == 0) loss = own;
  });
  return std::abs(loss - std::log(10.0)) < 0.1;
}
#endif

int main() {
#ifdef CONSUMER_KERNELS
  if (!trains()) return 1;
#endif
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
