#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "slimpack/core/digits.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/plan/device_fields.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

namespace detail {

/// Appends JSON to a string: numbers in their shortest form that reads back exactly.
class JsonText {
 public:
  explicit JsonText(std::string& out) : out_(out) {}

  void value(std::integral auto number) {
    separate();
    append_digits(out_, number);
  }
  void value(double number) {
    require(std::isfinite(number), "the plan's field '", key_, "' holds ", number,
            "; expected a finite number, for JSON has no other");
    separate();
    append_digits(out_, number);
    // "-0" would be read back as an integer, which has no sign of zero.
    if (number == 0.0 && std::signbit(number)) out_ += ".0";
  }
  void value(std::string_view text) {
    separate();
    out_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  void value(const char* text) { value(std::string_view(text)); }
  void value(Task task) {
    separate();
    out_ += '"';
    out_ += to_string(task);
    out_ += '"';
  }
  template <class T>
  void field(std::string_view key, const T& item) {
    this->key(key);
    value(item);
  }
  void key(std::string_view name) {
    key_ = name;
    separate();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    first_ = true;
  }
  template <class List>
  void list(const List& items) {
    open('[');
    for (const auto& item : items) value(item);
    close(']');
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    first_ = false;
  }
  void line() { out_ += '\n'; }

 private:
  void separate() {
    if (!first_) out_ += ',';
    first_ = false;
  }
  std::string& out_;
  std::string_view key_;
  bool first_ = true;
};

inline void write_model(const Transformer& m, JsonText& json) {
  json.key("model");
  json.open('{');
  json.field("name", std::string_view(m.name));
  json.field("layers", m.layers);
  json.field("hidden", m.hidden);
  json.field("heads", m.heads);
  json.field("kv_heads", m.kv_heads);
  json.field("head_dim", m.head_dim);
  json.field("ffn", m.ffn);
  json.field("vocab", m.vocab);
  json.close('}');
}

inline void write_slices(std::span<const Slice> slices, JsonText& json) {
  json.key("slices");
  json.open('[');
  for (const Slice& slice : slices) {
    json.open('[');
    json.value(slice.sample);
    json.value(slice.begin);
    json.value(slice.end);
    json.close(']');
  }
  json.close(']');
}

/// Whether a pack's transfers take equally long between all stages, so that version 1's one number says it.
[[nodiscard]] inline bool one_number(std::span<const double> transfers) {
  // Bits rather than values: 0 and -0 read back as they were.
  return std::adjacent_find(transfers.begin(), transfers.end(), [](double a, double b) {
           return std::bit_cast<std::uint64_t>(a) != std::bit_cast<std::uint64_t>(b);
         }) == transfers.end();
}

inline void write_transfers(std::span<const double> transfers, JsonText& json) {
  if (one_number(transfers)) {
    json.field("transfer_seconds", transfers.empty() ? 0.0 : transfers.front());
    return;
  }
  json.key("transfer_seconds");
  json.list(transfers);
}

inline void write_sharding(const PassPlan& packs, std::size_t k, JsonText& json) {
  const Sharding kind = packs.sharding[k];
  if (kind != Sharding::none) json.field("sharding", sharding_name(kind));
  if (kind == Sharding::by_position && packs.block != 0) json.field("block", packs.block);
  if (kind == Sharding::mixed) {
    json.key("per_document_slices");
    json.list(packs.per_document[k]);
  }
  if (packs.exchange_of(k) != KeyExchange::none) json.field("exchange", exchange_name(packs.exchange_of(k)));
}

/// A row that a plan need not have.
template <class T>
void write_row(std::string_view key, const Ragged<T>& rows, std::size_t k, JsonText& json) {
  if (rows.empty() || rows[k].empty()) return;
  json.key(key);
  json.list(rows[k]);
}

inline void write_packs(std::string_view key, const PassPlan& packs, bool backward, JsonText& json) {
  json.key(key);
  json.open('[');
  for (std::size_t k = 0; k < packs.packs.size(); ++k) {
    json.line();
    json.open('{');
    json.field("id", k);
    json.key("pipelines");
    json.list(packs.pipelines[k]);
    write_slices(packs.packs[k], json);
    json.key("flops");
    json.open('{');
    json.field("linear", packs.flops[k].linear);
    json.field("attention", packs.flops[k].attention);
    json.close('}');
    json.key("seconds");
    json.list(packs.seconds[k]);
    write_transfers(packs.transfer_seconds[k], json);
    write_sharding(packs, k, json);
    if (backward) {
      json.key("recompute_layers");
      json.list(packs.recompute_layers[k]);
      write_row("offload_layers", packs.offload_layers, k, json);
      write_row("weight_seconds", packs.weight_seconds, k, json);
    }
    json.close('}');
  }
  json.close(']');
  json.line();
}

/// Whether the file says anything in a form that version 1 did not have.
[[nodiscard]] inline bool needs_version_2(const PassPlan& packs) {
  for (std::size_t k = 0; k < packs.packs.size(); ++k) {
    const bool merged = packs.pipelines[k].size() > 1;
    if (packs.sharding[k] == Sharding::by_position || !one_number(packs.transfer_seconds[k])) return true;
    if (merged && packs.sharding[k] == Sharding::per_document) return true;  // version 1 means another by it
  }
  return !packs.weight_seconds.values().empty();
}

inline void write_pipelines(const Plan& plan, JsonText& json) {
  json.key("pipelines");
  json.open('[');
  for (const PipelinePlan& pipeline : plan.pipelines) {
    json.line();
    json.open('{');
    json.field("id", pipeline.id);
    json.field("tp", pipeline.tp);
    json.field("cp", pipeline.cp);
    json.field("pp", pipeline.stages());
    json.key("layers");
    json.list(pipeline.layers);
    json.key("order");
    json.open('[');
    for (const auto& order : pipeline.order) json.list(order);
    json.close(']');
    if (!pipeline.devices.empty()) {
      json.key("devices");
      json.open('[');
      for (const auto& stage : pipeline.devices) json.list(stage);
      json.close(']');
    }
    if (pipeline.phase != 0) json.field("phase", pipeline.phase);
    json.close('}');
  }
  json.close(']');
  json.line();
}

inline void write_step(const StepPlan& step, JsonText& json) {
  json.key("step");
  json.open('{');
  json.field("seconds", step.seconds);
  json.field("sync_seconds", step.sync_seconds);
  json.field("pipeline_seconds", step.pipeline_seconds);
  json.field("bubble_ratio", step.bubble_ratio);
  json.field("lower_bound_seconds", step.lower_bound_seconds);
  if (!step.switch_seconds.empty()) {
    json.key("switch_seconds");
    json.list(step.switch_seconds);
  }
  json.key("peak_bytes");
  json.open('[');
  for (const auto& row : step.peak_bytes) json.list(row);
  json.close(']');
  json.close('}');
}

}  // namespace detail

/// The plan file (docs/plan-format.md) of a plan. Doubles read back exactly; text that is not UTF-8 doesn't:
/// its bad bytes become U+FFFD. The file is of version 1 unless it says something in a form that version 1 did not have.
/// @throws InvalidInput naming a field that holds an infinity or NaN. O(size of the plan).
[[nodiscard]] inline std::string to_json(const Plan& plan) {
  std::string text;
  detail::JsonText json(text);
  json.open('{');
  json.field("format", "slimpack-plan");
  json.field("version", plan.phases() > 1 || detail::needs_version_2(plan.forward) ||
                                detail::needs_version_2(plan.backward)
                            ? 2
                            : 1);
  json.field("planner", std::string_view(plan.planner));
  detail::write_model(plan.model, json);
  json.key("device");
  json.open('{');
  json.field("name", std::string_view(plan.device.name));
  detail::visit_device(plan.device, [&](const char* key, auto number) { json.field(key, number); });
  json.close('}');
  json.line();
  json.key("tokens");
  json.list(plan.tokens);
  json.key("deferred");
  json.list(plan.deferred);
  if (!plan.document_ids.empty()) {
    json.key("document_ids");
    json.list(plan.document_ids);
  }
  detail::write_pipelines(plan, json);
  detail::write_packs("forward", plan.forward, false, json);
  detail::write_packs("backward", plan.backward, true, json);
  detail::write_step(plan.step, json);
  json.key("notes");
  json.open('[');
  for (const std::string& note : plan.notes) json.value(std::string_view(note));
  json.close(']');
  json.close('}');
  json.line();
  return text;
}

/// Writes `to_json(plan)`. Whether all was written, the stream's state says.
inline void write_json(std::ostream& out, const Plan& plan) { out << to_json(plan); }

}  // namespace slimpack
