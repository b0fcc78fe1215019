#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace slimpack::kernels {

/// Number that tells the messages between two ranks apart, as `message_tag` of exec/program.hpp. Messages
/// with the same sender, receiver and tag are received in the order in which they were sent.
using Tag = std::uint64_t;

/// Tags from here on belong to the collectives (collectives.hpp).
inline constexpr Tag first_collective_tag = Tag{1} << 63;

/// A transfer that was started and not yet waited for. A value; means something to the transport that made
/// it.
struct Request {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< 0: no transfer, complete at once

  friend bool operator==(const Request&, const Request&) = default;
};

/// How long a rank waits for another.
struct TransportOptions {
  /// A transfer that is still incomplete after a wait of this length ends the run. Has to be longer than
  /// the longest time that a rank computes while others wait for it. At least 1 ms.
  std::chrono::milliseconds timeout{60'000};
  /// The longest time that a rank whose run has failed waits for the other ranks to know.
  std::chrono::milliseconds grace{1'000};
};

/// The end of a run: some rank is dead, hangs, has failed, or sent what was not expected. Once a transport
/// has thrown it, it throws the same at every call; all other ranks throw it as well, at their next wait.
class TransportError : public std::runtime_error {
 public:
  /// @param rank at fault. @param task that it was running, empty if not known. @param what the whole
  /// message.
  TransportError(std::size_t rank, std::string task, const std::string& what)
      : std::runtime_error(what), rank_(rank), task_(std::move(task)) {}

  /// The rank at fault, the same on all ranks.
  [[nodiscard]] std::size_t rank() const { return rank_; }
  /// What that rank was running when last heard of; empty if not known.
  [[nodiscard]] const std::string& task() const { return task_; }

 private:
  std::size_t rank_;
  std::string task_;
};

/// One rank's connection to the others. Used by one thread.
///
/// - `rank()`, `size()`: this rank, and how many there are.
/// - `isend(to, tag, bytes)`, `irecv(from, tag, bytes)`: start a transfer; neither blocks. The bytes stay
///   where they are until the transfer is complete. A receive takes a message of exactly its size, any other
///   one ends the run. Empty messages are allowed.
/// - `test(request)`: whether a transfer is complete. Once it is, the request is used up. Knows no timeout.
/// - `wait(request)`: until it is. Throws a TransportError when `TransportOptions::timeout` has passed.
/// - `set_task(text)`: what this rank does from now on, for the messages of errors on all ranks; the first 63
///   characters are kept. Throws if the run has failed, so a rank that computes learns of it between tasks.
/// - `check()`: throws if the run has failed, for a rank that waits for something else, such as a GPU.
/// - `abort(reason)`: ends the run of all ranks, and throws. Call it while the bytes of unfinished transfers
///   still exist.
///
/// A rank that is gone or hangs ends the run on every rank that waits, or will wait, within timeout + grace.
template <class T>
concept Transport = requires(T& t, std::size_t rank, Tag tag, std::span<const std::byte> out,
                             std::span<std::byte> in, Request& request, std::string_view text) {
  { t.rank() } -> std::same_as<std::size_t>;
  { t.size() } -> std::same_as<std::size_t>;
  { t.isend(rank, tag, out) } -> std::same_as<Request>;
  { t.irecv(rank, tag, in) } -> std::same_as<Request>;
  { t.test(request) } -> std::same_as<bool>;
  t.wait(request);
  t.set_task(text);
  t.check();
  t.abort(text);
};

/// Waits for all of some transfers.
template <Transport T>
void wait_all(T& transport, std::span<Request> requests) {
  for (Request& request : requests) transport.wait(request);
}

}  // namespace slimpack::kernels
