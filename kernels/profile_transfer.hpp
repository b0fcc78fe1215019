#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/profile.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/model/device.hpp"

namespace slimpack::kernels {

/// What a message took from a rank to another.
struct TransferTime {
  double bytes = 0.0;
  double seconds = 0.0;
};

/// Sends messages between the ranks 0 and 1 to and fro, as an executor does: copied into a buffer, then sent. Call it
/// on both; others have nothing to do.
/// @param bytes of each size of message. @param trips of each, whose median counts.
/// @returns half of a round trip for each size; on rank 0 only.
/// @throws TransportError if a rank has failed. @throws InvalidInput if there is one rank only, or no trip.
template <Transport T>
std::vector<TransferTime> measure_transfers(T& transport, std::span<const std::size_t> bytes,
                                            std::size_t trips = 30) {
  require(transport.size() > 1, "there is ", transport.size(), " rank; expected at least two for transfers");
  require(trips > 0, "trips is 0; expected at least one");
  std::vector<TransferTime> times;
  if (transport.rank() > 1) return times;
  const std::size_t other = 1 - transport.rank();
  const auto send = [&](std::span<const std::byte> rows, std::vector<std::byte>& buffer) {
    std::copy(rows.begin(), rows.end(), buffer.begin());
    Request request = transport.isend(other, 0, buffer);
    transport.wait(request);
  };
  const auto receive = [&](std::span<std::byte> rows) {
    Request request = transport.irecv(other, 0, rows);
    transport.wait(request);
  };
  for (const std::size_t size : bytes) {
    std::vector<std::byte> rows(size, std::byte{1}), buffer(size);
    std::vector<double> seconds;
    for (std::size_t trip = 0; trip <= trips; ++trip) {
      const double begin = seconds_now(ProfileClock::wall);
      if (transport.rank() == 0) {
        send(rows, buffer);
        receive(rows);
      } else {
        receive(rows);
        send(rows, buffer);
      }
      // The first trip warms up.
      if (trip > 0) seconds.push_back((seconds_now(ProfileClock::wall) - begin) / 2.0);
    }
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    if (transport.rank() == 0) times.push_back({static_cast<double>(size), *middle});
  }
  return times;
}

/// Latency and bandwidth that describe transfers best, by least squares of relative errors, neither negative.
/// @throws InvalidInput unless there are two sizes, of which the larger take time.
[[nodiscard]] Link fit_link(std::span<const TransferTime> times);

}  // namespace slimpack::kernels
