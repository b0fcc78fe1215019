#pragma once

// How a `DeviceStage` updates its weights, alone or with replicas: included where one is instantiated.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/arena.hpp"
#include "kernels/cuda/device/adamw.hpp"
#include "kernels/cuda/stage.hpp"

namespace slimpack::kernels::cuda {

template <StageDevice D>
void DeviceStage<D>::set_replicas(Replicas<float> replicas) {
  units_held_ = layout_.units();
  std::size_t own = 0, largest = 0;
  for (const WeightUnit& unit : units_held_) {
    own += replicas.own_part(unit.numbers.size()).size();
    largest = std::max(largest, unit.numbers.size());
  }
  const std::size_t bytes = 2 * arena_bytes<float>(own);
  memory_.take(static_cast<double>(bytes), " for the optimiser's moments");
  moments_ = device_.memory(bytes, concat(name(), " for the optimiser's moments"));
  device_.fill(Queue::compute, moments_.bytes(), 0);
  Arena arena(moments_.bytes(), name());
  first_ = arena.take<float>(own);
  second_ = arena.take<float>(own);
  replicas_ = std::move(replicas);
  if (replicas_.size > 1 && !replicas_.on_device)
    static_cast<void>(through<float>(share_numbers(largest) * replicas_.size));
}

template <StageDevice D>
std::size_t DeviceStage<D>::share_numbers(std::size_t n) const {
  constexpr std::size_t most = std::size_t{1} << 22U;
  return std::min(n / replicas_.size + 1, std::max<std::size_t>(1, most / replicas_.size));
}

/// Parts differ by one number at most: in each chunk, all have as many places, the last of which may be none.
template <StageDevice D>
template <class F>
void DeviceStage<D>::for_each_share(std::size_t n, F&& f) {
  const std::size_t largest = n / replicas_.size + 1, share = share_numbers(n);
  const std::span<float> host = through<float>(share * replicas_.size);
  for (std::size_t first = 0; first < largest; first += share) {
    const std::size_t size = std::min(share, largest - first);
    f(host.first(size * replicas_.size), first, size);
  }
}

/// Copies `size` numbers of each replica's part, or of the own one alone, from number `first` of the part on.
template <StageDevice D>
template <class T>
void DeviceStage<D>::move_shares(std::span<float> host, std::span<T> device, std::size_t first,
                                 std::size_t size, bool to_host, bool own_only) {
  for (std::size_t i = 0; i < replicas_.size; ++i) {
    if (own_only && i != replicas_.position) continue;
    const Part part = part_of(device.size(), replicas_.size, i);
    if (first >= part.size()) continue;
    const std::size_t bytes = std::min(size, part.size() - first) * sizeof(float);
    float *at = host.data() + i * size, *there = device.data() + part.begin + first;
    to_host ? device_.copy(Queue::compute, at, there, bytes) : device_.copy(Queue::compute, there, at, bytes);
  }
  device_.wait_all();
}

/// Through the host's memory, a chunk at a time, if not from device to device.
template <StageDevice D>
void DeviceStage<D>::exchange_gradients(std::size_t unit) {
  const auto& operation = replicas_.sharded ? replicas_.reduce_scatter : replicas_.all_reduce;
  const Part part = units_held_[unit].numbers;
  const std::span<float> gradients = gradients_.subspan(part.begin, part.size());
  if (replicas_.on_device) return operation(unit, gradients);
  for_each_share(gradients.size(), [&](std::span<float> host, std::size_t first, std::size_t size) {
    std::fill(host.begin(), host.end(), 0.0F);
    move_shares(host, gradients, first, size, true, false);
    operation(unit, host);
    move_shares(host, gradients, first, size, false, replicas_.sharded);
  });
}

template <StageDevice D>
void DeviceStage<D>::gather_weights(std::size_t unit) {
  const Part part = units_held_[unit].numbers;
  const std::span<float> weights = weights_.subspan(part.begin, part.size());
  if (replicas_.on_device) return replicas_.all_gather(unit, weights);
  for_each_share(weights.size(), [&](std::span<float> host, std::size_t first, std::size_t size) {
    std::fill(host.begin(), host.end(), 0.0F);
    move_shares(host, weights, first, size, true, true);
    replicas_.all_gather(unit, host);
    move_shares(host, weights, first, size, false, false);
  });
}

template <StageDevice D>
void DeviceStage<D>::update(std::int64_t step, const AdamWOptions& options) {
  std::size_t moments = 0;
  for (std::size_t u = 0; u < units_held_.size(); ++u) {
    if (replicas_.size > 1) exchange_gradients(u);
    const Part unit = units_held_[u].numbers, share = replicas_.own_part(unit.size());
    const auto own = [&](auto numbers) { return numbers.subspan(unit.begin + share.begin, share.size()); };
    adamw_by(launch(), own(weights_), own(copies_), std::span<const float>(own(gradients_)),
             first_.subspan(moments, share.size()), second_.subspan(moments, share.size()), step, options);
    moments += share.size();
  }
  if (replicas_.size > 1 && replicas_.sharded) {
    for (std::size_t u = 0; u < units_held_.size(); ++u) gather_weights(u);
    round_weights();
  }
  device_.wait_all();  // seconds of a step, by the host's clock, have the update in them
}

}  // namespace slimpack::kernels::cuda
