#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/transport/part.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

/// What collectives move: float, double, integers, bytes.
template <class V>
concept Movable = std::is_trivially_copyable_v<V> && !std::is_const_v<V>;

/// Some ranks that work together, and the operations that all of them have to call, in the same order and
/// with sizes that fit together; sizes that don't, end the run (TransportError). A rank may be in several
/// groups. Keeps memory for reductions, so that a second call allocates nothing.
///
/// Results depend on the values, the group's order, and nothing else: the order of each sum is fixed, and all
/// members get the same bits.
template <Transport T>
class Group {
 public:
  /// @param ranks in the order of the group's positions: ring neighbours are next to each other.
  /// @throws InvalidInput if a rank is listed twice or does not exist, or the transport's own is missing.
  Group(T& transport, std::vector<std::size_t> ranks) : transport_(transport), ranks_(std::move(ranks)) {
    const std::size_t own = transport.rank();
    position_ = static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), own) - ranks_.begin());
    require(position_ < ranks_.size(), "the group's ", ranks_.size(), " ranks do not contain rank ", own,
            "; expected every member to list itself");
    std::vector<bool> seen(transport.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      require(ranks_[i] < seen.size(), "the group's place ", i, " is rank ", ranks_[i],
              "; expected a rank below ", seen.size());
      require(!seen[ranks_[i]], "the group's place ", i, " is rank ", ranks_[i],
              " once more; expected each rank once");
      seen[ranks_[i]] = true;
    }
  }

  /// All ranks of the transport.
  explicit Group(T& transport) : Group(transport, all_ranks(transport.size())) {}

  [[nodiscard]] std::span<const std::size_t> ranks() const { return ranks_; }
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  /// This rank's place in the group.
  [[nodiscard]] std::size_t position() const { return position_; }
  /// What this rank gets of `n` values in `reduce_scatter`, and gives in `all_gather`.
  [[nodiscard]] Part own_part(std::size_t n) const { return part_of(n, size(), position_); }

  /// Returns only after all members have called it. ceil(log2 g) rounds of empty messages.
  void barrier() {
    for (std::size_t distance = 1; distance < size(); distance *= 2) {
      exchange<std::byte>(barrier_tag, position_ + distance, {}, position_ + size() - distance, {});
    }
  }

  /// Each member provides its `own_part(values.size())`; afterwards all have all values. Ring: g - 1 rounds.
  template <Movable V>
  void all_gather(std::span<V> values) {
    for (std::size_t round = 0; round + 1 < size(); ++round) {
      const Part out = part(values.size(), position_ + size() - round);
      const Part in = part(values.size(), position_ + size() - round - 1);
      exchange<V>(all_gather_tag, position_ + 1, sub(values, out), position_ + size() - 1, sub(values, in));
    }
  }

  /// One value of each member, by position.
  template <Movable V>
  [[nodiscard]] std::vector<V> all_gather_value(const V& own) {
    std::vector<V> result(size());
    result[position_] = own;
    all_gather(std::span<V>(result));
    return result;
  }

  /// Reduces over the members; each gets the result in its `own_part(values.size())`, and the rest of its
  /// values is overwritten. Part i is `op(... op(op(v[i+1], v[i+2]), v[i+3]) ..., v[i])`, positions modulo
  /// the size. Ring: g - 1 rounds, (g - 1) / g of the values each way.
  template <Movable V, class Op = std::plus<>>
  void reduce_scatter(std::span<V> values, Op op = {}) {
    for (std::size_t round = 0; round + 1 < size(); ++round) {
      const Part out = part(values.size(), position_ + 2 * size() - round - 1);
      const Part in = part(values.size(), position_ + 2 * size() - round - 2);
      const std::span<V> incoming = scratch<V>(in.size());
      exchange<V>(reduce_tag, position_ + 1, sub(values, out), position_ + size() - 1, incoming);
      const std::span<V> own = sub(values, in);
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<V>(op(incoming[i], own[i]));
    }
  }

  /// Reduces over the members; each gets the whole result, the same bits on all. `reduce_scatter`, then
  /// `all_gather`.
  template <Movable V, class Op = std::plus<>>
  void all_reduce(std::span<V> values, Op op = {}) {
    reduce_scatter(values, op);
    all_gather(values);
  }

  /// Sends `out[i]` to position i, and receives `in[i]` from it; sizes may differ from pair to pair.
  /// @throws InvalidInput unless there is one block for each member, and this rank's own two have one size.
  template <Movable V>
  void all_to_all(std::span<const std::span<const V>> out, std::span<const std::span<V>> in) {
    require(out.size() == size() && in.size() == size(), "all_to_all has ", out.size(),
            " blocks to send and ", in.size(), " to receive; expected ", size(), " of each");
    require(out[position_].size() == in[position_].size(), "all_to_all's own block has ",
            out[position_].size(), " values to send and ", in[position_].size(),
            " to receive; expected as many");
    requests_.clear();
    for (std::size_t i = 1; i < size(); ++i) {
      const std::size_t from = (position_ + size() - i) % size();
      requests_.push_back(transport_.irecv(ranks_[from], all_to_all_tag, std::as_writable_bytes(in[from])));
    }
    for (std::size_t i = 1; i < size(); ++i) {
      const std::size_t to = (position_ + i) % size();
      requests_.push_back(transport_.isend(ranks_[to], all_to_all_tag, std::as_bytes(out[to])));
    }
    std::copy(out[position_].begin(), out[position_].end(), in[position_].begin());
    wait_all(transport_, std::span<Request>(requests_));
  }

  /// The same with equal blocks: block i of `out` goes to position i, block i of `in` comes from it.
  /// @throws InvalidInput unless both have one size, a multiple of the group's.
  template <Movable V>
  void all_to_all(std::span<const V> out, std::span<V> in) {
    require(out.size() == in.size() && out.size() % size() == 0, "all_to_all has ", out.size(),
            " values to send and ", in.size(), " to receive; expected as many, and a multiple of ", size());
    std::vector<std::span<const V>> outs;
    std::vector<std::span<V>> ins;
    const std::size_t block = out.size() / size();
    for (std::size_t i = 0; i < size(); ++i) {
      outs.push_back(out.subspan(i * block, block));
      ins.push_back(in.subspan(i * block, block));
    }
    all_to_all(std::span<const std::span<const V>>(outs), std::span<const std::span<V>>(ins));
  }

  /// A shift that was started.
  struct Shift {
    Request send, receive;
  };

  /// Starts to send `out` to the next position and to receive `in` from the one before; sizes may differ.
  /// Compute with `out` meanwhile, but don't write to it. Several may be in progress. In a group of one,
  /// copies.
  /// @throws InvalidInput in a group of one if the sizes differ.
  template <Movable V>
  [[nodiscard]] Shift start_ring_shift(std::span<const V> out, std::span<V> in) {
    if (size() == 1) {
      require(out.size() == in.size(), "ring_shift has ", out.size(), " values to send to itself and ",
              in.size(), " to receive; expected as many");
      std::copy(out.begin(), out.end(), in.begin());
      return {};
    }
    Shift shift;
    shift.receive = transport_.irecv(before(), ring_tag, std::as_writable_bytes(in));
    shift.send = transport_.isend(next(), ring_tag, std::as_bytes(out));
    return shift;
  }

  /// Waits for both sides of a shift.
  void finish(Shift& shift) {
    transport_.wait(shift.receive);
    transport_.wait(shift.send);
  }

  /// Starts and finishes a shift.
  template <Movable V>
  void ring_shift(std::span<const V> out, std::span<V> in) {
    Shift shift = start_ring_shift(out, in);
    finish(shift);
  }

 private:
  static constexpr Tag barrier_tag = first_collective_tag, all_gather_tag = barrier_tag + 1,
                       reduce_tag = barrier_tag + 2, all_to_all_tag = barrier_tag + 3,
                       ring_tag = barrier_tag + 4;

  static std::vector<std::size_t> all_ranks(std::size_t n) {
    std::vector<std::size_t> result(n);
    for (std::size_t rank = 0; rank < n; ++rank) result[rank] = rank;
    return result;
  }

  template <class V>
  static std::span<V> sub(std::span<V> values, Part part) {
    return values.subspan(part.begin, part.size());
  }

  [[nodiscard]] Part part(std::size_t n, std::size_t position) const {
    return part_of(n, size(), position % size());
  }
  [[nodiscard]] std::size_t next() const { return ranks_[(position_ + 1) % size()]; }
  [[nodiscard]] std::size_t before() const { return ranks_[(position_ + size() - 1) % size()]; }

  template <Movable V>
  void exchange(Tag tag, std::size_t to, std::span<const V> out, std::size_t from, std::span<V> in) {
    Request receive = transport_.irecv(ranks_[from % size()], tag, std::as_writable_bytes(in));
    Request send = transport_.isend(ranks_[to % size()], tag, std::as_bytes(out));
    transport_.wait(receive);
    transport_.wait(send);
  }

  /// Memory for incoming values. Allocated as bytes by `new`, so aligned for any of them.
  template <Movable V>
  std::span<V> scratch(std::size_t n) {
    static_assert(alignof(V) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (scratch_.size() < n * sizeof(V)) scratch_.resize(n * sizeof(V));
    return {reinterpret_cast<V*>(scratch_.data()), n};
  }

  T& transport_;
  std::vector<std::size_t> ranks_;
  std::size_t position_ = 0;
  std::vector<std::byte> scratch_;
  std::vector<Request> requests_;
};

/// A text of each member, by position; all have to call it. Lengths may differ.
template <Transport T>
[[nodiscard]] std::vector<std::string> all_gather_text(Group<T>& group, const std::string& own) {
  std::vector<std::string> texts;
  for (const std::size_t size : group.all_gather_value(own.size())) texts.emplace_back(size, '\0');
  const std::vector<std::span<const char>> out(group.size(), own);
  const std::vector<std::span<char>> in(texts.begin(), texts.end());
  group.all_to_all(std::span(out), std::span(in));
  return texts;
}

}  // namespace slimpack::kernels
