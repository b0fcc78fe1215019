#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/transport/launch.hpp"
#include "kernels/transport/rendezvous.hpp"
#include "kernels/transport/socket.hpp"
#include "kernels/transport/transport.hpp"

// What rank 0 and the others have in common until they have met.
namespace slimpack::kernels {

/// What rank 0 answers once all have come, or one does not fit.
struct Reply {
  std::uint64_t magic = Hello::right_magic;
  std::uint32_t version = Hello::right_version;
  std::uint32_t refused = 0;
  std::uint64_t run = 0;
  std::uint32_t fault = 0, reserved = 0;  ///< rank at fault
  std::array<char, 1024> reason{};
};

/// A `Member` as it travels: one for each rank, after the reply.
struct Entry {
  std::uint32_t port = 0, local_rank = 0;
  std::array<char, 64> host{}, address{};
};

/// Name of this machine.
[[nodiscard]] std::string own_host();

/// Why ranks have not met. @param rank at fault.
[[nodiscard]] TransportError meeting_error(std::size_t rank, const std::string& what);

/// A socket that listens for the launch's ranks. @param port 0: any free one. @throws TransportError if it is
/// taken.
[[nodiscard]] Socket open_port(const Launch& launch, std::uint16_t port);

}  // namespace slimpack::kernels
