#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "tests/kernels/executor_case.hpp"

// Runs cases on threads of this process.
namespace slimpack::testing {

template <class Real>
using Executor = kernels::RankExecutor<kernels::CpuStage<Real>, kernels::InProcessTransport>;

/// What a run ends with, by rank.
struct Trained {
  std::vector<kernels::StepReport> reports;  ///< of the last step
  Tensors weights;
  std::map<std::size_t, Tensors> gradients;

  [[nodiscard]] std::vector<double> losses() const {
    std::vector<double> out;
    for (const kernels::StepReport& report : reports) out.push_back(report.loss);
    return out;
  }
};

/// Runs a case.
template <class Real>
[[nodiscard]] Trained trained(const ExecutorCase& c, const kernels::InProcessOptions& transport = {}) {
  std::mutex mutex;
  Trained result;
  result.reports.resize(rank_count(c.plan));
  kernels::run_in_process(
      rank_count(c.plan),
      [&](kernels::InProcessTransport& t) {
        Executor<Real> executor(t, c.model, c.plan, c.options);
        for (int step = 0; step < c.steps; ++step) result.reports[t.rank()] = executor.step(c.plan, c.ids);
        const std::scoped_lock lock(mutex);
        collect(executor.stage().weights(), result.weights, result.gradients[t.rank()]);
      },
      transport);
  return result;
}

/// Runs a case and compares it with its reference.
template <class Real>
Trained run_and_compare(const ExecutorCase& c, const Reference& reference,
                        const kernels::InProcessOptions& transport = {}) {
  Trained run = trained<Real>(c, transport);
  Tensors gradients;
  for (const auto& [rank, tensors] : run.gradients) {
    merge(tensors, gradients, !c.options.shard_optimiser);  // the sum over all, of the same bits
  }
  c.check<Real>(run.losses(), run.weights, gradients, reference);
  return run;
}

template <class Real>
Trained run_and_compare(const ExecutorCase& c, const kernels::InProcessOptions& transport = {}) {
  return run_and_compare<Real>(c, c.reference(), transport);
}

}  // namespace slimpack::testing
