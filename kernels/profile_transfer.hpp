#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "kernels/profile.hpp"
#include "kernels/transport/in_process.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/model/device.hpp"

namespace slimpack::kernels {

/// What a message took from a rank to another.
struct TransferTime {
  double bytes = 0.0;
  double seconds = 0.0;
};

/// Rows of the host's memory, which an executor copies into a buffer to send them, and reads where they arrive.
class HostRows {
 public:
  explicit HostRows(std::size_t bytes) : rows_(bytes, std::byte{1}), buffer_(bytes) {}

  [[nodiscard]] std::span<std::byte> buffer() { return buffer_; }
  void leave() { std::copy(rows_.begin(), rows_.end(), buffer_.begin()); }
  void arrive() {}

 private:
  std::vector<std::byte> rows_, buffer_;
};

/// Sends messages between the ranks 0 and 1 to and fro, as an executor does: from where the back end's rows lie into a
/// buffer, then sent, then to where the next task reads them. Call it on both; others have nothing to do.
/// @tparam Rows made of a number of bytes: `buffer()` is the host's memory of as many, `leave()` fills it from the back
/// end's, `arrive()` goes the other way, and both return when that is done.
/// @param bytes of each size of message. @param trips of each; their lower quartile counts, since whatever else the machine
/// does makes trips longer, never shorter.
/// @returns half of a round trip for each size; on rank 0 only.
/// @throws TransportError if a rank has failed. @throws InvalidInput if there is one rank only, or no trip.
template <class Rows = HostRows, Transport T>
std::vector<TransferTime> measure_transfers(T& transport, std::span<const std::size_t> bytes,
                                            std::size_t trips = 30) {
  require(transport.size() > 1, "there is ", transport.size(), " rank; expected at least two for transfers");
  require(trips > 0, "trips is 0; expected at least one");
  std::vector<TransferTime> times;
  if (transport.rank() > 1) return times;
  const std::size_t other = 1 - transport.rank();
  const auto send = [&](Rows& rows) {
    rows.leave();
    Request request = transport.isend(other, 0, rows.buffer());
    transport.wait(request);
  };
  const auto receive = [&](Rows& rows) {
    Request request = transport.irecv(other, 0, rows.buffer());
    transport.wait(request);
    rows.arrive();
  };
  for (const std::size_t size : bytes) {
    Rows rows(size);
    std::vector<double> seconds;
    for (std::size_t trip = 0; trip <= trips; ++trip) {
      const double begin = seconds_now(ProfileClock::wall);
      if (transport.rank() == 0) {
        send(rows);
        receive(rows);
      } else {
        receive(rows);
        send(rows);
      }
      // The first trip warms up.
      if (trip > 0) seconds.push_back((seconds_now(ProfileClock::wall) - begin) / 2.0);
    }
    const auto quartile = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 4);
    std::nth_element(seconds.begin(), quartile, seconds.end());
    if (transport.rank() == 0) times.push_back({static_cast<double>(size), *quartile});
  }
  return times;
}

/// Latency and bandwidth that describe transfers best, by least squares of relative errors, neither negative.
/// @throws InvalidInput unless there are two sizes, of which the larger take time.
[[nodiscard]] Link fit_link(std::span<const TransferTime> times);

/// The link between two ranks that are threads of this process, from messages of a token's hidden state to those of a
/// large pack, and of larger ones, up to 64 MiB, until the largest take several times as long as the smallest: what they take
/// beyond the latency has to show, however slow and busy the machine.
/// @tparam Rows as for `measure_transfers`. @param row_bytes of a token's.
/// @throws InvalidInput for rows of 0 bytes; otherwise as these and `fit_link`.
template <class Rows = HostRows>
[[nodiscard]] Link measure_link(std::size_t row_bytes) {
  require(row_bytes > 0, "row_bytes is 0; expected at least 1");
  constexpr double several = 4.0;
  constexpr std::size_t growth = 8, large_pack = 4096, most_bytes = std::size_t{1} << 26U;
  std::vector<TransferTime> times;
  const auto shows = [&] { return times.back().seconds >= several * times.front().seconds; };
  for (std::size_t bytes = row_bytes; bytes <= large_pack * row_bytes || (bytes <= most_bytes && !shows());
       bytes *= growth) {
    run_in_process(2, [&](InProcessTransport& t) {
      const auto own = measure_transfers<Rows>(t, std::span(&bytes, 1));
      if (t.rank() == 0) times.push_back(own.front());
    });
  }
  return fit_link(times);
}

}  // namespace slimpack::kernels
