#include "devices.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>
#include <utility>

#include "preset_cost.hpp"
#include "profile_file.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/device_of.hpp"
#include "slimpack/model/attention_choice.hpp"
#include "slimpack/model/presets.hpp"

namespace slimpack::command {

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  const int size = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, values...);
  text.pop_back();
  return text;
}

constexpr int least_name = 8;  // columns of a preset's name

}  // namespace

Device device_of_profile(const Profile& profile) {
  if (!profile.device) return device_of(profile, device_preset("cpu"));
  std::string machine = profile.machine;
  std::transform(machine.begin(), machine.end(), machine.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Device& preset : device_presets()) {
    if (preset.name != "cpu" && machine.find(preset.name) != std::string::npos)
      return device_of(profile, preset, {.peak_flops = preset.peak_flops});
  }
  return device_of(profile, device_preset("h100"));
}

bool names_profile(const std::string& device) {
  constexpr std::string_view ending = ".json";
  return device.size() > ending.size() && device.ends_with(ending);
}

Device device_named(const std::string& name) {
  return names_profile(name) ? device_of_profile(read_profile_file(name)) : device_preset(name);
}

PredictionError constants_error(const Profile& profile, const Device& device,
                                std::span<const MeasuredTask> tasks) {
  return relative_errors(tasks, [&](const MeasuredTask& task) {
    const std::int32_t layers[] = {task.layers, task.layers};
    Transformer model = profile.model;
    model.layers = 2 * task.layers;
    const CalibratedCost cost = preset_cost(model, device, rank_strategy(layers, 1), 0, profile.real_bytes);
    const std::size_t stage = task.last ? 1 : 0;
    double seconds = cost.pack_seconds(stage, task.pass);
    for (const Slice& s : task.slices) {
      seconds += cost.slice_seconds(stage, s.begin, s.end, task.pass) +
                 task.recompute_layers * cost.recompute_seconds(stage, s.begin, s.end);
    }
    return seconds;
  });
}

std::string device_titles() {
  return formatted("%-8s %7s %6s %6s %6s %6s %8s %8s %14s %14s %14s %6s\n", "device", "TFLOP/s", "GEMM F",
                   "GEMM B", "attn F", "attn B", "mem GB", "mem TB/s", "node GB/s + us", "net GB/s + us",
                   "host GB/s + us", "pack us");
}

std::string device_row(const Device& d) {
  std::string row =
      formatted("%-*s %7.4g %6.2f %6.2f %6.2f %6.2f %8.1f %8.2f", least_name, d.name.c_str(),
                d.peak_flops / 1e12, d.gemm_efficiency, d.gemm_backward_efficiency, d.attention_forward,
                d.attention_backward, d.memory_bytes / 1e9, d.memory_bandwidth / 1e12);
  for (const Link& link : {d.intra_node, d.inter_node, d.host})
    row += formatted(" %8.0f + %3.0f", link.bandwidth / 1e9, link.latency * 1e6);
  return row + formatted(" %7.0f\n", d.pack_overhead * 1e6);
}

std::string measured_attention(const Profile& profile) {
  if (!profile.device) return "";
  const auto choice = profile.device->attention;
  return concat("attention measured: ", choice ? attention_name(*choice) : "not recorded", "\n");
}

std::string device_options(const Profile& profile, const Device& d) {
  const std::pair<const char*, double> options[] = {
      {"peak-flops", d.peak_flops},
      {"gemm-efficiency", d.gemm_efficiency},
      {"gemm-backward-efficiency", d.gemm_backward_efficiency},
      {"attention-forward", d.attention_forward},
      {"attention-backward", d.attention_backward},
      {"memory-bandwidth", d.memory_bandwidth},
      {"pack-overhead", d.pack_overhead},
      {"network-bandwidth", d.inter_node.bandwidth},
      {"network-latency", d.inter_node.latency},
  };
  std::string text = profile.device ? formatted("--memory-bytes %.4g", d.memory_bytes) : "";
  for (const auto& [name, value] : options) {
    if (!text.empty()) text += ' ';
    text += formatted("--%s %.4g", name, value);
  }
  return text;
}

}  // namespace slimpack::command
