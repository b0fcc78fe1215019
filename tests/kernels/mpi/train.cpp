// Training runs over MPI; train_main.cpp makes this process one of their ranks.
#include "tests/kernels/mpi/train.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/executor.hpp"
#include "tests/kernels/executor_case.hpp"
#include "tests/kernels/tensor_case.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::ExecutorCase, slimpack::testing::PlanKind, slimpack::testing::Reference,
    slimpack::testing::Tensors, slimpack::testing::own_rank;

namespace {

/// Every rank compares its own weights with the reference.
template <class Real>
void run_and_compare(const ExecutorCase& c, const Reference& reference) {
  RankExecutor<CpuStage<Real>, MpiTransport> executor(*own_rank, c.model, c.plan, c.options);
  std::vector<double> losses;
  for (int step = 0; step < c.steps; ++step) losses = {executor.step(c.plan, c.ids).loss};
  Tensors weights, gradients;
  slimpack::testing::collect(executor.stage().weights(), weights, gradients);
  c.check<Real>(losses, weights, gradients, reference);
}

}  // namespace

TEST_CASE("tensor-parallel processes train as the plain transformer does") {
  for (std::size_t i = 0; i < slimpack::testing::all_pipelines.size(); ++i) {
    for (unsigned seed = 1; seed <= 2; ++seed) {
      const ExecutorCase c = slimpack::testing::tensor_case(slimpack::testing::all_pipelines[i], seed);
      if (rank_count(c.plan) != own_rank->size()) continue;
      INFO("rank " << own_rank->rank() << ", pipelines " << i << ", seed " << seed);
      run_and_compare<double>(c, c.reference());
    }
  }
}

TEST_CASE("processes train as the plain transformer does") {
  int merged = 0;
  for (const PlanKind kind : slimpack::testing::all_plan_kinds) {
    const bool any_ranks =
        kind != PlanKind::unequal && kind != PlanKind::overlapping && kind != PlanKind::chunks;
    if (!any_ranks && own_rank->size() < 4) continue;                 // they have three at least
    if (kind == PlanKind::elastic && own_rank->size() > 4) continue;  // they have four at most
    for (unsigned i = 0; i < (own_rank->size() > 4 ? 1U : 2U); ++i) {
      ExecutorCase c = slimpack::testing::executor_case(kind, i, own_rank->size());
      INFO("rank " << own_rank->rank() << ", " << slimpack::testing::name(kind) << " plan of seed "
                   << c.seed);
      c.steps = kind == PlanKind::by_hand ? 5 : 1;
      for (std::size_t k = 0; k < c.plan.forward.packs.size(); ++k)
        merged += c.plan.forward.pipelines[k].size() > 1;
      const Reference reference = c.reference();
      run_and_compare<double>(c, reference);
      run_and_compare<float>(c, reference);
    }
  }
  CHECK(merged > 0);
}
