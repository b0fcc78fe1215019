#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/gpu.hpp"
#include "bench/gpu/stage_run.hpp"
#include "kernels/cuda/cuda_stage.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace slimpack::bench {

namespace {

using kernels::cuda::CudaStage;

double error_of(const Tensors& result, const Tensors& expected) {
  double off = 0.0, all = 0.0;
  for (const auto& [name, numbers] : expected) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double d = result.at(name)[i] - numbers[i];
      off += d * d;
      all += numbers[i] * numbers[i];
    }
  }
  return std::isfinite(off) ? std::sqrt(off / all) : INFINITY;
}

StageCase small_case(std::mt19937& random, std::int32_t dp, std::int32_t pp) {
  StageCase c;
  c.model = {"small", 2 * pp, 256, 4, 2, 64, 512, 1000};
  const Job job{c.model, device_preset("h100"), {.dp = dp, .pp = pp}};
  std::vector<Tokens> lengths{900};
  for (int i = 0; i < 9; ++i) lengths.push_back(20 + static_cast<Tokens>(random() % 300));
  c.options.init.deviation = 0.03;
  c.options.shard_optimiser = dp == 1;
  const CudaStage::Memory memory(c.model, split_layers(c.model.layers, pp), sizeof(float), c.options.stage,
                                 2.0);
  c.plan = plan_slimpack(lengths, job, CalibratedCost(job), memory, {.tile = 64, .merge = false});
  for (const Tokens length : c.plan.tokens) {
    for (Tokens t = 0; t < length; ++t) c.ids.add(static_cast<std::int32_t>(random() % 1000));
    c.ids.close();
  }
  return c;
}

/// How far weights are from those without, after four steps of which two are launched as captured before.
double graphs_error(StageCase c) {
  c.steps = 4;
  const Outcome with = run_stages<CudaStage>(c, [](std::size_t) {});
  c.options.stage.graphs = false;
  const Outcome without = run_stages<CudaStage>(c, [](std::size_t) {});
  for (const kernels::StepReport& report : with.reports) {
    if (report.graph_tasks != report.tasks.size()) return INFINITY;
  }
  return error_of(with.weights, without.weights);
}

}  // namespace

void check_stage(Checks& checks, unsigned seed) {
  std::mt19937 random(seed);
  for (const std::int32_t pp : {1, 3}) {
    for (const std::int32_t dp : {1, 2}) {
      const StageCase c = small_case(random, dp, pp);
      const Outcome result = run_stages<CudaStage>(c, [](std::size_t) {}), expected = run_reference(c);
      checks.add("a step's loss", std::abs(result.loss - expected.loss) / std::abs(expected.loss));
      checks.add("a step's gradients", error_of(result.gradients, expected.gradients));
      checks.add("weights after a step", error_of(result.weights, expected.weights));
      checks.add("weights after steps of graphs", graphs_error(c));
    }
  }
}

}  // namespace slimpack::bench
