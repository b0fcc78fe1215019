#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/strategy/schemes.hpp"

namespace slimpack {

namespace detail {

/// Devices that no pipeline has yet, node by node.
class FreeDevices {
 public:
  FreeDevices(std::int64_t devices, std::int32_t devices_per_node) : node_size_(devices_per_node) {
    for (std::int64_t id = 0; id < devices; ++id) {
      if (id % node_size_ == 0) nodes_.emplace_back();
      nodes_.back().push_back(static_cast<DeviceId>(id));
    }
    for (std::vector<DeviceId>& node : nodes_) std::reverse(node.begin(), node.end());
  }

  /// Moves on to a node that holds a whole pipeline, if this one does not and another one does.
  void begin_pipeline(std::int64_t ranks) { (void)move_to(static_cast<std::size_t>(ranks)); }

  /// Takes devices for one stage: of one node if any has so many, that of the stage before if possible, else the one with the
  /// fewest left over. Otherwise tensor-parallel groups are kept together, and only if that can't be, they are spread.
  [[nodiscard]] std::vector<DeviceId> take_stage(std::int32_t tp, std::int32_t cp) {
    std::vector<DeviceId> out;
    if (take_together(tp * cp, out)) return out;
    for (std::int32_t rank = 0; rank < cp; ++rank) {
      if (!take_together(tp, out)) take_anywhere(tp, out);
    }
    return out;
  }

 private:
  /// Finds a node with so many devices: this one, or else the one with the fewest left over.
  [[nodiscard]] bool move_to(std::size_t wanted) {
    if (nodes_[last_].size() >= wanted) return true;
    std::size_t best = nodes_.size();
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].size() >= wanted && (best == nodes_.size() || nodes_[n].size() < nodes_[best].size()))
        best = n;
    }
    if (best == nodes_.size()) return false;
    last_ = best;
    return true;
  }

  bool take_together(std::int32_t count, std::vector<DeviceId>& out) {
    const auto wanted = static_cast<std::size_t>(count);
    if (!move_to(wanted)) return false;
    take(last_, wanted, out);
    return true;
  }

  /// From the nodes with most devices left, so that a group lies in few nodes.
  void take_anywhere(std::int32_t count, std::vector<DeviceId>& out) {
    for (auto left = static_cast<std::size_t>(count); left > 0;) {
      last_ = static_cast<std::size_t>(
          std::max_element(nodes_.begin(), nodes_.end(),
                           [](const auto& a, const auto& b) { return a.size() < b.size(); }) -
          nodes_.begin());
      const std::size_t here = std::min(left, nodes_[last_].size());
      take(last_, here, out);
      left -= here;
    }
  }

  void take(std::size_t node, std::size_t count, std::vector<DeviceId>& out) {
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(nodes_[node].back());
      nodes_[node].pop_back();
    }
  }

  std::int64_t node_size_;
  std::vector<std::vector<DeviceId>> nodes_;  // descending
  std::size_t last_ = 0;
};

}  // namespace detail

/// So many pipelines of a scheme.
struct SchemeCount {
  Scheme scheme;
  std::int64_t pipelines = 0;
  friend bool operator==(const SchemeCount&, const SchemeCount&) = default;
};

/// Devices that pipelines take together.
[[nodiscard]] inline std::int64_t count_devices(std::span<const SchemeCount> counts) {
  std::int64_t sum = 0;
  for (const SchemeCount& each : counts) sum += each.pipelines * each.scheme.ranks();
  return sum;
}

/// Which stages choose their devices one after another.
enum class Placement : std::uint8_t {
  by_pipeline,  ///< all of a pipeline, so that what it hands from stage to stage stays in a node
  by_stage,     ///< the first of all pipelines, then the second: so that gradients are synchronised in a node
};

/// The strategy of so many pipelines of each scheme: each stage in one node where possible, and its neighbours, as
/// `placement` says, in the same one. Widest stages choose first.
/// @throws InvalidInput if there are no pipelines, or fewer devices than they take.
/// Source: Hydraulis, section 5.1. O(stages * nodes).
[[nodiscard]] inline Strategy place_pipelines(const Transformer& model, const Device& device,
                                              std::int64_t devices, std::vector<SchemeCount> counts,
                                              Placement placement = Placement::by_pipeline) {
  std::erase_if(counts, [](const SchemeCount& each) { return each.pipelines == 0; });
  require(!counts.empty(), "the strategy has no pipelines; expected at least one");
  for (const SchemeCount& each : counts)
    require(each.pipelines > 0, "there are ", each.pipelines, " pipelines of (", to_text(each.scheme),
            "); expected a positive number");
  const std::int64_t needed = count_devices(counts);
  require(needed <= devices, "the pipelines take ", needed, " devices; expected at most ", devices);
  std::stable_sort(counts.begin(), counts.end(), [](const SchemeCount& a, const SchemeCount& b) {
    return std::pair(a.scheme.tp * a.scheme.cp, a.scheme.ranks()) >
           std::pair(b.scheme.tp * b.scheme.cp, b.scheme.ranks());
  });
  Strategy strategy;
  std::size_t deepest = 0;
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    const PipelineSpec spec = scheme_pipeline(model, counts[kind].scheme);
    deepest = std::max(deepest, spec.stages());
    strategy.pipelines.insert(strategy.pipelines.end(), static_cast<std::size_t>(counts[kind].pipelines),
                              spec);
    strategy.kind.insert(strategy.kind.end(), static_cast<std::size_t>(counts[kind].pipelines),
                         static_cast<std::uint32_t>(kind));
  }
  detail::FreeDevices free(devices, device.devices_per_node);
  const auto take = [&](PipelineSpec& spec) { spec.devices.push_back(free.take_stage(spec.tp, spec.cp)); };
  if (placement == Placement::by_pipeline) {
    for (PipelineSpec& spec : strategy.pipelines) {
      free.begin_pipeline(spec.ranks_per_stage() * static_cast<std::int64_t>(spec.stages()));
      for (std::size_t s = 0; s < spec.stages(); ++s) take(spec);
    }
  } else {
    for (std::size_t s = 0; s < deepest; ++s) {
      for (PipelineSpec& spec : strategy.pipelines) {
        if (s < spec.stages()) take(spec);
      }
    }
  }
  return strategy;
}

}  // namespace slimpack
