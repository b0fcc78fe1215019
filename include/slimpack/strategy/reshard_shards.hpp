#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ragged.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// Numbers `[begin, end)` of a unit's parameter vector that a device holds. A unit is the embedding, a layer, or the final
/// norm with the output head. Its vector is ordered so that equal parts of it are the shards of tensor parallelism.
struct ParameterShard {
  DeviceId device = 0;
  std::int64_t begin = 0, end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const ParameterShard&, const ParameterShard&) = default;
};

/// Which device holds which parameters.
struct ParameterShards {
  std::vector<std::int64_t> sizes;  ///< [unit] numbers of its vector
  /// [unit] in ascending order of begin, then end, then device. Devices that have the same numbers are replicas.
  Ragged<ParameterShard> shards;

  [[nodiscard]] std::size_t units() const { return sizes.size(); }
  /// What a device holds of a unit, ascending: the order in which its memory holds it. O(shards of the unit).
  [[nodiscard]] std::vector<ParameterShard> of(std::size_t unit, DeviceId device) const {
    std::vector<ParameterShard> own;
    for (const ParameterShard& shard : shards[unit]) {
      if (shard.device == device) own.push_back(shard);
    }
    return own;
  }
  friend bool operator==(const ParameterShards&, const ParameterShards&) = default;
};

/// Numbers of each unit: the embedding, the layers in order, the final norm with the output head.
/// @throws InvalidInput if the model is impossible.
[[nodiscard]] inline std::vector<std::int64_t> unit_sizes(const Transformer& model) {
  validate(model);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(model.layers) + 2,
                                  static_cast<std::int64_t>(layer_parameters(model)));
  sizes.front() = static_cast<std::int64_t>(embedding_parameters(model));
  sizes.back() = sizes.front() + model.hidden;
  return sizes;
}

namespace detail {

/// Where part `i` of `n` numbers cut into `parts` begins. Cuts into a divisor of `parts` are among these. No overflow.
[[nodiscard]] constexpr std::int64_t part_begin(std::int64_t n, std::int64_t parts, std::int64_t i) {
  return n / parts * i + n % parts * i / parts;
}

[[nodiscard]] inline ParameterShard shard_of(DeviceId device, std::int64_t n, std::int64_t parts,
                                             std::int64_t i) {
  return {device, part_begin(n, parts, i), part_begin(n, parts, i + 1)};
}

/// Adds a unit's shards in their order; those without numbers are left out.
inline void add_unit(std::vector<ParameterShard> shards, Ragged<ParameterShard>& out) {
  const auto key = [](const ParameterShard& s) { return std::tuple(s.begin, s.end, s.device); };
  std::sort(shards.begin(), shards.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  for (const ParameterShard& shard : shards) {
    if (shard.size() > 0) out.add(shard);
  }
  out.close();
}

/// The stages that hold a unit, one of each pipeline.
[[nodiscard]] inline std::vector<std::size_t> stages_of_unit(const Strategy& strategy, std::size_t unit,
                                                             std::size_t units) {
  if (unit == 0 || unit + 1 == units) return end_stages(strategy, unit != 0);
  return stages_of_layer(strategy, static_cast<std::int32_t>(unit) - 1);
}

/// Asks `of_unit(size, stages)` for the shards of each unit.
template <class F>
[[nodiscard]] ParameterShards shards_of_units(const Strategy& strategy, const Transformer& model,
                                              F&& of_unit) {
  require(!strategy.pipelines.empty(), "the strategy has no pipelines; expected at least one");
  for (const PipelineSpec& spec : strategy.pipelines) validate(spec, model);
  require_distinct_devices(strategy);
  ParameterShards out{unit_sizes(model), {}};
  for (std::size_t unit = 0; unit < out.units(); ++unit)
    add_unit(of_unit(out.sizes[unit], stages_of_unit(strategy, unit, out.units())), out.shards);
  return out;
}

}  // namespace detail

/// What each device needs while a strategy trains: of the units of its stage, the part of its tensor rank. Context ranks and
/// pipelines are replicas. The embedding is on the first stages, the head on the last.
/// @throws InvalidInput if the strategy can't train this model, or a device is in two places.
/// Complexity: O(layers * devices of a stage of all pipelines).
[[nodiscard]] inline ParameterShards propagation_shards(const Strategy& strategy, const Transformer& model) {
  return detail::shards_of_units(strategy, model, [&](std::int64_t n, std::span<const std::size_t> stages) {
    std::vector<ParameterShard> shards;
    for (std::size_t p = 0; p < stages.size(); ++p) {
      const PipelineSpec& spec = strategy.pipelines[p];
      const std::vector<DeviceId>& devices = spec.devices[stages[p]];
      for (std::size_t i = 0; i < devices.size(); ++i)
        shards.push_back(detail::shard_of(devices[i], n, spec.tp, static_cast<std::int64_t>(i) % spec.tp));
    }
    return shards;
  });
}

/// An optimiser whose states are aligned with a strategy (ZeRO-1; Hydraulis, Figure 2a): devices that hold the same part of
/// a unit update equal shares of it. `sync_seconds` prices it.
/// @throws InvalidInput as `propagation_shards`. Complexity: O(layers * devices of a stage * largest tp).
[[nodiscard]] inline ParameterShards aligned_shards(const Strategy& strategy, const Transformer& model) {
  return detail::shards_of_units(strategy, model, [&](std::int64_t n, std::span<const std::size_t> stages) {
    const detail::Holders holders(strategy, stages);
    std::vector<ParameterShard> shards;
    for (std::int32_t piece = 0; piece < holders.pieces(); ++piece) {
      const std::int64_t begin = detail::part_begin(n, holders.pieces(), piece),
                         end = detail::part_begin(n, holders.pieces(), piece + 1);
      const std::vector<DeviceId> ranks = holders.of(piece);
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        ParameterShard shard = detail::shard_of(
            ranks[i], end - begin, static_cast<std::int64_t>(ranks.size()), static_cast<std::int64_t>(i));
        shard.begin += begin;
        shard.end += begin;
        shards.push_back(shard);
      }
    }
    return shards;
  });
}

/// An optimiser that knows no pipelines: each device updates an equal share of every unit (Hydraulis, section 5.2, "fully
/// sharded").
/// @param devices that hold the shares, in this order. @throws InvalidInput if there is none, one is listed twice, or the
/// model is impossible. Complexity: O(layers * devices).
[[nodiscard]] inline ParameterShards full_shards(std::span<const DeviceId> devices,
                                                 const Transformer& model) {
  require(!devices.empty(), "no devices hold the optimiser's states; expected at least one");
  std::vector<DeviceId> sorted(devices.begin(), devices.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  require(twice == sorted.end(), "device ", twice == sorted.end() ? 0 : *twice,
          " is listed twice among the optimiser's; expected each device once");
  ParameterShards out{unit_sizes(model), {}};
  const auto parts = static_cast<std::int64_t>(devices.size());
  for (const std::int64_t n : out.sizes) {
    std::vector<ParameterShard> shards;
    for (std::size_t i = 0; i < devices.size(); ++i)
      shards.push_back(detail::shard_of(devices[i], n, parts, static_cast<std::int64_t>(i)));
    detail::add_unit(std::move(shards), out.shards);
  }
  return out;
}

/// @param name of the layout, for messages, such as "the optimiser's layout".
/// @throws InvalidInput naming the first unit whose shards are out of range or order, are held twice by one device, or leave
/// numbers without a holder. Complexity: O(shards log shards).
inline void validate(const ParameterShards& layout, const char* name) {
  require(layout.shards.size() == layout.units(), name, " has shards of ", layout.shards.size(),
          " units; expected its ", layout.units());
  for (std::size_t u = 0; u < layout.units(); ++u) {
    const std::span<const ParameterShard> shards = layout.shards[u];
    std::int64_t covered = 0;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const ParameterShard& s = shards[i];
      require(s.begin >= 0 && s.begin < s.end && s.end <= layout.sizes[u], name, " gives device ", s.device,
              " numbers [", s.begin, ", ", s.end, ") of unit ", u, "; expected some of its ",
              layout.sizes[u]);
      require(i == 0 || shards[i - 1].begin <= s.begin, name, " names shard ", i, " of unit ", u,
              " after one that begins later; expected ascending shards");
      require(s.begin <= covered, name, " gives numbers [", covered, ", ", s.begin, ") of unit ", u,
              " to no device; expected at least one");
      covered = std::max(covered, s.end);
    }
    require(covered == layout.sizes[u], name, " gives numbers [", covered, ", ", layout.sizes[u],
            ") of unit ", u, " to no device; expected at least one");
    std::vector<ParameterShard> by_device(shards.begin(), shards.end());
    std::stable_sort(by_device.begin(), by_device.end(),
                     [](const ParameterShard& a, const ParameterShard& b) { return a.device < b.device; });
    for (std::size_t i = 1; i < by_device.size(); ++i) {
      require(by_device[i - 1].device != by_device[i].device || by_device[i - 1].end <= by_device[i].begin,
              name, " gives device ", by_device[i].device, " number ", by_device[i].begin, " of unit ", u,
              " twice; expected shards that don't overlap");
    }
  }
}

}  // namespace slimpack
