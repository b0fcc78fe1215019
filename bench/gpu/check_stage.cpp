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

/// @param merge whether there is a sample so long that pipelines have to run it together
/// @param head_dim numbers of a head
StageCase small_case(std::mt19937& random, std::int32_t dp, std::int32_t pp, bool merge = false,
                     std::int32_t head_dim = 64) {
  StageCase c;
  c.model = {"small", 2 * pp, 4 * head_dim, 4, 2, head_dim, 512, 1000};
  const Job job{c.model, device_preset("h100"), {.dp = dp, .pp = pp}};
  std::vector<Tokens> lengths{900};
  for (int i = 0; i < 9; ++i) lengths.push_back(20 + static_cast<Tokens>(random() % (merge ? 60 : 300)));
  c.options.init.deviation = 0.03;
  c.options.shard_optimiser = dp == 1;
  const CudaStage::Memory memory(c.model, split_layers(c.model.layers, pp), sizeof(float), c.options.stage,
                                 2.0);
  c.plan = plan_slimpack(lengths, job, CalibratedCost(job), memory, {.tile = 64, .merge = merge});
  for (const Tokens length : c.plan.tokens) {
    for (Tokens t = 0; t < length; ++t) c.ids.add(static_cast<std::int32_t>(random() % 1000));
    c.ids.close();
  }
  return c;
}

bool is_merged(const Plan& plan) {
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
    if (plan.forward.pipelines[k].size() > 1) return true;
  }
  return false;
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
  const auto check = [&](const StageCase& c, const std::string& kind) {
    const Outcome result = run_stages<CudaStage>(c, [](std::size_t) {}), expected = run_reference(c);
    checks.add("a " + kind + "step's loss", std::abs(result.loss - expected.loss) / std::abs(expected.loss));
    checks.add("a " + kind + "step's gradients", error_of(result.gradients, expected.gradients));
    checks.add("weights after a " + kind + "step", error_of(result.weights, expected.weights));
  };
  for (const std::int32_t pp : {1, 3}) {
    for (const std::int32_t dp : {1, 2}) {
      const StageCase c = small_case(random, dp, pp);
      check(c, "");
      checks.add("weights after steps of graphs", graphs_error(c));
    }
    StageCase c = small_case(random, 2, pp, true);
    require(is_merged(c.plan), "no pack is merged; expected some, of the longest sample");
    c.options.stage.merged = kernels::MergedAttention::heads;
    check(c, "merged (heads) ");
    c.options.stage.merged = kernels::MergedAttention::ring;
    c.options.stage.ring_tokens = 96;
    check(c, "merged (ring) ");
  }
  check(small_case(random, 2, 2, false, 128), "(heads of 128) ");
}

}  // namespace slimpack::bench
