// Plans one batch with SlimPack and prints what a trainer needs to know about it.
#include <cstdio>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

int main() {
  const std::vector<slimpack::Tokens> lengths{131072, 40960, 17000, 8200, 5000, 4096,
                                              3000,   2048,  1500,  900,  512,  77};
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-7b"),
                          .device = slimpack::device_preset("h100"),
                          .layout = {.dp = 2, .tp = 4, .pp = 4}};
  const slimpack::Plan plan = slimpack::plan_slimpack(lengths, job);

  std::printf("step %.3f s; no plan on these pipelines takes less than %.3f s\n", plan.step.seconds,
              plan.step.lower_bound_seconds);
  const slimpack::PipelinePlan& pipeline = plan.pipelines.front();
  for (const slimpack::Task task : pipeline.order.front()) {
    std::printf("%s:", to_string(task).c_str());
    for (const slimpack::Slice& slice : plan.of(task.pass).packs[task.pack]) {
      std::printf(" %u[%lld, %lld)", slice.sample, static_cast<long long>(slice.begin),
                  static_cast<long long>(slice.end));
    }
    std::printf("\n");
  }
}
