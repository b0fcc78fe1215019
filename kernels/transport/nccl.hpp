#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/device_links.hpp"
#include "kernels/transport/collectives.hpp"
#include "kernels/transport/device_wait.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

/// What a GPU's memory holds.
enum class DeviceNumber : std::uint8_t { byte, bf16, fp32, fp64, int64 };

/// Types that NCCL adds and moves.
template <class V>
concept DeviceValue = std::same_as<V, std::byte> || std::same_as<V, cuda::Bf16> || std::same_as<V, float> ||
    std::same_as<V, double> || std::same_as<V, std::int64_t>;

template <DeviceValue V>
inline constexpr DeviceNumber device_number = std::same_as<V, std::byte>    ? DeviceNumber::byte
                                              : std::same_as<V, cuda::Bf16> ? DeviceNumber::bf16
                                              : std::same_as<V, float>      ? DeviceNumber::fp32
                                              : std::same_as<V, double>     ? DeviceNumber::fp64
                                                                            : DeviceNumber::int64;

/// How a part of a group is made.
struct SplitOptions {
  int most_blocks = 0;  ///< of the GPU that an operation is asked to take; 0: as many as NCCL likes
  std::optional<int> order =
      {};  ///< members stand in ascending order of it; none: of their positions in the whole group
};

/// Ranks whose GPUs work together through NCCL: what `Group` is on the host. All spans are memory of this
/// thread's current GPU. Each operation is queued on a stream and done when the stream is there; all members
/// have to queue the same ones in the same order.
///
/// The host's transport, over MPI or TCP, brings the ranks together, and tells them of each other's end.
/// Where a call has to wait, as `wait` does and the first operation may, it asks NCCL for asynchronous errors
/// and the transport for failed ranks; when there is one, or the timeout passes, it ends the run of all,
/// aborts this group and all split from the same, and throws TransportError. Destroying a group that was not
/// closed aborts it: no rank hangs on the way out.
///
/// Hazards. NCCL runs what one group does in the order in which it was queued, whatever the streams, and a
/// send until its receive is there: two ranks that each send first and receive then in one group wait for
/// each other. Use `exchange`, or groups of their own (`StageLinks`). Groups have to be destroyed before the
/// streams and the memory that they work on. Two ranks can't share a GPU. Used by one thread.
class NcclGroup {
 public:
  /// All ranks of the host's transport, which has to outlive the group. All have to call it.
  /// @throws TransportError if a rank can't join. @throws InvalidInput for a timeout below 1 ms.
  template <Transport T>
  explicit NcclGroup(T& host, const TransportOptions& options = {})
      : NcclGroup(host_side(host), options, host.rank(), host.size(), shared_id(host)) {}

  NcclGroup(NcclGroup&&) noexcept;
  NcclGroup& operator=(NcclGroup&&) = delete;
  ~NcclGroup();

  /// Members of the same colour become a group. All members have to call it.
  /// @param color none for a member that joins no group; at least 0. @returns this rank's new group, if it
  /// has one.
  [[nodiscard]] std::optional<NcclGroup> split(std::optional<int> color, const SplitOptions& options = {});

  [[nodiscard]] std::size_t size() const;
  /// This rank's place in the group.
  [[nodiscard]] std::size_t position() const;

  /// Sums over the members; each gets the result, the same bits on all.
  template <DeviceValue V>
  void all_reduce(std::span<V> values, cuda::Stream stream) {
    all_reduce(values.data(), values.size(), device_number<V>, stream);
  }

  /// Sums over the members; each gets the result in its `part_of(values.size(), size(), position())`, the
  /// rest is left as it is or not. Fastest if the number of values is a multiple of the size: else it is a
  /// reduction for each part.
  template <DeviceValue V>
  void reduce_scatter(std::span<V> values, cuda::Stream stream) {
    reduce_scatter(values.data(), values.size(), device_number<V>, sizeof(V), stream);
  }

  /// Each member has its part filled; afterwards all have all. Fastest as `reduce_scatter`.
  template <DeviceValue V>
  void all_gather(std::span<V> values, cuda::Stream stream) {
    all_gather(values.data(), values.size(), device_number<V>, sizeof(V), stream);
  }

  /// Sends and receives blocks, all at once: none waits for another.
  /// @throws InvalidInput for a position that the group has not.
  void exchange(std::span<const DeviceBlock> sends, std::span<const DeviceBlock> receives,
                cuda::Stream stream);

  template <DeviceValue V>
  void send(std::size_t to, std::span<const V> values, cuda::Stream stream) {
    const DeviceBlock block = block_of(to, values);
    exchange({&block, 1}, {}, stream);
  }

  template <DeviceValue V>
  void receive(std::size_t from, std::span<V> values, cuda::Stream stream) {
    const DeviceBlock block = block_of(from, std::span<const V>(values));
    exchange({}, {&block, 1}, stream);
  }

  /// Sends to the next member, receives from the one before.
  template <DeviceValue V>
  void ring_shift(std::span<const V> out, std::span<V> in, cuda::Stream stream) {
    const DeviceBlock send = block_of((position() + 1) % size(), out);
    const DeviceBlock receive = block_of((position() + size() - 1) % size(), std::span<const V>(in));
    exchange({&send, 1}, {&receive, 1}, stream);
  }

  /// Sends `out[i]` to position i, and receives `in[i]` from it; sizes may differ from pair to pair.
  /// @throws InvalidInput unless there is one block for each member.
  template <DeviceValue V>
  void all_to_all(std::span<const std::span<const V>> out, std::span<const std::span<V>> in,
                  cuda::Stream stream) {
    require(out.size() == size() && in.size() == size(), "all_to_all has ", out.size(),
            " blocks to send and ", in.size(), " to receive; expected ", size(), " of each");
    std::vector<DeviceBlock> sends, receives;
    for (std::size_t i = 0; i < size(); ++i) {
      sends.push_back(block_of(i, out[i]));
      receives.push_back(block_of(i, std::span<const V>(in[i])));
    }
    exchange(sends, receives, stream);
  }

  /// Waits until a stream has done all that was queued, and watches all groups split from the same. @throws
  /// TransportError as said above.
  void wait(cuda::Stream stream);

  /// Of this group and all split from the same: `done` if all that was queued is with the GPU, or the first
  /// error.
  [[nodiscard]] AsyncState state() const;

  /// Ends what this group and all split from the same have queued, whatever other ranks do. Only destructors
  /// may be called then.
  void abort();

  /// The end of a run that went well; all members have to call it. Afterwards only the destructor may be
  /// called.
  void close();

 private:
  using Id = std::array<std::byte, 128>;
  struct State;

  NcclGroup(HostSide host, const TransportOptions& options, std::size_t rank, std::size_t size, const Id& id);
  explicit NcclGroup(std::unique_ptr<State> state);

  /// Where the ranks meet: rank 0's.
  template <Transport T>
  static Id shared_id(T& host) {
    const Id own = host.rank() == 0 ? new_id(host_side(host)) : Id{};
    return Group<T>(host).all_gather_value(own).front();
  }
  static Id new_id(const HostSide& host);

  template <class Call>
  void for_each_part(std::string_view what, std::size_t n, std::size_t bytes, void* values, Call&& call);
  template <class V>
  static DeviceBlock block_of(std::size_t position, std::span<const V> values) {
    const auto bytes = std::as_bytes(values);
    return {position, const_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  void all_reduce(void* values, std::size_t n, DeviceNumber number, cuda::Stream stream);
  void reduce_scatter(void* values, std::size_t n, DeviceNumber number, std::size_t bytes,
                      cuda::Stream stream);
  void all_gather(void* values, std::size_t n, DeviceNumber number, std::size_t bytes, cuda::Stream stream);

  std::unique_ptr<State> state_;
};

/// This rank's links to the previous and the next stage, each a group of two with the earlier stage at
/// position 0. The two directions have links of their own, so neither delays the other.
struct StageLinks {
  std::optional<NcclGroup> from_before, to_next;  ///< forward
  std::optional<NcclGroup> from_next, to_before;  ///< backward
};

/// The pair of a stage in one of two rounds that pair all neighbours: stages 0-1, 2-3, … in the first round,
/// 1-2, 3-4, … in the second. @returns the pair's number, or none for a stage that is left over.
[[nodiscard]] constexpr std::optional<int> neighbours_of(std::size_t stage, std::size_t stages,
                                                         std::size_t round) {
  if (stage < round) return std::nullopt;
  const std::size_t pair = (stage - round) / 2;
  if (round + 2 * pair + 1 >= stages) return std::nullopt;
  return static_cast<int>(pair);
}

/// Links the stages of a pipeline. All its ranks have to call it. Four splits, whatever the number of stages.
/// A byte goes through each link, so that none waits for its other side when it is first used: NCCL connects
/// then, and the host with it.
/// @param pipeline a group of one rank per stage, in the order of stages.
/// @throws TransportError if a rank fails, or this one's GPU does.
[[nodiscard]] StageLinks link_stages(NcclGroup& pipeline);

/// A group of the same members for what they exchange during a step's computation: it takes few of the
/// GPU's blocks. A byte goes between any two, so that none waits for the other when it is first used. All
/// members have to call it.
/// @throws TransportError if a rank fails, or this one's GPU does.
[[nodiscard]] NcclGroup link_members(NcclGroup& replicas);

}  // namespace slimpack::kernels
