#pragma once

#include <array>
#include <cstddef>

#include "slimpack/cost/attention_kernel.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/parallel.hpp"

namespace slimpack {

/// The table of a device whose kernel was not measured. Its shape is an assumption, not a measurement: the
/// paper names two effects and prints no figures (WLB-LLM, section 5.2 and Figure 10, on an H100). Tiles have
/// 128 rows. With one tile of queries a chunk can't share the loads of keys and values among thread blocks
/// (TMA multicast), which we take to cost 30 %; with two, 10 %; the rest goes with longer chunks. With few
/// keys a tile spends its time on filling and draining its pipeline, as much as 160 rows of keys would take.
/// The fractions are relative to long chunks, which achieve the device's attention rate
/// (`Device::attention_forward`, `attention_backward`). Measure your kernel and use `rates_from_seconds`
/// where the choice matters.
[[nodiscard]] inline AttentionTable assumed_attention_table(const Device& device) {
  validate(device);
  constexpr std::array<Tokens, 5> queries{128, 256, 512, 1024, 2048};
  constexpr std::array<double, 5> multicast{0.70, 0.90, 0.95, 0.98, 1.00};
  constexpr std::array<Tokens, 9> keys{128, 256, 512, 1024, 2048, 4096, 8192, 32768, 131072};
  constexpr double fill = 160.0;  // rows of keys
  const auto rates = [&](double most) {
    AttentionRates out{128, {queries.begin(), queries.end()}, {keys.begin(), keys.end()}, {}};
    for (const double share : multicast) {
      for (const Tokens k : keys) {
        const auto rows = static_cast<double>(k);
        out.flops_per_second.push_back(most * share * rows / (rows + fill));
      }
    }
    return out;
  };
  return {.forward = rates(device.peak_flops * device.attention_forward),
          .backward = rates(device.peak_flops * device.attention_backward),
          .launch_seconds = 5e-6,
          .source = concat("assumed after WLB-LLM, Figure 10, scaled to device '", device.name, "'")};
}

/// The attention kernel of a job's devices, by their assumed table.
[[nodiscard]] inline AttentionKernel assumed_attention(const Job& job) {
  return AttentionKernel(assumed_attention_table(job.device), job.model, job.layout.tp);
}

}  // namespace slimpack
