#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/transport/asio_private.hpp"
#include "kernels/transport/launch.hpp"
#include "kernels/transport/tcp.hpp"

namespace slimpack::kernels {

/// What a process says first on each connection. Fixed in size, so that strangers are told apart: the first two members
/// stay where they are in every version.
struct Hello {
  static constexpr std::uint64_t right_magic = 0x6b6361706d696c73;  // "slimpack", on little-endian machines
  static constexpr std::uint32_t right_version = 2;

  std::uint64_t magic = right_magic;
  std::uint32_t version = right_version;
  std::uint32_t rank = 0, size = 0, local_rank = 0;
  std::uint32_t port = 0;       ///< on which the rank listens for others
  std::uint32_t for_data = 0;   ///< 1: a connection for data between two ranks; 0: for control, to rank 0
  std::uint64_t run = 0;        ///< what rank 0 calls this run; on ways for data only
  std::array<char, 64> host{};  ///< name of the rank's machine
};

/// The ranks of a run that have met: a star for control, and a connection between any two for data.
struct Meeting {
  std::vector<Member> members;  ///< by rank
  Sockets control;              ///< on rank 0 to all others, elsewhere to rank 0
  Sockets data;                 ///< to oneself: closed
};

/// Meets the other ranks. Rank 0 listens on the launch's port, the others connect, in any order of starting;
/// then each connects with each, on ports that the system chooses. Connections with another protocol are
/// ignored. If a rank is missing, or does not fit, all that have come throw the same.
/// @param io whose sockets are returned.
/// @param timeout from the call until all have come, at least 1 ms. O(ranks) connections per rank.
/// @throws InvalidInput for a launch that makes no sense. @throws TransportError naming the rank at fault: a
/// port in use, rank 0 not reached, ranks that did not come, two with one rank, one that expects another
/// number of ranks or speaks another version.
[[nodiscard]] Meeting meet(asio::io_context& io, const Launch& launch, std::chrono::milliseconds timeout);

}  // namespace slimpack::kernels
