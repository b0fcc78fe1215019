#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/model/attention_choice.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// Seconds of a pack as a sum over what it consists of. No rate is negative, so that a slice costs no more than
/// its parts together, and more the larger it is.
struct PackRates {
  double per_pack = 0.0;
  double per_slice = 0.0;
  double per_key = 0.0;  ///< per slice and token of its sample up to the slice's end: keys that are read once
  double per_token = 0.0;
  double per_twice_pair = 0.0;  ///< per unit of `twice_causal_pairs`

  /// What a slice adds to a pack; nothing if it is empty.
  [[nodiscard]] constexpr double slice_seconds(Tokens begin, Tokens end) const {
    if (begin == end) return 0.0;
    return per_slice + per_key * static_cast<double>(end) + per_token * static_cast<double>(end - begin) +
           per_twice_pair * twice_causal_pairs(begin, end);
  }

  [[nodiscard]] constexpr double seconds(std::span<const Slice> pack) const {
    double sum = per_pack;
    for (const Slice& slice : pack) sum += slice_seconds(slice.begin, slice.end);
    return sum;
  }

  constexpr PackRates& operator+=(const PackRates& other) {
    per_pack += other.per_pack;
    per_slice += other.per_slice;
    per_key += other.per_key;
    per_token += other.per_token;
    per_twice_pair += other.per_twice_pair;
    return *this;
  }
  friend constexpr PackRates operator*(double factor, const PackRates& r) {
    return {factor * r.per_pack, factor * r.per_slice, factor * r.per_key, factor * r.per_token,
            factor * r.per_twice_pair};
  }
  friend bool operator==(const PackRates&, const PackRates&) = default;
};

/// What a pass takes on a stage: `stage` once, `layer` for each of its layers, `first` and `last` on the stages
/// that hold the embedding and the head.
struct PassRates {
  PackRates layer = {}, stage = {}, first = {}, last = {};

  friend bool operator==(const PassRates&, const PassRates&) = default;
};

/// A memory-bound operator by itself.
struct OperatorRate {
  std::string name;
  double seconds_per_number = 0.0;  ///< of its input

  friend bool operator==(const OperatorRate&, const OperatorRate&) = default;
};

/// How far predicted seconds of tasks are from measured ones, relative to these.
struct PredictionError {
  std::int64_t tasks = 0;
  double median = 0.0;
  double worst = 0.0;

  friend bool operator==(const PredictionError&, const PredictionError&) = default;
};

/// What a GPU does at its best, measured, and what of it attention achieves: constants of a `Device`.
struct MeasuredDevice {
  double memory_bytes = 0.0;
  double peak_flops = 0.0;        ///< FLOP/s of a large product of bf16 numbers
  double memory_bandwidth = 0.0;  ///< bytes read and written per second by a large copy
  /// Share of `peak_flops` in a stage's tasks, as `attention_share` says; 0 if pairs had no price.
  double attention_forward = 0.0, attention_backward = 0.0;
  std::optional<AttentionChoice> attention = std::nullopt;  ///< whose tasks ran; none if it was not recorded

  friend bool operator==(const MeasuredDevice&, const MeasuredDevice&) = default;
};

/// What tasks of a model take on a machine, measured: what `MeasuredCost` knows instead of FLOPs and peak rates.
struct Profile {
  Transformer model;            ///< that was measured; its number of layers and its name do not matter
  std::int32_t real_bytes = 4;  ///< of a number in rows: 2 for bf16 (on GPUs), 4 for float, 8 for double
  std::string machine;
  std::string date;  ///< as `2025-01-31`

  PassRates forward, backward;
  PackRates recompute;  ///< added to a backward pack for each layer that it recomputes
  Link transfer;        ///< from one stage to the next
  double optimiser_seconds_per_parameter = 0.0;
  std::vector<OperatorRate> operators;

  PredictionError fit;       ///< on the tasks that the rates come from
  PredictionError held_out;  ///< on others

  std::optional<MeasuredDevice> device = std::nullopt;  ///< of a GPU, with bf16 numbers

  [[nodiscard]] const PassRates& of(Pass pass) const { return pass == Pass::forward ? forward : backward; }
  /// Of a weight or a gradient, and of what else is no 16-bit number where rows are.
  [[nodiscard]] std::int32_t weight_bytes() const { return std::max(real_bytes, 4); }
  friend bool operator==(const Profile&, const Profile&) = default;
};

/// Calls `visit(name, rate)` for each rate.
template <class AnyRates, class Visit>
constexpr void visit_rates(AnyRates& rates, Visit&& visit) {
  visit("per_pack", rates.per_pack);
  visit("per_slice", rates.per_slice);
  visit("per_key", rates.per_key);
  visit("per_token", rates.per_token);
  visit("per_twice_pair", rates.per_twice_pair);
}

/// Calls `visit(name, rates)` for each part of a pass.
template <class AnyPass, class Visit>
constexpr void visit_parts(AnyPass& pass, Visit&& visit) {
  visit("layer", pass.layer);
  visit("stage", pass.stage);
  visit("first", pass.first);
  visit("last", pass.last);
}

/// Calls `visit(name, value)` for each constant of a measured device.
template <class AnyDevice, class Visit>
constexpr void visit_measured(AnyDevice& device, Visit&& visit) {
  visit("memory_bytes", device.memory_bytes);
  visit("peak_flops", device.peak_flops);
  visit("memory_bandwidth", device.memory_bandwidth);
  visit("attention_forward", device.attention_forward);
  visit("attention_backward", device.attention_backward);
}

/// What attention achieves of a peak rate, by FLOPs as plans count them (docs/plan-format.md) over the seconds that a
/// profile's layer takes for its pairs: `Device::attention_forward` and `attention_backward`. 0 if they take none.
[[nodiscard]] inline double attention_share(const Profile& p, Pass pass, double peak_flops) {
  const double seconds = p.of(pass).layer.per_twice_pair;
  const double flops = slice_flops(p.model, 0, 1, pass).attention / twice_causal_pairs(0, 1);
  return seconds > 0.0 ? flops / seconds / peak_flops : 0.0;
}

/// @throws InvalidInput naming the first value that no measurement can have.
inline void validate(const Profile& p) {
  validate(p.model);
  const auto not_negative = [](std::string_view where, const char* name, double value) {
    require(value >= 0.0 && value < 1e30, "profile: ", where, name, " is ", value,
            "; expected zero or a positive number");
  };
  const auto check_pass = [&](std::string_view name, const PassRates& pass) {
    visit_parts(pass, [&](const char* part, const PackRates& rates) {
      const std::string where = concat(name, ".", part, ".");
      visit_rates(rates, [&](const char* rate, double value) { not_negative(where, rate, value); });
    });
    require(pass.layer.per_token > 0.0, "profile: ", name, ".layer.per_token is ", pass.layer.per_token,
            "; expected a positive number");
  };
  check_pass("forward", p.forward);
  check_pass("backward", p.backward);
  visit_rates(p.recompute, [&](const char* rate, double value) { not_negative("recompute.", rate, value); });
  not_negative("transfer.", "latency", p.transfer.latency);
  require(p.transfer.bandwidth > 0.0 && p.transfer.bandwidth < 1e30, "profile: transfer.bandwidth is ",
          p.transfer.bandwidth, "; expected a positive number");
  not_negative("", "optimiser_seconds_per_parameter", p.optimiser_seconds_per_parameter);
  require(p.real_bytes == 2 || p.real_bytes == 4 || p.real_bytes == 8, "profile: real_bytes is ",
          p.real_bytes, "; expected 2 (bf16), 4 (float) or 8 (double)");
  require(p.device.has_value() == (p.real_bytes == 2), "profile: real_bytes is ", p.real_bytes,
          p.device ? " with a device; expected 2 (bf16)" : " without a device; expected the GPU's constants");
  if (!p.device) return;
  visit_measured(*p.device, [&](const char* name, double value) { not_negative("device.", name, value); });
  require(p.device->memory_bytes > 0.0, "profile: device.memory_bytes is 0; expected a positive number");
  require(p.device->peak_flops > 0.0, "profile: device.peak_flops is 0; expected a positive number");
}

/// @throws InvalidInput naming the first size in which a profile's layers differ from a model's.
inline void require_same_layers(const Profile& profile, const Transformer& model) {
  const auto same = [&](const char* field, std::int32_t measured, std::int32_t wanted) {
    require(measured == wanted, "the profile is of a model with ", field, " ", measured, ", but model '",
            visible(model.name), "' has ", wanted, "; expected a profile of this model's layers");
  };
  same("hidden", profile.model.hidden, model.hidden);
  same("heads", profile.model.heads, model.heads);
  same("kv_heads", profile.model.kv_heads, model.kv_heads);
  same("head_dim", profile.model.head_dim, model.head_dim);
  same("ffn", profile.model.ffn, model.ffn);
  same("vocab", profile.model.vocab, model.vocab);
}

}  // namespace slimpack
