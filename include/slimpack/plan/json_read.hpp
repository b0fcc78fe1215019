#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/json_place.hpp"
#include "slimpack/plan/device_fields.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

namespace detail {

template <class T>
std::vector<T> read_integers(const JsonPlace& place, std::int64_t least) {
  std::vector<T> list(place.size());
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = place[i].template integer<T>(least);
  return list;
}

inline std::vector<double> read_numbers(const JsonPlace& place) {
  std::vector<double> list(place.size());
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = place[i].number();
  return list;
}

inline Transformer read_model(const JsonPlace& place) {
  const auto field = [&](const char* key) { return place[key].integer<std::int32_t>(1); };
  return {place["name"].text(), field("layers"),   field("hidden"), field("heads"),
          field("kv_heads"),    field("head_dim"), field("ffn"),    field("vocab")};
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
  std::vector<Task> tasks(place.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const JsonPlace task = place[i];
    const std::string& text = task.text();
    try {
      tasks[i] = parse_task(text);
    } catch (const InvalidInput&) {
      task.fail(concat("is ", task.brief(), "; expected F, B or W followed by a pack number, as in \"F12\""));
    }
  }
  return tasks;
}

/// What plans can't hold yet is refused rather than read as something else.
inline void refuse_phases(const JsonPlace& pipeline) {
  if (pipeline.has("phase") && pipeline["phase"].integer<std::int32_t>(0) != 0) {
    pipeline["phase"].fail(concat("is ", pipeline["phase"].brief(),
                                  "; expected 0 or nothing, for plans of several phases can't be read yet"));
  }
  if (pipeline.has("stage_of"))
    pipeline["stage_of"].fail("is there; expected nothing, for plans with virtual stages can't be read yet");
}

inline PipelinePlan read_pipeline(const JsonPlace& place) {
  PipelinePlan pipeline{.id = place["id"].integer<PipelineId>(0),
                        .tp = place["tp"].integer<std::int32_t>(1),
                        .cp = place["cp"].integer<std::int32_t>(1),
                        .layers = read_integers<std::int32_t>(place["layers"], 0),
                        .order = {},
                        .devices = {}};
  refuse_phases(place);
  const auto stages = place["pp"].integer<std::int32_t>(1);
  const JsonPlace order = place["order"];
  if (std::cmp_not_equal(pipeline.layers.size(), stages) || std::cmp_not_equal(order.size(), stages)) {
    place.fail(concat("has pp ", stages, ", ", pipeline.layers.size(), " layers and ", order.size(),
                      " orders; expected one of each for every stage"));
  }
  for (std::size_t s = 0; s < order.size(); ++s) pipeline.order.push_back(read_order(order[s]));
  if (!place.has("devices")) return pipeline;
  const JsonPlace devices = place["devices"];
  for (std::size_t s = 0; s < devices.size(); ++s)
    pipeline.devices.push_back(read_integers<DeviceId>(devices[s], 0));
  return pipeline;
}

inline Sharding read_sharding(const JsonPlace& pack, std::int32_t version) {
  if (!pack.has("sharding")) return Sharding::none;
  const JsonPlace place = pack["sharding"];
  const std::string& text = place.text();
  for (const Sharding kind : {Sharding::per_sequence, Sharding::per_document, Sharding::mixed}) {
    if (text == sharding_name(kind)) return kind;
  }
  if (version > 1 && text == sharding_name(Sharding::by_position)) return Sharding::by_position;
  place.fail(
      concat("is ", place.brief(), "; expected \"per_sequence\", \"per_document\", \"mixed\", ",
             version > 1 ? "\"by_position\" or null" : "or null (version 2 also has \"by_position\")"));
}

/// Packs of one pass that are sharded by position are so in chunks of one size.
inline void read_block(const JsonPlace& pack, PassPlan& out) {
  if (!pack.has("block")) return;
  const JsonPlace place = pack["block"];
  const auto block = place.integer<Tokens>(1);
  if (out.sharding.back() != Sharding::by_position) return;
  if (out.block != 0 && out.block != block) {
    place.fail(concat("is ", place.brief(), "; expected ", out.block, ", as in the packs before it"));
  }
  out.block = block;
}

inline KeyExchange read_exchange(const JsonPlace& pack) {
  if (!pack.has("exchange")) return KeyExchange::none;
  const JsonPlace place = pack["exchange"];
  const std::string& text = place.text();
  for (const KeyExchange exchange :
       {KeyExchange::ring, KeyExchange::all_to_all, KeyExchange::all_gather, KeyExchange::queries}) {
    if (text == exchange_name(exchange)) return exchange;
  }
  place.fail(concat("is ", place.brief(),
                    "; expected \"ring\", \"all_to_all\", \"all_gather\", \"queries\" or null"));
}

/// A number stands for all neighbouring stages.
inline void read_transfers(const JsonPlace& place, std::size_t stages, std::int32_t version, PassPlan& out) {
  if (version == 1 || !place.is_array()) {
    out.transfer_seconds.add_row(stages > 0 ? stages - 1 : 0, place.number());
    return;
  }
  for (const double seconds : read_numbers(place)) out.transfer_seconds.add(seconds);
  out.transfer_seconds.close();
}

inline Slice read_slice(const JsonPlace& place) {
  if (place.size() != 3) place.fail(concat("has ", place.size(), " entries; expected sample, begin and end"));
  return {place[std::size_t{0}].integer<SampleId>(0), place[1].integer<Tokens>(0),
          place[2].integer<Tokens>(0)};
}

/// What backward packs alone have. A planner that recomputes nothing may leave that list out.
inline void read_backward_fields(const JsonPlace& place, std::size_t stages, PassPlan& out) {
  if (place.has("recompute_layers")) {
    for (const auto n : read_integers<std::int32_t>(place["recompute_layers"], 0))
      out.recompute_layers.add(n);
    out.recompute_layers.close();
  } else {
    out.recompute_layers.add_row(stages);
  }
  if (place.has("offload_layers")) {
    for (const auto n : read_integers<std::int32_t>(place["offload_layers"], 0)) out.offload_layers.add(n);
  }
  out.offload_layers.close();
  if (place.has("weight_seconds")) {
    for (const double seconds : read_numbers(place["weight_seconds"])) out.weight_seconds.add(seconds);
  }
  out.weight_seconds.close();
}

/// Packs stand in the order of their ids.
inline void read_pack(const JsonPlace& place, std::size_t k, bool backward, std::int32_t version,
                      PassPlan& out) {
  const JsonPlace id = place["id"], slices = place["slices"], flops = place["flops"],
                  seconds = place["seconds"];
  if (id.integer<PackId>(0) != k) id.fail(concat("is ", id.brief(), "; expected ", k, ", the pack's place"));
  for (const PipelineId p : read_integers<PipelineId>(place["pipelines"], 0)) out.pipelines.add(p);
  out.pipelines.close();
  for (std::size_t i = 0; i < slices.size(); ++i) out.packs.add(read_slice(slices[i]));
  out.packs.close();
  out.flops.push_back({flops["linear"].number(), flops["attention"].number()});
  for (std::size_t s = 0; s < seconds.size(); ++s) out.seconds.add(seconds[s].number());
  out.seconds.close();
  read_transfers(place["transfer_seconds"], seconds.size(), version, out);
  out.sharding.push_back(read_sharding(place, version));
  read_block(place, out);
  out.exchange.push_back(read_exchange(place));
  if (place.has("per_document_slices")) {
    for (const auto i : read_integers<std::uint32_t>(place["per_document_slices"], 0))
      out.per_document.add(i);
  }
  out.per_document.close();
  if (backward) return read_backward_fields(place, seconds.size(), out);
  for (const char* field : {"recompute_layers", "offload_layers", "weight_seconds"}) {
    if (place.has(field)) place[field].fail("is there; expected it in backward packs only");
  }
}

/// Lists that no pack has anything in are left empty.
inline void read_packs(const JsonPlace& place, bool backward, std::int32_t version, PassPlan& out) {
  for (std::size_t k = 0; k < place.size(); ++k) read_pack(place[k], k, backward, version, out);
  const auto said = [](KeyExchange exchange) { return exchange != KeyExchange::none; };
  if (std::none_of(out.exchange.begin(), out.exchange.end(), said)) out.exchange.clear();
  if (out.per_document.values().empty()) out.per_document = {};
  if (out.offload_layers.values().empty()) out.offload_layers = {};
  if (out.weight_seconds.values().empty()) out.weight_seconds = {};
}

/// Files of version 1 could not say `by_position`: there, packs of several pipelines say `per_document`, and mean it.
inline void correct_merged_sharding(PassPlan& pass) {
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    if (pass.pipelines[k].size() > 1 && pass.sharding[k] == Sharding::per_document)
      pass.sharding[k] = Sharding::by_position;
  }
}

inline StepPlan read_step(const JsonPlace& place) {
  StepPlan step{.seconds = place["seconds"].number(),
                .sync_seconds = place["sync_seconds"].number(),
                .pipeline_seconds = place["pipeline_seconds"].number(),
                .bubble_ratio = place["bubble_ratio"].number(),
                .lower_bound_seconds = place["lower_bound_seconds"].number(),
                .peak_bytes = {}};
  if (place.has("switch_seconds") && place["switch_seconds"].size() > 0)
    place["switch_seconds"].fail("is there; expected nothing, for plans of several phases can't be read yet");
  const JsonPlace peaks = place["peak_bytes"];
  for (std::size_t p = 0; p < peaks.size(); ++p) step.peak_bytes.push_back(read_numbers(peaks[p]));
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
  for (std::size_t p = 0; p < pipelines.size(); ++p) plan.pipelines.push_back(read_pipeline(pipelines[p]));
  read_packs(place["forward"], false, version, plan.forward);
  read_packs(place["backward"], true, version, plan.backward);
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    if (version == 1) correct_merged_sharding(*pass);
  }
  plan.step = read_step(place["step"]);
  if (!place.has("notes")) return plan;
  const JsonPlace notes = place["notes"];
  for (std::size_t i = 0; i < notes.size(); ++i) plan.notes.push_back(notes[i].text());
  return plan;
}

}  // namespace detail

/// Reads a plan file (docs/plan-format.md). Fields that it doesn't know are ignored. The plan is well formed,
/// but not yet valid: see `validate`.
/// @throws InvalidInput naming the position of a syntax error, or a field by its path (`plan.forward[3].id`)
/// and what would be accepted. O(size of the text).
[[nodiscard]] inline Plan read_json(std::string_view text) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    throw InvalidInput(concat("the plan is not JSON: ", error.what()));
  }
  return detail::read_plan(detail::JsonPlace(json, "plan"));
}

/// Reads a plan file from a stream, to its end.
[[nodiscard]] inline Plan read_json(std::istream& in) {
  const std::string text(std::istreambuf_iterator<char>(in), {});
  return read_json(std::string_view(text));
}

}  // namespace slimpack
