#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

struct InProcessOptions : TransportOptions {
  /// A send is complete only when its receive has been posted, as large messages are on most networks;
  /// otherwise at once. Messages are copied through a buffer either way.
  bool rendezvous = false;
};

/// A rank that is a thread of this process. Meets `Transport`.
///
/// Messages pass through buffers of the transport, so that a rank that ends while others work leaves no rank
/// with a pointer into its memory. Destroying it tells the others that this rank has ended; while an
/// exception unwinds the stack, that the run has failed.
class InProcessTransport {
 public:
  /// All ranks of a run, to be handed to one thread each. @throws InvalidInput for no rank, or a timeout
  /// below 1 ms.
  static std::vector<InProcessTransport> create(std::size_t ranks, const InProcessOptions& options = {});

  InProcessTransport(InProcessTransport&&) noexcept;
  InProcessTransport& operator=(InProcessTransport&&) = delete;
  ~InProcessTransport();

  [[nodiscard]] std::size_t rank() const;
  [[nodiscard]] std::size_t size() const;

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
  /// As `abort`, without throwing here. @returns whether the run had not failed before.
  bool fail(std::string_view reason);

 private:
  struct Hub;
  struct State;
  explicit InProcessTransport(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Runs a function as all ranks, each in a thread of its own, until all have ended.
///
/// A rank that throws ends the run of all. A thread that stands still for good can't be ended: it is
/// abandoned `timeout + grace` after the failure, and this function throws without it. What `body` refers to
/// has to outlive it, so a program that gets a TransportError had better end.
/// @throws what the rank that failed first has thrown, or a TransportError naming the rank at fault.
void run_in_process(std::size_t ranks, std::function<void(InProcessTransport&)> body,
                    const InProcessOptions& options = {});

}  // namespace slimpack::kernels
