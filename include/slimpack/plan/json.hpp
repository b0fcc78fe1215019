#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

namespace detail {

/// Appends JSON to a string: numbers in their shortest form that reads back exactly.
class JsonText {
 public:
  explicit JsonText(std::string& out) : out_(out) {}

  template <class T>
    requires(std::integral<T> || std::floating_point<T>)
  void value(T number) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    separate();
    out_.append(digits, end);
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
  void null() {
    separate();
    out_ += "null";
  }
  template <class T>
  void field(std::string_view key, const T& item) {
    this->key(key);
    value(item);
  }
  void key(std::string_view name) {
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

/// Calls `visit(key, member)` for every number of a device.
template <class AnyDevice, class Visit>
void visit_device(AnyDevice& d, Visit&& visit) {
  visit("peak_flops", d.peak_flops);
  visit("gemm_efficiency", d.gemm_efficiency);
  visit("attention_forward", d.attention_forward);
  visit("attention_backward", d.attention_backward);
  visit("memory_bytes", d.memory_bytes);
  visit("memory_bandwidth", d.memory_bandwidth);
  visit("pack_overhead", d.pack_overhead);
  visit("intra_node_bandwidth", d.intra_node.bandwidth);
  visit("intra_node_latency", d.intra_node.latency);
  visit("inter_node_bandwidth", d.inter_node.bandwidth);
  visit("inter_node_latency", d.inter_node.latency);
  visit("host_bandwidth", d.host.bandwidth);
  visit("host_latency", d.host.latency);
  visit("devices_per_node", d.devices_per_node);
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
      json.field("sharding", packs.sharding[k] == Sharding::per_sequence ? "per_sequence" : "per_document");
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

/// The plan file (docs/plan-format.md) of a plan. Doubles read back exactly. O(size of the plan).
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

inline void write_json(std::ostream& out, const Plan& plan) { out << to_json(plan); }

namespace detail {

/// A JSON value and where it stands, for messages.
class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {}

  [[nodiscard]] bool has(const char* key) const { return value_.is_object() && value_.contains(key); }

  [[nodiscard]] JsonPlace operator[](const char* key) const {
    require(value_.is_object(), path_, " is ", value_.type_name(), "; expected an object");
    const auto found = value_.find(key);
    require(found != value_.end(), path_, " lacks the field '", key, "'");
    return {*found, path_ + "." + key};
  }
  [[nodiscard]] std::size_t size() const {
    require(value_.is_array(), path_, " is ", value_.type_name(), "; expected an array");
    return value_.size();
  }
  [[nodiscard]] JsonPlace operator[](std::size_t i) const {
    require(i < size(), path_, " has ", size(), " entries; expected at least ", i + 1);
    return {value_[i], concat(path_, "[", i, "]")};
  }

  /// An integer of type T, at least `least`.
  template <class T>
  [[nodiscard]] T integer(std::int64_t least) const {
    require(value_.is_number_integer(), path_, " is ", brief(), "; expected an integer");
    const bool too_big = value_.is_number_unsigned() &&
                         value_.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    const bool too_small = !value_.is_number_unsigned() && value_.get<std::int64_t>() < least;
    const bool below = value_.is_number_unsigned() && least > 0 &&
                       value_.get<std::uint64_t>() < static_cast<std::uint64_t>(least);
    require(!too_big && !too_small && !below, path_, " is ", brief(), "; expected an integer from ", least, " to ",
            std::numeric_limits<T>::max());
    return value_.get<T>();
  }
  [[nodiscard]] double number() const {
    require(value_.is_number() && std::isfinite(value_.get<double>()), path_, " is ", brief(), "; expected a number");
    return value_.get<double>();
  }
  [[nodiscard]] std::string text() const {
    require(value_.is_string(), path_, " is ", brief(), "; expected a string");
    return value_.get<std::string>();
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] std::string brief() const {
    if (value_.is_structured()) return value_.type_name();
    const std::string all = value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return all.size() <= 40 ? all : all.substr(0, 37) + "...";
  }
  const nlohmann::json& value_;
  std::string path_;
};

template <class T>
std::vector<T> read_integers(const JsonPlace& place, std::int64_t least) {
  std::vector<T> list;
  for (std::size_t i = 0; i < place.size(); ++i) list.push_back(place[i].integer<T>(least));
  return list;
}

inline std::vector<double> read_numbers(const JsonPlace& place) {
  std::vector<double> list;
  for (std::size_t i = 0; i < place.size(); ++i) list.push_back(place[i].number());
  return list;
}

inline Transformer read_model(const JsonPlace& place) {
  const auto field = [&](const char* key) { return place[key].integer<std::int32_t>(1); };
  return {place["name"].text(), field("layers"),   field("hidden"), field("heads"),
          field("kv_heads"),    field("head_dim"), field("ffn"),    field("vocab")};
}

/// A device of another planner may lack constants; they stay zero.
inline Device read_device(const JsonPlace& place) {
  Device device;
  device.name = place["name"].text();
  visit_device(device, [&](const char* key, auto& number) {
    using Number = std::remove_reference_t<decltype(number)>;
    if (!place.has(key)) return;
    if constexpr (std::integral<Number>) {
      number = place[key].integer<Number>(0);
    } else {
      number = place[key].number();
    }
  });
  return device;
}

inline PipelinePlan read_pipeline(const JsonPlace& place) {
  PipelinePlan pipeline{.id = place["id"].integer<PipelineId>(0),
                        .tp = place["tp"].integer<std::int32_t>(1),
                        .cp = place["cp"].integer<std::int32_t>(1),
                        .layers = read_integers<std::int32_t>(place["layers"], 0),
                        .order = {}};
  const auto stages = place["pp"].integer<std::uint32_t>(1);
  const JsonPlace order = place["order"];
  require(pipeline.layers.size() == stages && order.size() == stages, place.path(), " lists ", pipeline.layers.size(),
          " layers and ", order.size(), " orders; expected pp = ", stages, " of each");
  for (std::size_t s = 0; s < stages; ++s) {
    auto& tasks = pipeline.order.emplace_back();
    const JsonPlace stage = order[s];
    for (std::size_t i = 0; i < stage.size(); ++i) {
      const JsonPlace task = stage[i];
      try {
        tasks.push_back(parse_task(task.text()));
      } catch (const InvalidInput& error) {
        throw InvalidInput(task.path() + ": " + error.what());
      }
    }
  }
  return pipeline;
}

inline Sharding read_sharding(const JsonPlace& pack) {
  if (!pack.has("sharding")) return Sharding::none;
  const JsonPlace place = pack["sharding"];
  const std::string text = place.text();
  require(text == "per_sequence" || text == "per_document", place.path(), " is \"", text,
          "\"; expected per_sequence or per_document");
  return text == "per_sequence" ? Sharding::per_sequence : Sharding::per_document;
}

inline void read_pack(const JsonPlace& place, std::size_t k, std::size_t stages_if_missing, bool backward,
                      PassPlan& out) {
  require(place["id"].integer<std::uint32_t>(0) == k, place.path(), ".id; expected packs numbered from 0 in order");
  for (const PipelineId p : read_integers<PipelineId>(place["pipelines"], 0)) out.pipelines.add(p);
  out.pipelines.close();
  const JsonPlace slices = place["slices"];
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const JsonPlace slice = slices[i];
    require(slice.size() == 3, slice.path(), " has ", slice.size(), " entries; expected sample, begin, end");
    out.packs.add({slice[std::size_t{0}].integer<SampleId>(0), slice[1].integer<Tokens>(0), slice[2].integer<Tokens>(0)});
  }
  out.packs.close();
  out.flops.push_back({place["flops"]["linear"].number(), place["flops"]["attention"].number()});
  for (const double seconds : read_numbers(place["seconds"])) out.seconds.add(seconds);
  out.seconds.close();
  out.transfer_seconds.push_back(place["transfer_seconds"].number());
  out.sharding.push_back(read_sharding(place));
  if (!backward) return;
  if (place.has("recompute_layers")) {
    for (const auto layers : read_integers<std::int32_t>(place["recompute_layers"], 0)) out.recompute_layers.add(layers);
    out.recompute_layers.close();
  } else {
    out.recompute_layers.add_row(stages_if_missing);
  }
}

inline void read_packs(const JsonPlace& place, bool backward, PassPlan& out) {
  for (std::size_t k = 0; k < place.size(); ++k) {
    const JsonPlace pack = place[k];
    read_pack(pack, k, pack["seconds"].size(), backward, out);
  }
}

inline Plan read_plan(const JsonPlace& place) {
  require(place["format"].text() == "slimpack-plan", place.path(), ".format is \"", place["format"].text(),
          "\"; expected \"slimpack-plan\"");
  require(place["version"].integer<int>(0) == 1, place.path(), ".version is ", place["version"].integer<int>(0),
          "; expected 1");
  Plan plan;
  plan.planner = place["planner"].text();
  plan.model = read_model(place["model"]);
  plan.device = read_device(place["device"]);
  plan.tokens = read_integers<Tokens>(place["tokens"], 1);
  plan.deferred = read_integers<SampleId>(place["deferred"], 0);
  const JsonPlace pipelines = place["pipelines"];
  for (std::size_t p = 0; p < pipelines.size(); ++p) plan.pipelines.push_back(read_pipeline(pipelines[p]));
  read_packs(place["forward"], false, plan.forward);
  read_packs(place["backward"], true, plan.backward);
  const JsonPlace step = place["step"];
  plan.step.seconds = step["seconds"].number();
  plan.step.sync_seconds = step["sync_seconds"].number();
  plan.step.pipeline_seconds = step["pipeline_seconds"].number();
  plan.step.bubble_ratio = step["bubble_ratio"].number();
  plan.step.lower_bound_seconds = step["lower_bound_seconds"].number();
  const JsonPlace peaks = step["peak_bytes"];
  for (std::size_t p = 0; p < peaks.size(); ++p) plan.step.peak_bytes.push_back(read_numbers(peaks[p]));
  if (place.has("notes")) {
    const JsonPlace notes = place["notes"];
    for (std::size_t i = 0; i < notes.size(); ++i) plan.notes.push_back(notes[i].text());
  }
  return plan;
}

}  // namespace detail

/// Reads a plan file. Unknown fields are ignored. The plan is well formed but not yet valid: see `validate`.
/// @throws InvalidInput naming the position of a syntax error, or the field and what would be accepted.
[[nodiscard]] inline Plan parse_json(std::string_view text) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    throw InvalidInput("the plan is not JSON: " + std::string(error.what()));
  }
  return detail::read_plan({json, "plan"});
}

/// Reads a plan file from a stream, as `parse_json`.
[[nodiscard]] inline Plan read_json(std::istream& in) {
  return parse_json(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace slimpack
