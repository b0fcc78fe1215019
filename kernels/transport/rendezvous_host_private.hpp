#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/transport/door_private.hpp"
#include "kernels/transport/launch.hpp"
#include "kernels/transport/rendezvous.hpp"
#include "kernels/transport/socket.hpp"

namespace slimpack::kernels {

/// Rank 0 before all have come.
class Host {
 public:
  /// Listens. @param launch has to outlive it. @throws TransportError if the port is taken.
  Host(const Launch& launch, std::chrono::milliseconds timeout);

  /// Waits for all, and tells them who is who. @param run what this run is called. @param data_port on which rank 0
  /// lets others in for data. @throws TransportError naming who is missing or does not fit: so do all that have come.
  void gather(Deadline deadline, std::uint64_t run, std::uint16_t data_port);

  /// The members and the ways to them, without those for data. To be called once.
  [[nodiscard]] Meeting take();

 private:
  /// Lets a guest in. @returns whether it is one of the ranks; if it is none of this run, it is ignored.
  bool admit(Guest guest);
  /// Tells all others who is who.
  void introduce(std::uint64_t run, Deadline deadline) const;
  /// Tells all that have come, and ends.
  [[noreturn]] void refuse(std::size_t fault, const std::string& reason);
  /// A rank that has come says nothing until it is answered: readable means that it has gone.
  [[nodiscard]] std::vector<pollfd> watched() const;
  void require_nobody_left();
  [[nodiscard]] std::size_t first_missing() const;
  [[nodiscard]] std::string missing_text() const;

  const Launch& launch_;
  std::chrono::milliseconds timeout_;
  Socket listener_;
  std::vector<Member> members_;
  std::vector<Socket> control_;
  Socket guest_;  ///< who is being looked at
};

}  // namespace slimpack::kernels
