#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/model/parallel.hpp"

namespace slimpack {

/// Number of a device among all devices of a training run. Nodes hold `Device::devices_per_node` consecutive ones.
using DeviceId = std::int32_t;

/// Who computes what in one pipeline: its stages, their layers and their devices.
struct PipelineSpec {
  std::int32_t tp = 1;               ///< tensor parallelism of each stage
  std::int32_t cp = 1;               ///< context parallelism of each pack
  std::vector<std::int32_t> layers;  ///< held by each stage, in the order of the stages
  std::vector<std::vector<DeviceId>>
      devices;  ///< [stage][context rank * tp + tensor rank]; empty: not stated

  [[nodiscard]] std::size_t stages() const { return layers.size(); }
  [[nodiscard]] std::int64_t ranks_per_stage() const { return std::int64_t{tp} * cp; }
  friend bool operator==(const PipelineSpec&, const PipelineSpec&) = default;
};

/// Whether two pipelines differ in their devices only.
[[nodiscard]] inline bool same_kind(const PipelineSpec& a, const PipelineSpec& b) {
  return a.tp == b.tp && a.cp == b.cp && a.layers == b.layers;
}

/// Pipelines that train together. Pipelines of one kind differ only in their devices: one cost model and one memory
/// model describe them all, and they can be merged.
struct Strategy {
  std::vector<PipelineSpec> pipelines;
  std::vector<std::uint32_t> kind;  ///< [pipeline] number of its kind, from 0 by first appearance

  /// The number of kinds.
  [[nodiscard]] std::size_t kinds() const {
    return kind.empty() ? 0 : std::size_t{*std::max_element(kind.begin(), kind.end())} + 1;
  }
  /// The first pipeline of a kind, k < kinds().
  [[nodiscard]] const PipelineSpec& spec_of_kind(std::uint32_t k) const {
    return pipelines[static_cast<std::size_t>(std::find(kind.begin(), kind.end(), k) - kind.begin())];
  }
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

/// Numbers the kinds of pipelines by first appearance. Complexity: O(pipelines * kinds).
[[nodiscard]] inline Strategy strategy_of(std::vector<PipelineSpec> pipelines) {
  Strategy strategy;
  std::vector<std::size_t> first;  // [kind] its first pipeline
  for (std::size_t p = 0; p < pipelines.size(); ++p) {
    const auto known = std::find_if(first.begin(), first.end(),
                                    [&](std::size_t q) { return same_kind(pipelines[p], pipelines[q]); });
    strategy.kind.push_back(static_cast<std::uint32_t>(known - first.begin()));
    if (known == first.end()) first.push_back(p);
  }
  strategy.pipelines = std::move(pipelines);
  return strategy;
}

namespace detail {

/// @param where text that follows a part's name in messages, such as " of pipeline 2".
inline void validate_layers(const PipelineSpec& spec, const Transformer& model, std::string_view where) {
  require(spec.tp > 0, "tp", where, " is ", spec.tp, "; expected a positive number");
  require(spec.cp > 0, "cp", where, " is ", spec.cp, "; expected a positive number");
  require(model.heads % spec.tp == 0, "tp", where, " is ", spec.tp, "; expected a divisor of the ",
          model.heads, " heads of model '", visible(model.name), "'");
  require(!spec.layers.empty(), "the number of stages", where, " is 0; expected at least one");
  std::int64_t layers = 0;
  for (std::size_t s = 0; s < spec.stages(); ++s) {
    require(spec.layers[s] >= 0, "stage ", s, where, " has ", spec.layers[s],
            " layers; expected none or more");
    layers += spec.layers[s];
  }
  require(layers == model.layers, "the stages", where, " hold ", layers, " layers; expected the ",
          model.layers, " of model '", visible(model.name), "'");
}

inline void validate_devices(const PipelineSpec& spec, std::string_view where) {
  require(spec.devices.size() == spec.stages(), "devices", where, " are given for ", spec.devices.size(),
          " stages; expected ", spec.stages(), ", one for each");
  for (std::size_t s = 0; s < spec.stages(); ++s) {
    require(std::cmp_equal(spec.devices[s].size(), spec.ranks_per_stage()), "stage ", s, where, " has ",
            spec.devices[s].size(), " devices; expected tp * cp = ", spec.ranks_per_stage());
    for (const DeviceId id : spec.devices[s])
      require(id >= 0, "stage ", s, where, " has device ", id, "; expected zero or a positive number");
  }
}

}  // namespace detail

/// @throws InvalidInput naming the first part of a pipeline that can't train this model, or a stage without its tp * cp devices.
/// O(devices).
inline void validate(const PipelineSpec& spec, const Transformer& model) {
  detail::validate_layers(spec, model, "");
  detail::validate_devices(spec, "");
}

/// @throws InvalidInput if a strategy has no pipelines, or other kinds than `strategy_of` gives them. O(pipelines * kinds).
inline void validate_kinds(const Strategy& strategy) {
  require(!strategy.pipelines.empty(), "the strategy has no pipelines; expected at least one");
  require(strategy.kind.size() == strategy.pipelines.size(), "the strategy names the kinds of ",
          strategy.kind.size(), " pipelines; expected its ", strategy.pipelines.size());
  const Strategy expected = strategy_of(strategy.pipelines);
  for (std::size_t p = 0; p < strategy.kind.size(); ++p) {
    require(
        strategy.kind[p] == expected.kind[p], "pipeline ", p, " is of kind ", strategy.kind[p], "; expected ",
        expected.kind[p],
        ", for kinds are numbered by first appearance and hold pipelines that differ in their devices only");
  }
}

namespace detail {

inline void require_distinct_devices(const Strategy& strategy) {
  std::vector<DeviceId> all;
  for (const PipelineSpec& spec : strategy.pipelines) {
    for (const auto& stage : spec.devices) all.insert(all.end(), stage.begin(), stage.end());
  }
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  require(twice == all.end(), "device ", twice == all.end() ? 0 : *twice,
          " is in two places; expected each in one stage of one pipeline");
}

}  // namespace detail

/// @throws InvalidInput naming the first pipeline, stage or device that is wrong: layers that are not the model's, a tp
/// that does not divide its heads, missing or doubled devices (where devices are named), kinds that are not those of
/// `strategy_of`. Complexity: O(devices log(devices) + pipelines * (kinds + stages)).
inline void validate(const Strategy& strategy, const Transformer& model) {
  validate(model);
  for (std::size_t p = 0; p < strategy.pipelines.size(); ++p) {
    const std::string where = concat(" of pipeline ", p);
    detail::validate_layers(strategy.pipelines[p], model, where);
    if (!strategy.pipelines[p].devices.empty()) detail::validate_devices(strategy.pipelines[p], where);
  }
  detail::require_distinct_devices(strategy);
  validate_kinds(strategy);
}

/// Pipeline `replica` of a layout. Devices are numbered tp, cp, dp, pp, innermost first, as Megatron Core does.
[[nodiscard]] inline PipelineSpec layout_pipeline(const Transformer& model, const Layout& layout,
                                                  std::int32_t replica) {
  PipelineSpec spec{
      .tp = layout.tp, .cp = layout.cp, .layers = split_layers(model.layers, layout.pp), .devices = {}};
  for (std::int32_t s = 0; s < layout.pp; ++s) {
    std::vector<DeviceId>& own = spec.devices.emplace_back();
    for (std::int32_t rank = 0; rank < layout.tp * layout.cp; ++rank)
      own.push_back(rank + layout.tp * layout.cp * (replica + layout.dp * s));
  }
  return spec;
}

/// Most devices of a layout that `layout_strategy` takes, because a strategy lists each device.
inline constexpr std::int64_t most_listed_devices = std::int64_t{1} << 22;

/// The uniform strategy of a layout: `dp` pipelines of one kind. @throws InvalidInput if the job is impossible, or has more
/// devices than are listed.
[[nodiscard]] inline Strategy layout_strategy(const Job& job) {
  validate(job);
  const Layout& layout = job.layout;
  require(layout.devices() <= most_listed_devices, "dp ", layout.dp, ", tp ", layout.tp, ", cp ", layout.cp,
          " and pp ", layout.pp, " take ", layout.devices(), " devices; expected at most ",
          most_listed_devices);
  Strategy strategy;
  for (std::int32_t d = 0; d < layout.dp; ++d)
    strategy.pipelines.push_back(layout_pipeline(job.model, layout, d));
  strategy.kind.assign(strategy.pipelines.size(), 0);
  return strategy;
}

/// A pipeline as text, such as "tp 8, cp 1, pp 1".
[[nodiscard]] inline std::string to_text(const PipelineSpec& spec) {
  return concat("tp ", spec.tp, ", cp ", spec.cp, ", pp ", spec.stages());
}

/// A strategy as text, such as "1 x (tp 8, cp 1, pp 1) + 12 x (tp 2, cp 1, pp 1)".
[[nodiscard]] inline std::string to_text(const Strategy& strategy) {
  std::string text;
  for (std::uint32_t k = 0; k < strategy.kinds(); ++k) {
    text += concat(text.empty() ? "" : " + ", std::count(strategy.kind.begin(), strategy.kind.end(), k),
                   " x (", to_text(strategy.spec_of_kind(k)), ")");
  }
  return text;
}

}  // namespace slimpack
