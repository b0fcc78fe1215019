#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "slimpack/core/error.hpp"
#include "slimpack/core/json_place.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/model/attention_choice.hpp"

namespace slimpack {

namespace detail {

/// Calls `visit(name, size)` for each size of a transformer.
template <class AnyTransformer, class Visit>
void visit_sizes(AnyTransformer& m, Visit&& visit) {
  visit("layers", m.layers);
  visit("hidden", m.hidden);
  visit("heads", m.heads);
  visit("kv_heads", m.kv_heads);
  visit("head_dim", m.head_dim);
  visit("ffn", m.ffn);
  visit("vocab", m.vocab);
}

inline nlohmann::ordered_json rates_to_json(const PackRates& rates) {
  nlohmann::ordered_json json;
  visit_rates(rates, [&](const char* name, double rate) { json[name] = rate; });
  return json;
}

inline nlohmann::ordered_json pass_to_json(const PassRates& pass) {
  nlohmann::ordered_json json;
  visit_parts(pass, [&](const char* name, const PackRates& rates) { json[name] = rates_to_json(rates); });
  return json;
}

inline nlohmann::ordered_json error_to_json(const PredictionError& error) {
  return {{"tasks", error.tasks}, {"median", error.median}, {"worst", error.worst}};
}

inline PackRates read_rates(const JsonPlace& field) {
  PackRates rates;
  visit_rates(rates, [&](const char* name, double& rate) { rate = field[name].number(); });
  return rates;
}

inline PassRates read_pass(const JsonPlace& field) {
  PassRates pass;
  visit_parts(pass, [&](const char* name, PackRates& rates) { rates = read_rates(field[name]); });
  return pass;
}

inline PredictionError read_error(const JsonPlace& field) {
  return {.tasks = field["tasks"].integer<std::int64_t>(0),
          .median = field["median"].number(),
          .worst = field["worst"].number()};
}

inline MeasuredDevice read_measured_device(const JsonPlace& field) {
  MeasuredDevice device;
  visit_measured(device, [&](const char* name, double& value) { value = field[name].number(); });
  if (field.has("attention")) {
    const JsonPlace attention = field["attention"];
    device.attention = attention_named(attention.text());
    attention.expect(device.attention.has_value(), attention_names);
  }
  return device;
}

inline nlohmann::ordered_json device_to_json(const MeasuredDevice& device) {
  nlohmann::ordered_json json;
  visit_measured(device, [&](const char* name, double value) { json[name] = value; });
  if (device.attention) json["attention"] = attention_name(*device.attention);
  return json;
}

inline Profile read_profile(const JsonPlace& file) {
  const JsonPlace format = file["format"], version = file["version"];
  format.expect(format.text() == "slimpack-profile", "\"slimpack-profile\"");
  version.expect(version.integer<std::int32_t>(0) == 1, "1");
  Profile p;
  const JsonPlace model = file["model"], transfer = file["transfer"], operators = file["operators"];
  p.model.name = std::string(model["name"].text());
  visit_sizes(p.model,
              [&](const char* name, std::int32_t& size) { size = model[name].integer<std::int32_t>(0); });
  p.real_bytes = file["real_bytes"].integer<std::int32_t>(0);
  p.machine = std::string(file["machine"].text());
  p.date = std::string(file["date"].text());
  p.forward = read_pass(file["forward"]);
  p.backward = read_pass(file["backward"]);
  p.recompute = read_rates(file["recompute"]);
  p.transfer = {.bandwidth = transfer["bandwidth"].number(), .latency = transfer["latency"].number()};
  p.optimiser_seconds_per_parameter = file["optimiser_seconds_per_parameter"].number();
  p.operators.reserve(operators.size());
  operators.for_each([&](const JsonPlace& one) {
    p.operators.push_back({std::string(one["name"].text()), one["seconds_per_number"].number()});
  });
  p.fit = read_error(file["fit"]);
  p.held_out = read_error(file["held_out"]);
  if (file.has("device")) p.device = read_measured_device(file["device"]);
  return p;
}

inline Profile profile_from(JsonInput& input) {
  Profile profile = read_profile(JsonPlace(JsonTree(input), "profile"));
  validate(profile);
  return profile;
}

}  // namespace detail

/// A profile as a file: one JSON object (docs/profile.md), whose numbers read back exactly.
/// @throws InvalidInput as `validate`.
[[nodiscard]] inline std::string to_json(const Profile& p) {
  validate(p);
  nlohmann::ordered_json model{{"name", p.model.name}};
  detail::visit_sizes(p.model, [&](const char* name, std::int32_t size) { model[name] = size; });
  auto operators = nlohmann::ordered_json::array();
  for (const OperatorRate& o : p.operators)
    operators.push_back({{"name", o.name}, {"seconds_per_number", o.seconds_per_number}});
  nlohmann::ordered_json json{
      {"format", "slimpack-profile"},
      {"version", 1},
      {"model", std::move(model)},
      {"real_bytes", p.real_bytes},
      {"machine", p.machine},
      {"date", p.date},
      {"forward", detail::pass_to_json(p.forward)},
      {"backward", detail::pass_to_json(p.backward)},
      {"recompute", detail::rates_to_json(p.recompute)},
      {"transfer", {{"bandwidth", p.transfer.bandwidth}, {"latency", p.transfer.latency}}},
      {"optimiser_seconds_per_parameter", p.optimiser_seconds_per_parameter},
      {"operators", std::move(operators)},
      {"fit", detail::error_to_json(p.fit)},
      {"held_out", detail::error_to_json(p.held_out)}};
  if (p.device) json["device"] = detail::device_to_json(*p.device);
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Reads a profile's file. Fields that it doesn't know are ignored.
/// @throws InvalidInput naming the position of a syntax error, a field by its path (`profile.forward.layer`) and what
/// would be accepted, or as `validate`. O(size of the text).
[[nodiscard]] inline Profile profile_from_json(std::string_view text) {
  detail::JsonInput input("profile", text);
  return detail::profile_from(input);
}

/// Reads a profile's file from a stream, to its end, and never holds its text.
[[nodiscard]] inline Profile profile_from_json(std::istream& in) {
  detail::JsonInput input("profile", in);
  return detail::profile_from(input);
}

}  // namespace slimpack
