#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

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
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    separate();
    out_.append(digits, end);
  }
  void value(double number) {
    require(std::isfinite(number), "the plan's field '", key_, "' holds ", number,
            "; expected a finite number, for JSON has no other");
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    separate();
    // "-0" would be read back as an integer, which has no sign of zero.
    out_.append(number == 0.0 && std::signbit(number) ? "-0.0" : std::string_view(digits, end));
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

inline void write_packs(std::string_view key, const PassPlan& packs, bool backward, JsonText& json) {
  json.key(key);
  json.open('[');
  for (std::size_t k = 0; k < packs.packs.size(); ++k) {
    json.line();
    json.open('{');
    json.field("id", k);
    json.key("pipelines");
    json.list(packs.pipelines[k]);
    json.key("slices");
    json.open('[');
    for (const Slice& slice : packs.packs[k]) {
      json.open('[');
      json.value(slice.sample);
      json.value(slice.begin);
      json.value(slice.end);
      json.close(']');
    }
    json.close(']');
    json.key("flops");
    json.open('{');
    json.field("linear", packs.flops[k].linear);
    json.field("attention", packs.flops[k].attention);
    json.close('}');
    json.key("seconds");
    json.list(packs.seconds[k]);
    json.field("transfer_seconds", packs.transfer_seconds[k]);
    if (packs.sharding[k] != Sharding::none) {
      json.field("sharding", sharding_name(packs.sharding[k]));
    }
    if (packs.sharding[k] == Sharding::mixed) {
      json.key("per_document_slices");
      json.list(packs.per_document[k]);
    }
    if (backward) {
      json.key("recompute_layers");
      json.list(packs.recompute_layers[k]);
    }
    json.close('}');
  }
  json.close(']');
  json.line();
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
  json.key("peak_bytes");
  json.open('[');
  for (const auto& row : step.peak_bytes) json.list(row);
  json.close(']');
  json.close('}');
}

}  // namespace detail

/// The plan file (docs/plan-format.md) of a plan. Doubles read back exactly; text that is not UTF-8 doesn't:
/// its bad bytes become U+FFFD.
/// @throws InvalidInput naming a field that holds an infinity or NaN. O(size of the plan).
[[nodiscard]] inline std::string to_json(const Plan& plan) {
  std::string text;
  detail::JsonText json(text);
  json.open('{');
  json.field("format", "slimpack-plan");
  json.field("version", 1);
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
