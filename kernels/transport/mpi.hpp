#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

struct MpiOptions : TransportOptions {
  /// Ranks on one machine show each other what they do in shared memory. Without it, an error still reaches
  /// all ranks, but says less about the rank at fault: neither its task nor whom it waits for.
  bool shared_memory = true;
  /// Longer messages are described to MPI as pieces of this many bytes: its counts are 32-bit.
  std::size_t largest_count = 1U << 30;
};

/// A rank that is a process of an MPI run (MPI_COMM_WORLD). Meets `Transport`. Used by the thread that has
/// initialised MPI.
///
/// A wait polls, with yields at first and sleeps of up to 0.1 ms later. On a failure a rank tells all others,
/// by shared memory and by message, waits up to `grace` until they know (half of it for the rank at fault, which
/// may be dead), and throws. From then on it makes no MPI call, since the bytes of its unfinished transfers may
/// be gone: not even MPI_Finalize, which could wait forever. The process has to end; `run_mpi` does all that.
///
/// Hazards. A rank that stands still within MPI_Init, this constructor or MPI_Finalize can be ended only by
/// mpirun (`--timeout`). Tags are limited by MPI_TAG_UB, which is 2^31 - 1 for OpenMPI's own layers. Large
/// messages move only while both sides are in a call.
class MpiTransport {
 public:
  /// Called by all ranks. MPI must be initialised. @throws InvalidInput for a timeout below 1 ms, or a
  /// largest count that is 0 or above 2^31 - 1.
  explicit MpiTransport(const MpiOptions& options = {});
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  /// After a failure, waits up to `grace` for the others to get here as well: a process that ends makes mpirun
  /// end all.
  ~MpiTransport();

  [[nodiscard]] std::size_t rank() const;
  [[nodiscard]] std::size_t size() const;

  /// As `Transport`. @throws InvalidInput if there is no such rank, or the tag is above MPI's limit.
  /// @throws TransportError if the run has failed.
  Request isend(std::size_t to, Tag tag, std::span<const std::byte> bytes);
  /// @copydoc isend
  Request irecv(std::size_t from, Tag tag, std::span<std::byte> bytes);
  /// As `Transport`. @throws InvalidInput for a request that is used up. @throws TransportError if the run
  /// has failed, for a message of another size, and `wait` after the timeout, or as soon as the peer's
  /// process is gone (on one machine).
  bool test(Request& request);
  /// @copydoc test
  void wait(Request& request);

  void set_task(std::string_view text);
  void check();
  [[noreturn]] void abort(std::string_view reason);
  /// As `abort`, without throwing, and without an MPI call: the bytes of unfinished transfers may be gone.
  /// Tells ranks on the same machine; the others end when this process has. @returns whether the run had not
  /// failed before.
  bool fail(std::string_view reason);

  /// The end of a run that went well: waits for all ranks to come here. Afterwards only the destructor may be
  /// called. Without it, MPI_Finalize could wait for a rank that is gone.
  /// @throws TransportError as `wait`, and on all ranks if one has unfinished transfers.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The whole of a main function: initialises MPI, runs the body on this rank, and finalises MPI; or says on
/// standard error what went wrong.
///
/// What OpenMPI 4 does in addition: when a rank ends with another status than 0, mpirun ends all others about
/// a second later, also stopped ones, and returns the status of the rank that ended first: 2, or 128 + the
/// signal that killed one. The others of that machine know within 0.1 s, and end with 2 by themselves. mpirun
/// also names the rank. Don't use its options `--enable-recovery` or `--continuous`: with them it returns 0,
/// and waits for stopped ranks.
/// @returns the process's exit status: 0, or 2 after an error on any rank.
int run_mpi(const std::function<void(MpiTransport&)>& body, const MpiOptions& options = {});

}  // namespace slimpack::kernels
