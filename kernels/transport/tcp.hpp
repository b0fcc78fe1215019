#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/transport/launch.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

struct TcpOptions : TransportOptions {
  /// How long ranks wait for each other to start. At least 1 ms.
  std::chrono::milliseconds start_timeout{300'000};
};

/// A rank, as all others know it after they have met.
struct Member {
  std::string host;     ///< name of its machine
  std::string address;  ///< numeric, as rank 0 sees it; of rank 0, as this rank does
  std::uint16_t port = 0;
  std::size_t local_rank = 0;
};

/// A rank that is a process which a launcher like torchrun or srun has started. Meets `Transport`. Used by
/// one thread; another one, `Control`, tells ranks of each other's end.
///
/// A connection between any two ranks. Messages move only while both sides are in a call; those that come
/// before their receive is posted are kept. Ranks trust each other and whoever can connect to their machines:
/// there is no encryption.
class TcpTransport {
 public:
  /// Called by all ranks, in any order; returns when all have met. Connections with another protocol are ignored.
  /// @throws InvalidInput for a launch or a timeout that makes no sense.
  /// @throws TransportError, the same on all ranks that have come, naming the rank at fault: a port in use, rank 0 not
  /// reached, ranks that did not come, two with one rank, one that expects another number of ranks or speaks another
  /// version.
  explicit TcpTransport(const Launch& launch, const TcpOptions& options = {});
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;
  /// Rank 0, through which the others hear of each other, stays until they have gone, at most `grace`.
  ~TcpTransport();

  [[nodiscard]] std::size_t rank() const;
  [[nodiscard]] std::size_t size() const;
  /// All ranks and their machines.
  [[nodiscard]] const std::vector<Member>& members() const;

  /// As `Transport`. @throws InvalidInput if there is no such rank. @throws TransportError if the run has
  /// failed.
  Request isend(std::size_t to, Tag tag, std::span<const std::byte> bytes);
  /// @copydoc isend
  Request irecv(std::size_t from, Tag tag, std::span<std::byte> bytes);
  /// As `Transport`. @throws InvalidInput for a request that is used up. @throws TransportError if the run
  /// has failed, for a message of another size, and `wait` after the timeout.
  bool test(Request& request);
  /// @copydoc test
  void wait(Request& request);

  void set_task(std::string_view text);
  void check();
  [[noreturn]] void abort(std::string_view reason);
  /// As `abort`, without throwing. @returns whether the run had not failed before.
  bool fail(std::string_view reason);

  /// The end of a run that went well: waits for all ranks to come here. Afterwards only the destructor may be
  /// called. To the others, a rank that ends without it has failed.
  /// @throws TransportError as `wait`, and on all ranks if one has unfinished transfers.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The whole of a main function: meets the other ranks, runs the body on this rank; or says on standard error
/// what went wrong. @returns the process's exit status: 0, or 2 after an error on any rank.
int run_tcp(const std::function<void(TcpTransport&)>& body, const Launch& launch,
            const TcpOptions& options = {});

}  // namespace slimpack::kernels
