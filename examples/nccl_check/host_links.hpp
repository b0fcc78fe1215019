#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/device_links.hpp"
#include "kernels/transport/collectives.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/ranks.hpp"

// What NCCL's groups and links do between GPUs, in hosts' memory over a transport: by it a check of the former is checked.
namespace slimpack::check {

/// Memory, and streams that are always done, of a host that takes a GPU's place.
class HostMachine {
 public:
  using Stream = int;

  template <class V>
  class Numbers {
   public:
    explicit Numbers(std::vector<V> values) : values_(std::move(values)) {}
    [[nodiscard]] std::span<V> span() { return values_; }
    [[nodiscard]] const std::vector<V>& read() const { return values_; }

   private:
    std::vector<V> values_;
  };

  template <class V>
  [[nodiscard]] Numbers<V> numbers(std::vector<V> values) const {
    return Numbers<V>(std::move(values));
  }
  [[nodiscard]] static Stream stream(std::size_t) { return 0; }
  [[nodiscard]] static kernels::AsyncState state(Stream) { return {.done = true, .error = {}}; }
};

/// Some ranks of a host's transport, as `NcclGroup` is some ranks' GPUs.
template <kernels::Transport T>
class HostGroup {
 public:
  using Stream = HostMachine::Stream;

  /// All ranks.
  explicit HostGroup(T& host) : host_(&host), group_(host) {}

  [[nodiscard]] std::size_t size() const { return group_.size(); }
  [[nodiscard]] std::size_t position() const { return group_.position(); }

  [[nodiscard]] std::optional<HostGroup> split(std::optional<int> color, std::optional<int> order = {}) {
    const int none = -1;
    const std::vector<int> colors = group_.all_gather_value(color.value_or(none)),
                           orders =
                               group_.all_gather_value(order.value_or(static_cast<int>(group_.position())));
    if (!color) return std::nullopt;
    std::vector<std::pair<int, std::size_t>> members;
    for (std::size_t i = 0; i < size(); ++i) {
      if (colors[i] == *color) members.emplace_back(orders[i], group_.ranks()[i]);
    }
    std::sort(members.begin(), members.end());
    std::vector<std::size_t> ranks;
    for (const auto& [key, rank] : members) ranks.push_back(rank);
    return HostGroup(*host_, std::move(ranks));
  }

  template <class V>
  void all_reduce(std::span<V> values, Stream) {
    in_sums(values, [&](auto sums) { group_.all_reduce(sums); });
  }
  template <class V>
  void reduce_scatter(std::span<V> values, Stream) {
    in_sums(values, [&](auto sums) { group_.reduce_scatter(sums); });
  }
  template <class V>
  void all_gather(std::span<V> values, Stream) {
    group_.all_gather(values);
  }

  void exchange(std::span<const kernels::DeviceBlock> sends, std::span<const kernels::DeviceBlock> receives,
                Stream) {
    std::deque<std::span<const std::byte>> to_self;
    for (const kernels::DeviceBlock& block : receives) {
      if (block.position != position())
        requests_.push_back(host_->irecv(group_.ranks()[block.position], tag, {block.data, block.bytes}));
    }
    for (const kernels::DeviceBlock& block : sends) {
      if (block.position != position()) {
        requests_.push_back(host_->isend(group_.ranks()[block.position], tag, {block.data, block.bytes}));
      } else {
        to_self.push_back({block.data, block.bytes});
      }
    }
    for (const kernels::DeviceBlock& block : receives) {
      if (block.position != position()) continue;
      require(!to_self.empty() && to_self.front().size() == block.bytes,
              "a block to oneself has another size");
      std::copy(to_self.front().begin(), to_self.front().end(), block.data);
      to_self.pop_front();
    }
  }

  template <class V>
  void send(std::size_t to, std::span<const V> values, Stream stream) {
    const kernels::DeviceBlock block = block_of(to, values);
    exchange({&block, 1}, {}, stream);
  }
  template <class V>
  void receive(std::size_t from, std::span<V> values, Stream stream) {
    const kernels::DeviceBlock block = block_of(from, std::span<const V>(values));
    exchange({}, {&block, 1}, stream);
  }
  template <class V>
  void ring_shift(std::span<const V> out, std::span<V> in, Stream stream) {
    const kernels::DeviceBlock send = block_of((position() + 1) % size(), out);
    const kernels::DeviceBlock receive = block_of((position() + size() - 1) % size(), std::span<const V>(in));
    exchange({&send, 1}, {&receive, 1}, stream);
  }
  template <class V>
  void all_to_all(std::span<const std::span<const V>> out, std::span<const std::span<V>> in, Stream stream) {
    std::vector<kernels::DeviceBlock> sends, receives;
    for (std::size_t i = 0; i < size(); ++i) {
      sends.push_back(block_of(i, out[i]));
      receives.push_back(block_of(i, std::span<const V>(in[i])));
    }
    exchange(sends, receives, stream);
  }

  /// Until all transfers are complete.
  void wait(Stream) {
    kernels::wait_all(*host_, std::span<kernels::Request>(requests_));
    requests_.clear();
  }
  /// Done if all transfers are complete.
  [[nodiscard]] kernels::AsyncState state() {
    std::erase_if(requests_, [&](kernels::Request& request) { return host_->test(request); });
    return {.done = requests_.empty(), .error = {}};
  }
  void close() { wait(0); }

 private:
  static constexpr kernels::Tag tag = 1;

  HostGroup(T& host, std::vector<std::size_t> ranks) : host_(&host), group_(host, std::move(ranks)) {}

  template <class V>
  static kernels::DeviceBlock block_of(std::size_t position, std::span<const V> values) {
    const auto bytes = std::as_bytes(values);
    return {position, const_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  /// Bf16 are added as floats.
  template <class V, class F>
  static void in_sums(std::span<V> values, F&& f) {
    if constexpr (std::is_same_v<V, kernels::cuda::Bf16>) {
      std::vector<float> sums;
      for (const V value : values) sums.push_back(kernels::cuda::to_float(value));
      f(std::span<float>(sums));
      std::transform(sums.begin(), sums.end(), values.begin(), kernels::cuda::to_bf16);
    } else {
      f(values);
    }
  }

  T* host_;
  kernels::Group<T> group_;
  std::vector<kernels::Request> requests_;
};

/// Links of a rank over a host's transport, as `NcclLinks` are between GPUs.
template <kernels::Transport T>
class HostLinks {
 public:
  using Stream = HostMachine::Stream;

  HostLinks(T& host, const RankPlace& place)
      : all_(host),
        pipeline_(*all_.split(static_cast<int>(place.pipeline), static_cast<int>(place.stage))),
        replicas_(*all_.split(static_cast<int>(place.stage), static_cast<int>(place.pipeline))) {}

  void send(kernels::Way way, std::span<const kernels::cuda::Bf16> rows, Stream stream) {
    pipeline_.send(neighbour(way), rows, stream);
  }
  void receive(kernels::Way way, std::span<kernels::cuda::Bf16> rows, Stream stream) {
    pipeline_.receive(neighbour(way), rows, stream);
  }
  void reduce_scatter(std::span<float> numbers, Stream stream) { replicas_.reduce_scatter(numbers, stream); }
  void all_reduce(std::span<float> numbers, Stream stream) { replicas_.all_reduce(numbers, stream); }
  void all_gather(std::span<float> numbers, Stream stream) { replicas_.all_gather(numbers, stream); }
  void exchange(std::span<const kernels::DeviceBlock> sends, std::span<const kernels::DeviceBlock> receives,
                Stream stream) {
    replicas_.exchange(sends, receives, stream);
  }
  [[nodiscard]] kernels::AsyncState state() {
    kernels::AsyncState state = pipeline_.state();
    state.done = replicas_.state().done && state.done;
    return state;
  }
  void abort() {}

 private:
  [[nodiscard]] std::size_t neighbour(kernels::Way way) const {
    const bool next = way == kernels::Way::to_next || way == kernels::Way::from_next;
    const std::size_t stage = pipeline_.position(), stages = pipeline_.size();
    require(next ? stage + 1 < stages : stage > 0, "stage ", stage, " of ", stages, " has no stage ",
            next ? "after" : "before", " it");
    return next ? stage + 1 : stage - 1;
  }

  HostGroup<T> all_, pipeline_, replicas_;
};

}  // namespace slimpack::check
