#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_map>
#include <vector>

#include "slimpack/core/ragged.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/strategy/reshard_shards.hpp"
#include "slimpack/strategy/reshard_slices.hpp"

namespace slimpack {

/// How parameters move between layouts.
struct ReshardOptions {
  /// A node that needs a slice gets it once over the network; the device that got it gives it to the others of its node.
  /// Otherwise each gets it from who had it before.
  bool by_node = true;
  /// A slice that several replicas could send is cut into as many parts, which have at least this many numbers.
  std::int64_t least_part = 1 << 16;
};

/// Some numbers of a unit that go from one device to another, or stay on one and change buffers.
struct ReshardMove {
  std::int64_t begin = 0, end = 0;
  DeviceId from = 0, to = 0;
  /// The sender had the numbers from another device, not in the first layout: this move comes after that.
  bool forwarded = false;

  [[nodiscard]] bool local() const { return from == to; }
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const ReshardMove&, const ReshardMove&) = default;
};

/// How all devices get from one layout of the parameters to another (Hydraulis, section 5.2, the LNK operator). Read forwards
/// it is a pull: parameters go to where they are needed. Read backwards it is a push: along the same ways gradients
/// come back, and meet in sums.
struct ReshardPlan {
  ParameterShards from, to;
  /// [unit] by slice, ascending; of a slice, those that are forwarded come last.
  Ragged<ReshardMove> moves;
};

namespace detail {

/// What each device would do in a pull, for the choice of who sends.
class ReshardLoads {
 public:
  explicit ReshardLoads(const Device& device) : device_(device) {}

  [[nodiscard]] DeviceId node_of(DeviceId id) const { return id / device_.devices_per_node; }

  /// The one that has sent least over the link to a node. @pre there is one.
  [[nodiscard]] DeviceId sender(std::span<const DeviceId> ids, DeviceId node) const {
    return least(ids, [&](DeviceId id) { return load(id, node_of(id) == node ? sent : sent_far); });
  }
  /// The one of a node that has received least from others and sent least within. @pre there is one.
  [[nodiscard]] DeviceId forwarder(std::span<const DeviceId> ids) const {
    return least(ids, [&](DeviceId id) { return std::max(load(id, received_far), load(id, sent)); });
  }

  void add(const ReshardMove& move) {
    if (move.local()) return;
    const bool far = node_of(move.from) != node_of(move.to);
    const double seconds =
        static_cast<double>(move.size()) / (far ? device_.inter_node : device_.intra_node).bandwidth;
    loads_[move.from][far ? sent_far : sent] += seconds;
    loads_[move.to][far ? received_far : received] += seconds;
  }

 private:
  enum Port : std::uint8_t { sent, received, sent_far, received_far };

  [[nodiscard]] double load(DeviceId id, Port port) const {
    const auto known = loads_.find(id);
    return known == loads_.end() ? 0.0 : known->second[port];
  }

  template <class F>
  [[nodiscard]] static DeviceId least(std::span<const DeviceId> ids, F&& load_of) {
    DeviceId best = ids.front();
    double best_load = load_of(best);
    for (const DeviceId id : ids.subspan(1)) {
      const double next = load_of(id);
      if (next < best_load) best = id, best_load = next;
    }
    return best;
  }

  const Device& device_;
  std::unordered_map<DeviceId, std::array<double, 4>> loads_;
};

/// Chooses the moves of one slice after another.
class ReshardPlanner {
 public:
  ReshardPlanner(const Device& device, const ReshardOptions& options, Ragged<ReshardMove>& moves)
      : loads_(device), options_(options), moves_(moves) {}

  void add(const MutualSlice& slice) {
    const auto most = static_cast<std::int64_t>(slice.from.size());
    const std::int64_t parts = std::clamp<std::int64_t>(slice.size() / options_.least_part, 1, most);
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t begin = slice.begin + part_begin(slice.size(), parts, i),
                         end = slice.begin + part_begin(slice.size(), parts, i + 1);
      add_part(slice, begin, end);
    }
  }

 private:
  void add_part(const MutualSlice& slice, std::int64_t begin, std::int64_t end) {
    const auto move = [&](DeviceId from, DeviceId to, bool forwarded = false) {
      const ReshardMove made{begin, end, from, to, forwarded};
      loads_.add(made);
      (forwarded ? forwarded_ : direct_).push_back(made);
    };
    direct_.clear();
    forwarded_.clear();
    std::vector<DeviceId> here;  // that hold it already
    std::set_intersection(slice.from.begin(), slice.from.end(), slice.to.begin(), slice.to.end(),
                          std::back_inserter(here));
    for (const DeviceId id : here) move(id, id);
    std::vector<DeviceId> left;
    std::set_difference(slice.to.begin(), slice.to.end(), slice.from.begin(), slice.from.end(),
                        std::back_inserter(left));
    for_each_node(left, [&](DeviceId node, std::span<const DeviceId> receivers) {
      const std::span<const DeviceId> near = in_node(slice.from, node);
      const std::span<const DeviceId> senders = near.empty() ? std::span<const DeviceId>(slice.from) : near;
      if (near.empty() && options_.by_node) {
        const DeviceId first = loads_.forwarder(receivers);
        move(loads_.sender(senders, node), first);
        for (const DeviceId id : receivers) {
          if (id != first) move(first, id, true);
        }
      } else {
        for (const DeviceId id : receivers) move(loads_.sender(senders, node), id);
      }
    });
    for (const ReshardMove& made : direct_) moves_.add(made);
    for (const ReshardMove& made : forwarded_) moves_.add(made);
  }

  /// Those of ascending devices that are in a node.
  [[nodiscard]] std::span<const DeviceId> in_node(std::span<const DeviceId> ids, DeviceId node) const {
    const auto begin =
        std::partition_point(ids.begin(), ids.end(), [&](DeviceId id) { return loads_.node_of(id) < node; });
    const auto end =
        std::partition_point(begin, ids.end(), [&](DeviceId id) { return loads_.node_of(id) == node; });
    return {begin, end};
  }

  /// Calls f(node, its devices) for ascending devices.
  template <class F>
  void for_each_node(std::span<const DeviceId> ids, F&& f) const {
    while (!ids.empty()) {
      const DeviceId node = loads_.node_of(ids.front());
      const std::span<const DeviceId> own = in_node(ids, node);
      f(node, own);
      ids = ids.subspan(own.size());
    }
  }

  ReshardLoads loads_;
  const ReshardOptions& options_;
  Ragged<ReshardMove>& moves_;
  std::vector<ReshardMove> direct_, forwarded_;
};

}  // namespace detail

/// Plans the way from one layout to another, for any two layouts of one model. Who has a slice already keeps it. Whoever needs
/// it gets it from a replica of its own node if there is one; with `by_node` each slice enters a node that has none
/// once at most, which is the least that can cross the network. Of several replicas that could send, the one with the
/// least to send so far does.
///
/// Between an optimiser's layout and a strategy that it is aligned with, a pull is an all-gather and a push a reduce-scatter
/// among the replicas of each shard. Between equal layouts nothing leaves a device.
/// @param device its nodes and links. @throws InvalidInput if a layout is impossible, the layouts are of different models, or
/// an option is impossible; nothing is planned then.
/// Complexity: O(sum over units of n log n + slices * replicas) in the shards of a unit.
[[nodiscard]] inline ReshardPlan plan_reshard(const ParameterShards& from, const ParameterShards& to,
                                              const Device& device, const ReshardOptions& options = {}) {
  validate(device);
  require(options.least_part > 0, "least_part is ", options.least_part, "; expected a positive number");
  require_same_units(from, to);
  validate(from, "the layout that parameters leave");
  validate(to, "the layout that parameters get");
  ReshardPlan plan{from, to, {}};
  detail::ReshardPlanner planner(device, options, plan.moves);
  for (std::size_t u = 0; u < from.units(); ++u) {
    for (const MutualSlice& slice : mutual_slices(from, to, u)) planner.add(slice);
    plan.moves.close();
  }
  return plan;
}

}  // namespace slimpack
