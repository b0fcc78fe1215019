#include "bench/gpu/stage_plans.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "bench/lengths.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace slimpack::bench {

using kernels::cuda::CudaStage;

const Device* preset_of(std::string_view gpu) {
  for (const auto& [part, preset] :
       {std::pair("H200", "h200"), {"H100", "h100"}, {"A100", "a100"}, {"A800", "a800"}}) {
    if (gpu.find(part) != std::string_view::npos) return &device_preset(preset);
  }
  return nullptr;
}

Transformer timed_model() {
  Transformer model = transformer_preset("llama-13b");
  model.layers = timed_layers;
  return model;
}

namespace {

/// Bytes of weights, moments and the arena of a step, as `DeviceStage` takes them.
double asked_bytes(const Plan& plan) {
  namespace cuda = kernels::cuda;
  const StageProgram program(plan, 0, timed_stage);
  const kernels::StagePart part = kernels::stage_part(plan.model, plan, 0, timed_stage);
  constexpr double moments = 2.0;
  const cuda::DeviceSizes<cuda::CudaDevice> sizes(sizeof(float), {}, moments);
  cuda::ArenaPlan arena(part, {});
  arena.begin_step(program);
  return sizes.held(part) + static_cast<double>(arena.bytes());
}

}  // namespace

StagePlans plan_stage(const Device& device, std::size_t samples, Tokens context) {
  const Job job{timed_model(), device, {.dp = 1, .pp = timed_stages}};
  const CudaStage::Memory memory(job.model, split_layers(job.model.layers, timed_stages), sizeof(float),
                                 {.limit_bytes = device.memory_bytes});
  StagePlans out{
      .lengths = ::bench::lengths(samples, context, "SLIMPACK_LENGTHS", "examples/data/github.train.txt"),
      .context = context,
      .plans = {}};
  const auto add = [&](const char* name, Plan plan) {
    const double bytes = memory_over_time(plan, time_plan(plan), memory).peak_bytes[0][timed_stage];
    const double asked = asked_bytes(plan);
    out.plans.push_back({name, std::move(plan), bytes, asked});
  };
  add("whole samples", plan_megatron(out.lengths, job, CalibratedCost(job), memory, {.context = context}));
  add("slices", plan_slimpack(out.lengths, job, CalibratedCost(job), memory, {.tile = 128, .merge = false}));
  return out;
}

StagePlans plan_long_tail(const Device& device) {
  constexpr std::size_t samples = 768;
  constexpr Tokens longest = 102400, least = 12800;
  for (Tokens context = longest;; context /= 2) {
    try {
      return plan_stage(device, samples, context);
    } catch (const InvalidInput& error) {
      if (context <= least) throw;
      std::printf("no plan for samples of up to %lld tokens: %s\n", static_cast<long long>(context),
                  error.what());
    }
  }
}

void print_plans(const StagePlans& plans) {
  const auto tokens = std::accumulate(plans.lengths.begin(), plans.lengths.end(), Tokens{0});
  std::printf("\n%zu samples, %lld tokens, the longest %lld (cut at %lld)\n\n", plans.lengths.size(),
              static_cast<long long>(tokens),
              static_cast<long long>(*std::max_element(plans.lengths.begin(), plans.lengths.end())),
              static_cast<long long>(plans.context));
  std::printf(
      "| plan | packs forward | backward | tasks of the stage | layers recomputed | simulated peak, GB | "
      "asked for |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const NamedPlan& p : plans.plans) {
    const StageProgram program(p.plan, 0, timed_stage);
    std::int32_t recomputed = 0;
    for (const StageTask& task : program.tasks()) recomputed = std::max(recomputed, task.recompute_layers);
    std::printf("| %s | %zu | %zu | %zu | %d | %.3f | %.3f (%+.2f %%) |\n", p.name.c_str(),
                p.plan.forward.packs.size(), p.plan.backward.packs.size(), program.tasks().size(), recomputed,
                p.simulated_bytes * 1e-9, p.asked_bytes * 1e-9,
                100 * (p.asked_bytes / p.simulated_bytes - 1));
  }
}

}  // namespace slimpack::bench
