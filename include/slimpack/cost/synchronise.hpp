#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/links.hpp"
#include "slimpack/cost/zero3.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/strategy.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// How gradients are synchronised.
struct SyncOptions {
  double overlap = 0.0;         ///< share of the exchange hidden by the backward pass, [0, 1]
  double gradient_bytes = 4.0;  ///< of a parameter's gradient: fp32
  double weight_bytes = 2.0;    ///< of an updated parameter: bf16
  /// Read and written for each parameter that a device updates: its gradient, Adam's two moments and the fp32
  /// copy, read and written, and the bf16 parameter.
  double optimiser_bytes = 4.0 + 2.0 * 12.0 + 2.0;
  /// Strategy whose ranks keep the optimiser's states, if these were laid out for another one than trains (Hydraulis,
  /// section 5.2). Null: the one that trains.
  const Strategy* shards = nullptr;
  /// Who shards parameters, with ZeRO-3: every pack has reduced gradients among these, and will gather the parameters that it
  /// needs. Only copies of the shards, if there are any, have gradients to reduce. A cost model sets it.
  std::optional<ZeroGroup> zero3 = {};
};

namespace detail {

/// A share `[begin, end)` of some parameters, as a part of 1, that a device updates.
struct UpdateShare {
  DeviceId device = 0;
  double begin = 0.0, end = 0.0;
};

/// The ranks that hold a part of the model: one stage of each pipeline. Pipelines of different tensor parallelism share
/// it in `pieces`, each of which a rank has whole or not at all.
class Holders {
 public:
  Holders(const Strategy& strategy, std::span<const std::size_t> stages)
      : strategy_(&strategy), stages_(stages.begin(), stages.end()) {
    for (const PipelineSpec& p : strategy.pipelines) pieces_ = std::lcm(pieces_, p.tp);
  }

  [[nodiscard]] std::int32_t pieces() const { return pieces_; }
  [[nodiscard]] std::size_t pipelines() const { return stages_.size(); }

  /// The ranks that hold a piece, in the order of the pipelines.
  [[nodiscard]] std::vector<DeviceId> of(std::int32_t piece) const {
    std::vector<DeviceId> ranks;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const PipelineSpec& p = strategy_->pipelines[i];
      for (std::int32_t rank = piece / (pieces_ / p.tp); rank < p.tp * p.cp; rank += p.tp)
        ranks.push_back(p.devices[stages_[i]][static_cast<std::size_t>(rank)]);
    }
    return ranks;
  }

  /// What each of them has after a reduce-scatter: an equal share of its pieces. Ascending.
  [[nodiscard]] std::vector<UpdateShare> shares() const {
    std::vector<UpdateShare> out;
    for (std::int32_t piece = 0; piece < pieces_; ++piece) {
      const std::vector<DeviceId> ranks = of(piece);
      const double each = 1.0 / (double(pieces_) * static_cast<double>(ranks.size()));
      const double first = double(piece) / pieces_;
      for (std::size_t i = 0; i < ranks.size(); ++i)
        out.push_back({ranks[i], first + double(i) * each, first + double(i + 1) * each});
    }
    return out;
  }

 private:
  const Strategy* strategy_;
  std::vector<std::size_t> stages_;
  std::int32_t pieces_ = 1;
};

/// Seconds of each device, added up over parts of the model.
class SyncLoad {
 public:
  SyncLoad(const Device& device, const SyncOptions& options) : device_(device), options_(options) {}

  /// A part with this many parameters. @param trains who holds it. @param keeps who has its optimiser's states.
  void add(double parameters, const Holders& trains, const Holders& keeps) {
    if (options_.zero3) return add_shards(parameters, trains);
    for (std::int32_t piece = 0; piece < trains.pieces(); ++piece)
      add_ring(parameters / trains.pieces(), trains.of(piece));
    const std::vector<UpdateShare> have = trains.shares(), update = keeps.shares();
    for (const UpdateShare& share : update) {
      seconds_[share.device] +=
          parameters * (share.end - share.begin) * options_.optimiser_bytes / device_.memory_bandwidth;
    }
    if (options_.shards != nullptr) add_moves(parameters, have, update);
  }

  [[nodiscard]] double slowest() const {
    double most = 0.0;
    for (const auto& [device, seconds] : seconds_) most = std::max(most, seconds);
    return most;
  }

 private:
  /// Reduce-scatter of gradients and all-gather of parameters among a group.
  void add_ring(double parameters, const std::vector<DeviceId>& group) {
    const auto n = static_cast<double>(group.size());
    const double bytes = parameters * (options_.gradient_bytes + options_.weight_bytes) * (n - 1.0) / n;
    const double bandwidth = ring_bandwidth(device_, group);
    for (const DeviceId d : group) add_exchange(d, bytes / bandwidth);
  }

  /// Parameters that ZeRO-3 shards: each rank reduces its shard's gradients with those that have the same one, and updates
  /// it. @pre all pipelines have the same context parallelism.
  void add_shards(double parameters, const Holders& trains) {
    for (std::int32_t piece = 0; piece < trains.pieces(); ++piece) {
      const std::vector<DeviceId> ranks = trains.of(piece);
      const std::size_t copies = *options_.zero3 == ZeroGroup::all ? 1 : trains.pipelines();
      const std::size_t shards = ranks.size() / copies;
      const double own = parameters / trains.pieces() / static_cast<double>(shards);
      for (std::size_t i = 0; i < shards; ++i) {
        std::vector<DeviceId> same;
        for (std::size_t c = 0; c < copies; ++c) same.push_back(ranks[i + shards * c]);
        const auto n = static_cast<double>(copies);
        const double bytes = 2.0 * own * options_.gradient_bytes * (n - 1.0) / n;
        const double bandwidth = ring_bandwidth(device_, same);
        for (const DeviceId d : same) {
          seconds_[d] += own * options_.optimiser_bytes / device_.memory_bandwidth;
          add_exchange(d, bytes / bandwidth);
        }
      }
    }
  }

  /// Reduced gradients to who updates them, and updated parameters back. A device sends and receives at once.
  void add_moves(double parameters, std::span<const UpdateShare> have, std::span<const UpdateShare> update) {
    struct Moved {
      double sent = 0.0, received = 0.0;
      bool leaves_node = false;
    };
    std::unordered_map<DeviceId, Moved> moved;
    for (std::size_t i = 0, j = 0; i < have.size() && j < update.size();) {
      const double begin = std::max(have[i].begin, update[j].begin),
                   end = std::min(have[i].end, update[j].end);
      if (have[i].device != update[j].device && begin < end) {
        const std::array pair{have[i].device, update[j].device};
        const bool leaves = pair[0] / device_.devices_per_node != pair[1] / device_.devices_per_node;
        Moved &from = moved[pair[0]], &to = moved[pair[1]];
        from.sent += parameters * (end - begin);
        to.received += parameters * (end - begin);
        from.leaves_node |= leaves;
        to.leaves_node |= leaves;
      }
      ++(have[i].end < update[j].end ? i : j);
    }
    for (const auto& [device, m] : moved) {
      const double bytes = std::max(m.sent, m.received) * (options_.gradient_bytes + options_.weight_bytes);
      add_exchange(device, bytes / (m.leaves_node ? device_.inter_node : device_.intra_node).bandwidth);
    }
  }

  void add_exchange(DeviceId device, double seconds) {
    seconds_[device] += seconds * (1.0 - options_.overlap);
  }

  const Device& device_;
  const SyncOptions& options_;
  std::unordered_map<DeviceId, double> seconds_;
};

/// The stage of each pipeline that holds a layer.
[[nodiscard]] inline std::vector<std::size_t> stages_of_layer(const Strategy& strategy, std::int32_t layer) {
  std::vector<std::size_t> stages;
  for (const PipelineSpec& p : strategy.pipelines) {
    std::size_t s = 0;
    for (std::int32_t end = p.layers[0]; end <= layer; end += p.layers[s]) ++s;
    stages.push_back(s);
  }
  return stages;
}

/// First or last stage of each pipeline.
[[nodiscard]] inline std::vector<std::size_t> end_stages(const Strategy& strategy, bool last) {
  std::vector<std::size_t> stages;
  for (const PipelineSpec& p : strategy.pipelines) stages.push_back(last ? p.stages() - 1 : 0);
  return stages;
}

}  // namespace detail

/// Synchronisation at the end of a step: each layer's gradients are reduced over all ranks of all pipelines that hold
/// it, each of which updates an equal share and gives the new parameters to the others; so are the embedding, on the
/// first stages, and the head and the last norm, on the last. Ring collectives among all these ranks (`ring_bandwidth`),
/// one after another. Optimiser states do not move: where they are with other ranks (`SyncOptions::shards`), reduced
/// gradients are sent there, and new parameters back. With ZeRO-3, what is left is the update of each rank's shard, and the
/// exchange among copies of it (`SyncOptions::zero3`). The slowest device's sum counts.
/// @throws InvalidInput if a pipeline can't train this model, or an option is impossible.
/// Complexity: O(layers * devices of a stage of all pipelines * their largest tensor parallelism).
[[nodiscard]] inline double sync_seconds(const Strategy& strategy, const Transformer& model,
                                         const Device& device, const SyncOptions& options = {}) {
  const Strategy& keeps = options.shards == nullptr ? strategy : *options.shards;
  require(options.overlap >= 0.0 && options.overlap <= 1.0, "overlap is ", options.overlap,
          "; expected a share in [0, 1]");
  require(
      !options.zero3 || options.shards == nullptr,
      "zero3 and shards are both given; expected optimiser states with the parameters that they belong to");
  for (const Strategy* s : {&strategy, &keeps}) {
    require(!s->pipelines.empty(), "a strategy has no pipelines; expected at least one");
    for (const PipelineSpec& p : s->pipelines) {
      validate(p, model);
      require(!options.zero3 || p.cp == strategy.pipelines.front().cp,
              "pipelines that shard parameters (ZeRO-3) have cp ", strategy.pipelines.front().cp, " and ",
              p.cp, "; expected the same");
    }
  }
  detail::SyncLoad load(device, options);
  struct Stages {
    std::vector<std::size_t> train, keep;
    bool operator==(const Stages&) const = default;
  };
  const auto add = [&](double parameters, const Stages& at) {
    load.add(parameters, detail::Holders(strategy, at.train), detail::Holders(keeps, at.keep));
  };
  Stages at{detail::end_stages(strategy, false), detail::end_stages(keeps, false)};
  double parameters = embedding_parameters(model);  // of layers in a row that the same stages hold
  for (std::int32_t layer = 0; layer < model.layers; ++layer) {
    Stages next{detail::stages_of_layer(strategy, layer), detail::stages_of_layer(keeps, layer)};
    if (next != at) {
      add(parameters, at);
      parameters = 0.0;
      at = std::move(next);
    }
    parameters += layer_parameters(model);
  }
  add(parameters, at);
  add(embedding_parameters(model) + model.hidden,
      {detail::end_stages(strategy, true), detail::end_stages(keeps, true)});
  return load.slowest();
}

}  // namespace slimpack
