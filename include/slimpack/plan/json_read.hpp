#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/json_place.hpp"
#include "slimpack/plan/device_fields.hpp"
#include "slimpack/plan/json_read_packs.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

namespace detail {

inline Transformer read_model(const JsonPlace& place) {
  const auto field = [&](const char* key) { return place[key].integer<std::int32_t>(1); };
  return {std::string(place["name"].text()),
          field("layers"),
          field("hidden"),
          field("heads"),
          field("kv_heads"),
          field("head_dim"),
          field("ffn"),
          field("vocab")};
}

/// A device of another planner may lack constants; they stay zero. Dense products without a fraction of their own
/// backward have the forward pass's there.
inline Device read_device(const JsonPlace& place) {
  Device device;
  device.name = place["name"].text();
  visit_device(device, [&](const char* key, auto& number) {
    using Number = std::remove_reference_t<decltype(number)>;
    if (!place.has(key)) return;
    if constexpr (std::integral<Number>) {
      number = place[key].template integer<Number>(0);
    } else {
      number = place[key].number();
    }
  });
  if (!place.has("gemm_backward_efficiency")) device.gemm_backward_efficiency = device.gemm_efficiency;
  return device;
}

inline std::vector<Task> read_order(const JsonPlace& place) {
  std::vector<Task> tasks;
  tasks.reserve(place.size());
  place.for_each([&](const JsonPlace& task) {
    const std::string_view text = task.text();
    try {
      tasks.push_back(parse_task(text));
    } catch (const InvalidInput&) {
      task.fail(concat("is ", task.brief(), "; expected F, B or W followed by a pack number, as in \"F12\""));
    }
  });
  return tasks;
}

/// The devices of each stage.
inline std::vector<std::vector<DeviceId>> read_devices(const JsonPlace& place, std::size_t stages) {
  const std::size_t lists = place.size();
  if (lists > stages)
    place.fail(concat("has ", lists, " entries; expected one list for each of the ", stages, " stages"));
  std::vector<std::vector<DeviceId>> devices;
  devices.reserve(lists);
  place.for_each([&](const JsonPlace& stage) { devices.push_back(read_integers<DeviceId>(stage, 0)); });
  return devices;
}

/// Files of version 1 have one phase.
inline std::int32_t read_phase(const JsonPlace& pipeline, std::int32_t version) {
  if (!pipeline.has("phase")) return 0;
  const auto phase = pipeline["phase"].integer<std::int32_t>(0);
  if (version == 1 && phase != 0)
    pipeline["phase"].fail(concat("is ", pipeline["phase"].brief(), "; expected 0 or nothing in version 1"));
  return phase;
}

/// What plans can't hold yet is refused rather than read as something else.
inline void refuse_virtual_stages(const JsonPlace& pipeline) {
  if (pipeline.has("stage_of"))
    pipeline["stage_of"].fail("is there; expected nothing, for plans with virtual stages can't be read yet");
}

inline PipelinePlan read_pipeline(const JsonPlace& place, std::int32_t version) {
  PipelinePlan pipeline{.id = place["id"].integer<PipelineId>(0),
                        .tp = place["tp"].integer<std::int32_t>(1),
                        .cp = place["cp"].integer<std::int32_t>(1),
                        .layers = read_integers<std::int32_t>(place["layers"], 0),
                        .order = {},
                        .devices = {},
                        .phase = read_phase(place, version)};
  refuse_virtual_stages(place);
  const auto stages = place["pp"].integer<std::int32_t>(1);
  const JsonPlace order = place["order"];
  if (std::cmp_not_equal(pipeline.layers.size(), stages) || std::cmp_not_equal(order.size(), stages)) {
    place.fail(concat("has pp ", stages, ", ", pipeline.layers.size(), " layers and ", order.size(),
                      " orders; expected one of each for every stage"));
  }
  pipeline.order.reserve(pipeline.layers.size());
  order.for_each([&](const JsonPlace& stage) { pipeline.order.push_back(read_order(stage)); });
  if (place.has("devices")) pipeline.devices = read_devices(place["devices"], pipeline.layers.size());
  return pipeline;
}

/// @param pipelines of the plan.
inline StepPlan read_step(const JsonPlace& place, std::size_t pipelines, std::int32_t version) {
  StepPlan step{.seconds = place["seconds"].number(),
                .sync_seconds = place["sync_seconds"].number(),
                .pipeline_seconds = place["pipeline_seconds"].number(),
                .bubble_ratio = place["bubble_ratio"].number(),
                .lower_bound_seconds = place["lower_bound_seconds"].number(),
                .peak_bytes = {},
                .switch_seconds = {}};
  if (place.has("switch_seconds")) {
    const JsonPlace switches = place["switch_seconds"];
    const std::size_t most = version == 1 ? 0 : std::max<std::size_t>(pipelines, 1) - 1;
    if (switches.size() > most)
      switches.fail(concat("has ", switches.size(), " entries; expected at most ", most,
                           version == 1 ? ", as version 1 has one phase"
                                        : ", one between two phases, each of which has a pipeline"));
    step.switch_seconds = read_numbers(switches);
  }
  const JsonPlace peaks = place["peak_bytes"];
  const std::size_t rows = peaks.size();
  if (rows > pipelines)
    peaks.fail(
        concat("has ", rows, " rows; expected one for each of the ", pipelines, " pipelines, or none"));
  step.peak_bytes.reserve(rows);
  peaks.for_each([&](const JsonPlace& row) { step.peak_bytes.push_back(read_numbers(row)); });
  return step;
}

/// The file's version.
inline std::int32_t read_header(const JsonPlace& place) {
  const JsonPlace format = place["format"];
  if (format.text() != "slimpack-plan")
    format.fail(concat("is ", format.brief(), "; expected \"slimpack-plan\""));
  const JsonPlace version = place["version"];
  const auto number = version.integer<std::int32_t>(0);
  if (number != 1 && number != 2) version.fail(concat("is ", version.brief(), "; expected 1 or 2"));
  return number;
}

inline Plan read_plan(const JsonPlace& place) {
  const std::int32_t version = read_header(place);
  Plan plan;
  plan.planner = place["planner"].text();
  plan.model = read_model(place["model"]);
  plan.device = read_device(place["device"]);
  plan.tokens = read_integers<Tokens>(place["tokens"], 1);
  plan.deferred = read_integers<SampleId>(place["deferred"], 0);
  if (place.has("document_ids")) plan.document_ids = read_integers<std::uint64_t>(place["document_ids"], 0);
  const JsonPlace pipelines = place["pipelines"];
  pipelines.for_each(
      [&](const JsonPlace& pipeline) { plan.pipelines.push_back(read_pipeline(pipeline, version)); });
  read_packs(place["forward"], false, version, plan.forward);
  read_packs(place["backward"], true, version, plan.backward);
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    if (version == 1) correct_merged_sharding(*pass);
  }
  plan.step = read_step(place["step"], plan.pipelines.size(), version);
  if (!place.has("notes")) return plan;
  const JsonPlace notes = place["notes"];
  plan.notes.reserve(notes.size());
  notes.for_each([&](const JsonPlace& note) { plan.notes.emplace_back(note.text()); });
  return plan;
}

}  // namespace detail

/// Reads a plan file (docs/plan-format.md). Fields that it doesn't know are ignored. The plan is well formed,
/// but not yet valid: see `violations`. Memory: at most 16 times the text without its blanks, plus 1 MB.
/// @throws InvalidInput naming the position of a syntax error, or a field by its path (`plan.forward[3].id`)
/// and what would be accepted. O(size of the text).
[[nodiscard]] inline Plan read_json(std::string_view text) {
  detail::JsonInput input("plan", text);
  return detail::read_plan(detail::JsonPlace(detail::JsonTree(input), "plan"));
}

/// Reads a plan file from a stream, to its end, and never holds its text.
[[nodiscard]] inline Plan read_json(std::istream& in) {
  detail::JsonInput input("plan", in);
  return detail::read_plan(detail::JsonPlace(detail::JsonTree(input), "plan"));
}

}  // namespace slimpack
