#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ragged.hpp"
#include "slimpack/cost/links.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/strategy/reshard.hpp"

namespace slimpack {

/// Bytes that a plan moves, by what they move over.
struct ReshardBytes {
  double within_nodes = 0.0;
  double between_nodes = 0.0;
  double in_place = 0.0;  ///< copied within a device

  friend bool operator==(const ReshardBytes&, const ReshardBytes&) = default;
};

/// The same for a pull and a push. @param number_bytes of each parameter or gradient, such as `SyncOptions::weight_bytes`.
/// O(moves).
[[nodiscard]] inline ReshardBytes reshard_bytes(const ReshardPlan& plan, const Device& device,
                                                double number_bytes) {
  ReshardBytes bytes;
  for (const ReshardMove& move : plan.moves.values()) {
    const std::array pair{move.from, move.to};
    const bool far = &link_between(device, pair) == &device.inter_node;
    double& sum = move.local() ? bytes.in_place : far ? bytes.between_nodes : bytes.within_nodes;
    sum += static_cast<double>(move.size()) * number_bytes;
  }
  return bytes;
}

/// How long each device is busy with each unit of a plan, when nobody waits.
struct ReshardSeconds {
  std::vector<DeviceId> devices;             ///< all of both layouts, ascending
  std::vector<std::vector<double>> seconds;  ///< [unit][place in `devices`]

  /// Place of a device. @pre it is one of them. O(log devices).
  [[nodiscard]] std::size_t place_of(DeviceId device) const {
    return static_cast<std::size_t>(std::lower_bound(devices.begin(), devices.end(), device) -
                                    devices.begin());
  }
  /// Of the device that is busy for longest, with all units. O(units * devices).
  [[nodiscard]] double slowest() const {
    double most = 0.0;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      double sum = 0.0;
      for (const std::vector<double>& unit : seconds) sum += unit[d];
      most = std::max(most, sum);
    }
    return most;
  }
};

namespace detail {

/// Bytes that each device moves in a round, by way.
class ReshardTraffic {
 public:
  ReshardTraffic(const Device& device, std::size_t devices) : device_(device), bytes_(devices) {}

  void add(std::size_t from, std::size_t to, bool far, double bytes) {
    if (from == to) {
      bytes_[from][local] += 2.0 * bytes;  // read and written
      return;
    }
    bytes_[from][far ? sent_far : sent] += bytes;
    bytes_[to][far ? received_far : received] += bytes;
  }

  /// Adds the round's seconds to those of each device, and forgets the bytes.
  void finish(std::span<double> seconds) {
    for (std::size_t d = 0; d < bytes_.size(); ++d) {
      const std::array<double, 5>& b = bytes_[d];
      const double near = std::max(b[sent], b[received]), far = std::max(b[sent_far], b[received_far]);
      seconds[d] +=
          std::max({near > 0.0 ? device_.intra_node.seconds(near) : 0.0,
                    far > 0.0 ? device_.inter_node.seconds(far) : 0.0, b[local] / device_.memory_bandwidth});
      bytes_[d] = {};
    }
  }

 private:
  enum Way : std::uint8_t { sent, received, sent_far, received_far, local };

  const Device& device_;
  std::vector<std::array<double, 5>> bytes_;
};

[[nodiscard]] inline std::vector<DeviceId> devices_of(const ReshardPlan& plan) {
  std::vector<DeviceId> devices;
  for (const ParameterShards* layout : {&plan.from, &plan.to}) {
    for (const ParameterShard& shard : layout->shards.values()) devices.push_back(shard.device);
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

}  // namespace detail

/// Seconds of each device, for a pull or a push: a device sends and receives at once, within its node and between nodes at
/// once, each as fast as the link (cost/links.hpp) allows; copies within a device go through its memory. All messages of a unit
/// and round together wait for one latency. What is forwarded comes after the rest.
/// @param number_bytes of each parameter or gradient. @throws InvalidInput if it is not positive, or the device is impossible.
/// Complexity: O(moves + units * devices).
[[nodiscard]] inline ReshardSeconds reshard_seconds(const ReshardPlan& plan, const Device& device,
                                                    double number_bytes) {
  validate(device);
  require(number_bytes > 0.0, "number_bytes is ", number_bytes, "; expected a positive number");
  ReshardSeconds out{detail::devices_of(plan), {}};
  detail::ReshardTraffic traffic(device, out.devices.size());
  for (std::size_t u = 0; u < plan.moves.size(); ++u) {
    std::vector<double>& seconds = out.seconds.emplace_back(out.devices.size(), 0.0);
    for (const bool forwarded : {false, true}) {
      for (const ReshardMove& move : plan.moves[u]) {
        if (move.forwarded != forwarded) continue;
        const std::array pair{move.from, move.to};
        traffic.add(out.place_of(move.from), out.place_of(move.to),
                    &link_between(device, pair) == &device.inter_node,
                    static_cast<double>(move.size()) * number_bytes);
      }
      traffic.finish(seconds);
    }
  }
  return out;
}

}  // namespace slimpack
