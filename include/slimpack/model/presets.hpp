#pragma once

#include <array>
#include <span>
#include <string_view>

#include "slimpack/core/error.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

namespace detail {

template <class T>
const T& find_preset(std::span<const T> presets, std::string_view kind, std::string_view name) {
  std::string known;
  for (const T& preset : presets) {
    if (preset.name == name) return preset;
    known += known.empty() ? "" : ", ";
    known += preset.name;
  }
  throw InvalidInput(concat("unknown ", kind, " '", name, "'; expected one of ", known));
}

}  // namespace detail

/// The papers' models. 7B to 150B: SlimPack, Table 3 (32,000 words). 32B: Hydraulis, section 8.1 (LLaMA).
/// InfiniPipe's GPT models of 7B, 13B and 30B are named without figures; of these presets, `llama-7b`,
/// `llama-13b` and `llama-32b` are nearest. WLB-LLM's 7B is LLaMA2-7B. Its other sizes (Table 1) are said to
/// scale that one's layers and width in proportion, without figures; `wlb-…` are ours by that rule, such that
/// the table's tensor parallelism divides the heads: 0.54B (without embeddings), 30B and 68B parameters.
/// `tiny` is for trying plans out on a CPU.
[[nodiscard]] inline std::span<const Transformer> transformer_presets() {
  static const std::array presets{
      Transformer{"llama-7b", 32, 4096, 32, 32, 128, 11008, 32000},
      Transformer{"llama-13b", 40, 5120, 40, 40, 128, 13824, 32000},
      Transformer{"llama-32b", 60, 6656, 52, 52, 128, 17920, 32000},
      Transformer{"llama-70b", 80, 8192, 64, 8, 128, 28672, 32000},
      Transformer{"llama-150b", 96, 12288, 96, 8, 128, 32768, 32000},
      Transformer{"wlb-550m", 14, 1792, 14, 14, 128, 4816, 32000},
      Transformer{"wlb-30b", 48, 7168, 56, 56, 128, 19264, 32000},
      Transformer{"wlb-70b", 84, 8192, 64, 64, 128, 22016, 32000},
      Transformer{"tiny", 4, 128, 4, 2, 32, 384, 512},
  };
  return presets;
}

/// Accelerators of the papers' clusters. Peak rates and memory are the vendors'; achieved fractions are typical of tuned
/// training code (FlashAttention 3 on Hopper, 2 on Ampere) until a profile replaces them; so is the overhead of a pack:
/// launches of some layers' kernels, and what small matrices lose. Dense products achieve the same in both passes: the
/// papers give no other figures.
///
/// Links are of one device and one direction. Vendors and papers state NVLink for both directions together:
///
/// | device | NVLink | network | stated by |
/// | --- | --- | --- | --- |
/// | `h100`, `h200` | 900 GB/s | 400 Gb/s for each GPU | the vendor; WLB-LLM, section 6.1, has such H100 on RoCE |
/// | `h800` | 400 GB/s | 400 Gb/s for each GPU | SlimPack, section 6.1, of its Hopper GPUs with 80 GB |
/// | `a800` | 400 GB/s | 200 GB/s for each node of 8 | Hydraulis, section 8.1; InfiniPipe, section 5.1, has 400 Gb/s |
/// | `a100` | 600 GB/s | 200 Gb/s for each GPU | the vendor |
///
/// Collectives achieve 0.8 of NVLink (230 to 250 of an A100's 300 GB/s in nccl-tests), messages 0.9 of the network.
/// `cpu` is one core of a server's processor that computes with 32-bit numbers, for trying plans out.
[[nodiscard]] inline std::span<const Device> device_presets() {
  constexpr auto achieved = [](double nvlink, double network) {
    return std::array{0.8 * nvlink / 2.0, 0.9 * network};
  };
  constexpr auto make = [](const char* name, double peak, double gemm, double attention_forward,
                           double attention_backward, double memory, double bandwidth,
                           std::array<double, 2> links, double host, double overhead) {
    return Device{.name = name,
                  .peak_flops = peak,
                  .gemm_efficiency = gemm,
                  .gemm_backward_efficiency = gemm,
                  .attention_forward = attention_forward,
                  .attention_backward = attention_backward,
                  .memory_bytes = memory,
                  .memory_bandwidth = bandwidth,
                  .pack_overhead = overhead,
                  .intra_node = {.bandwidth = links[0], .latency = 5e-6},
                  .inter_node = {.bandwidth = links[1], .latency = 15e-6},
                  .host = {.bandwidth = host, .latency = 10e-6},
                  .devices_per_node = 8};
  };
  static const std::array presets{
      make("h100", 989e12, 0.66, 0.60, 0.52, 85.5e9, 2.7e12, achieved(900e9, 50e9), 50e9, 400e-6),
      make("h200", 989e12, 0.68, 0.60, 0.52, 150.7e9, 4.1e12, achieved(900e9, 50e9), 50e9, 400e-6),
      make("h800", 989e12, 0.66, 0.60, 0.52, 85.5e9, 2.7e12, achieved(400e9, 50e9), 50e9, 400e-6),
      make("a800", 312e12, 0.72, 0.60, 0.50, 85.2e9, 1.7e12, achieved(400e9, 25e9), 22e9, 500e-6),
      make("a100", 312e12, 0.72, 0.60, 0.50, 85.2e9, 1.7e12, achieved(600e9, 25e9), 22e9, 500e-6),
      make("cpu", 120e9, 0.65, 0.70, 0.75, 4e9, 1e10, {2e9, 2e9}, 2e9, 20e-6),
  };
  return presets;
}

/// @throws InvalidInput listing the names that exist.
[[nodiscard]] inline const Transformer& transformer_preset(std::string_view name) {
  return detail::find_preset(transformer_presets(), "model", name);
}

/// @throws InvalidInput listing the names that exist.
[[nodiscard]] inline const Device& device_preset(std::string_view name) {
  return detail::find_preset(device_presets(), "device", name);
}

}  // namespace slimpack
