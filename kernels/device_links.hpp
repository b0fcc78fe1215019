#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "kernels/transport/device_wait.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// A stage's way from or to a neighbour: activations go forward, gradients back.
enum class Way : std::uint8_t { from_before, to_next, from_next, to_before };

inline constexpr std::size_t way_count = 4;

/// Memory of a rank's device that goes to, or comes from, another member of a group.
struct DeviceBlock {
  std::size_t position = 0;  ///< of the other member
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Queues an exchange of the device's memory between the members of a merged task, whose positions are those
/// among `task.members`: all blocks at once, none waits for another. Blocks between two members go in their
/// order. Empty where members have no links.
template <class Stream>
using DeviceExchange = std::function<void(const StageTask& task, std::span<const DeviceBlock> sends,
                                          std::span<const DeviceBlock> receives, Stream stream)>;

/// How a stage's device reaches those of other ranks, without the host: `NcclLinks` does between GPUs. All
/// calls queue work on a stream of the device, and return; what they are given is the device's memory, and
/// stays as it is until the work is done. Nothing of it waits for the host.
///
/// - `send(way, rows, stream)`, `receive(way, rows, stream)`: to or from a neighbour. A way keeps its order
///   and has no tags: the receiver asks for rows in the order in which the sender sends them, in as many
///   numbers. A send may last until its receive has come to its turn.
/// - `reduce_scatter`, `all_reduce`, `all_gather` (numbers, stream): as `Replicas` says, among the stage's
///   replicas.
/// - `exchange(sends, receives, stream)`: blocks to and from some of the stage's replicas, whose positions are
///   their pipelines: all at once, none waits for another. Blocks between two ranks go in their order.
/// - `state()`: `done` if all that was queued is with the device (which need not be done with it), or an
///   error. Cheap.
/// - `abort()`: ends what is queued, whatever other ranks do; throws nothing. Destroying links does the same.
template <class L, class Stream, class Number, class Weight>
concept DeviceLinks = std::move_constructible<L> &&
    requires(L& links, Way way, std::span<const Number> out, std::span<Number> in, std::span<Weight> numbers,
             std::span<const DeviceBlock> blocks, Stream stream) {
  links.send(way, out, stream);
  links.receive(way, in, stream);
  links.reduce_scatter(numbers, stream);
  links.all_reduce(numbers, stream);
  links.all_gather(numbers, stream);
  links.exchange(blocks, blocks, stream);
  { links.state() } -> std::same_as<AsyncState>;
  links.abort();
};

/// There are no links between devices: rows, gradients and weights go through the host's memory.
struct NoLinks {};

/// Called where the host waits for a device: returns once `reached()` is true, or throws.
using DeviceWaiter = std::function<void(const std::function<bool()>& reached)>;

/// How links get at the rows of a back end, in addition to `RowPort`'s ways to the host. Each way has a queue of its
/// own.
///
/// - `memory(bytes, what)`: the device's memory; `bytes()` says where. Throws InvalidInput if there is too
///   little.
/// - `send(way, give)`: calls `give(stream)`, whose work comes after the last task, and before its rows are
///   written again.
/// - `receive(way, arrived, take)`: calls `take(stream)`; `arrived` becomes the point after its work.
/// - `bring_behind(arrived)`: what the next task is given is brought to it after that point.
/// - `stream()`: of the tasks themselves.
/// - `set_waiter(waiter)`: the back end waits for the device by calling it; an empty one: as before.
///   `wait_all()`: for all queues.
template <class P>
concept DevicePort = requires(P& port, std::size_t bytes, std::string_view what, Way way,
                              typename P::Event& event, void (*use)(typename P::Stream),
                              DeviceWaiter waiter) {
  { port.memory(bytes, what) } -> std::same_as<typename P::Memory>;
  port.send(way, use);
  port.receive(way, event, use);
  port.bring_behind(event);
  { port.stream() } -> std::same_as<typename P::Stream>;
  port.set_waiter(waiter);
  port.wait_all();
};

}  // namespace slimpack::kernels
