#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/arena_plan_walk.hpp"
#include "kernels/cuda/device/adamw.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/stage.hpp"
#include "kernels/cuda/stage_layers.hpp"
#include "kernels/cuda/stage_ring.hpp"
#include "kernels/cuda/stage_tasks.hpp"

// All functions of `DeviceStage`, for sources that make one for a device of their own. Here: what it holds, does before and
// after a step, and how it updates its weights, alone or with replicas.
namespace slimpack::kernels::cuda {

/// @throws InvalidInput naming the model's size that the kernels don't know.
inline const StagePart& supported(const StagePart& part, const StageOptions& options) {
  require_stage(part, options);
  const Transformer& m = part.model;
  require(m.head_dim == 64 || m.head_dim == 128, "head_dim is ", m.head_dim,
          "; expected 64 or 128, which the GPU's attention knows");
  require(m.hidden % 8 == 0 && m.ffn % 8 == 0, "hidden is ", m.hidden, " and ffn ", m.ffn,
          "; expected multiples of 8 on a GPU");
  require(options.ring_tokens > 0, "ring_tokens is 0; expected a positive number");
  return part;
}

template <StageDevice D>
DeviceStage<D>::DeviceStage(const StagePart& part, const StageOptions& options)
    : part_(supported(part, options)),
      options_(options),
      memory_(options.limit_bytes, name()),
      layout_(part),
      plan_(part, options),
      slots_(device_),
      staging_(device_),
      clock_(device_),
      graphs_(device_),
      exchange_(device_) {
  const std::size_t n = layout_.size();
  const std::size_t bytes = 2 * arena_bytes<float>(n) + arena_bytes<Bf16>(n) + arena_bytes<double>(1) +
                            arena_bytes<std::byte>(D::product_workspace) +
                            arena_bytes<std::byte>(library_bytes());
  memory_.take(static_cast<double>(bytes), " for weights and gradients");
  held_ = device_.memory(bytes, concat(name(), " for weights and gradients"));
  Arena arena(held_.bytes(), name());
  weights_ = arena.take<float>(n);
  gradients_ = arena.take<float>(n);
  copies_ = arena.take<Bf16>(n);
  loss_ = arena.take<double>(1);
  device_.set_product_workspace(arena.take<std::byte>(D::product_workspace));
  library_memory_ = arena.take<std::byte>(library_bytes());
  static_cast<void>(through<double>(1));  // for the loss
}

template <StageDevice D>
DeviceStage<D>::~DeviceStage() {
  try {
    device_.wait_all();  // or memory would go that is still worked on
  } catch (...) {        // a destructor can't report it
  }
}

template <StageDevice D>
std::string DeviceStage<D>::name() const {
  if (!options_.name.empty()) return options_.name;
  return concat("the stage of layers ", part_.first_layer, " to ", part_.first_layer + part_.layers);
}

template <StageDevice D>
template <class T>
std::span<T> DeviceStage<D>::through(std::size_t n) {
  if (through_.bytes().size() < n * sizeof(T)) through_ = device_.host_memory(n * sizeof(T));
  return {reinterpret_cast<T*>(through_.bytes().data()), n};
}

template <StageDevice D>
void DeviceStage<D>::copy_now(void* to, const void* from, std::size_t bytes) {
  device_.copy(Queue::compute, to, from, bytes);
  device_.wait_all();
}

template <StageDevice D>
void DeviceStage<D>::round_weights() {
  round_by(launch(), std::span<const float>(weights_), copies_);
  device_.wait_all();
}

template <StageDevice D>
void DeviceStage<D>::initialise(const InitOptions& options) {
  constexpr std::size_t most = std::size_t{1} << 22U;
  const std::span<float> numbers = through<float>(std::min(most, layout_.size()));
  for (const WeightTensor& tensor : layout_.tensors()) {
    for (std::size_t first = 0; first < tensor.size(); first += numbers.size()) {
      const auto part = numbers.first(std::min(numbers.size(), tensor.size() - first));
      layout_.initial(options, tensor, first, part);
      copy_now(weights_.data() + tensor.offset + first, part.data(), part.size_bytes());
    }
  }
  round_weights();
}

template <StageDevice D>
void DeviceStage<D>::read_weights(std::span<float> out) {
  require(out.size() == weights_.size(), "there is room for ", out.size(), " weights; expected ",
          weights_.size());
  copy_now(out.data(), weights_.data(), out.size_bytes());
}

template <StageDevice D>
void DeviceStage<D>::read_gradients(std::span<float> out) {
  require(out.size() == gradients_.size(), "there is room for ", out.size(), " gradients; expected ",
          gradients_.size());
  copy_now(out.data(), gradients_.data(), out.size_bytes());
}

template <StageDevice D>
void DeviceStage<D>::write_weights(std::span<const float> weights) {
  require(weights.size() == weights_.size(), "there are ", weights.size(), " weights; expected ",
          weights_.size());
  copy_now(weights_.data(), weights.data(), weights.size_bytes());
  round_weights();
}

template <StageDevice D>
void DeviceStage<D>::begin_step(const StageProgram& program, const Ragged<std::int32_t>& ids) {
  require_shared_attention(part_, program, options_.merged);
  step_.begin(part_, program, ids);
  device_.wait_all();
  plan_.begin_step(program);
  pending_.clear();
  plan_attention(program);
  take_arena();
  if (options_.try_products) device_.try_products(arena_.bytes());  // nothing is kept there between steps
  slots_.begin_step();
  begin_graphs();
  take_exchange(program);
  staging_.begin_step(plan_.step_data_bytes() + library_packs_.all_list_bytes());
  device_.fill(Queue::compute, std::as_writable_bytes(gradients_), 0);
  device_.fill(Queue::compute, std::as_writable_bytes(loss_), 0);
  clock_.begin_step(program.tasks().size());
}

/// The arena, as `ArenaPlan::bytes` counts it.
template <StageDevice D>
void DeviceStage<D>::take_arena() {
  const std::size_t rows = plan_.most_tokens() * part_.hidden();
  const std::size_t bytes = plan_.bytes(library_packs_.most_list_bytes());
  if (arena_.bytes().size() < bytes) {
    memory_.give_back(std::exchange(arena_bytes_, 0.0));
    memory_.take(static_cast<double>(bytes), " for the step's arena");
    arena_bytes_ = static_cast<double>(bytes);
    arena_ = typename D::Memory{};  // or both would be there
    arena_ = device_.memory(bytes, concat(name(), " for the step's arena"));
  }
  Arena arena(arena_.bytes(), name());
  units_ = arena.take<Bf16>(plan_.units() * unit()).data();
  for (const std::size_t slot : {0U, 1U}) {
    Bf16* at = arena.take<Bf16>(rows).data();
    slots_.set(slot, at, arena.take<std::byte>(data_bytes()).data());
  }
}

/// Everything that tasks' work depends on, except for what stays the same as long as the stage exists.
template <StageDevice D>
void DeviceStage<D>::begin_graphs() {
  if (!options_.graphs) return graphs_.clear();
  const StageProgram& program = step_.program();
  std::vector<std::uint64_t> words = work_words(program);
  const auto add_place = [&](const void* place) { words.push_back(reinterpret_cast<std::uintptr_t>(place)); };
  for (const std::size_t slot : {0U, 1U}) {
    add_place(slots_.of_task(slot).rows);
    add_place(slots_.of_task(slot).data);
  }
  add_place(units_);
  words.push_back(std::bit_cast<std::uint64_t>(step_.label_weight()));
  if (graphs_.begin_step(std::move(words), program.tasks().size())) capture_tasks();
}

/// The work of all tasks but merged ones and those with a library's attention, in the places that they will
/// have.
template <StageDevice D>
void DeviceStage<D>::capture_tasks() {
  std::size_t number = 0;
  for (const StageTask& task : step_.program().tasks()) {
    const auto* slot = task.pass == Pass::weight ? nullptr : &slots_.of_task(number++);
    if (task.merged() || library_packs_.find(task) != nullptr) continue;
    if (slot != nullptr) lay_out(task, *slot);
    graphs_.capture(task, slot != nullptr ? slot->data : nullptr, [&] { compute(task); });
  }
  pending_.clear();
}

/// Memory of the host for what merged tasks exchange through it.
template <StageDevice D>
void DeviceStage<D>::take_exchange(const StageProgram& program) {
  if (exchange_.is_on_device()) return;
  std::size_t most = 0;
  for (const StageTask& task : program.tasks()) {
    if (!task.merged() || task.pass == Pass::weight) continue;
    most = std::max(most, exchange_numbers(part_, task.pass, static_cast<std::size_t>(task.owned_tokens),
                                           merged_task(task, options_, program.owners())));
  }
  exchange_.begin_step(most);
}

template <StageDevice D>
double DeviceStage<D>::loss() {
  const std::span<double> host = through<double>(1);
  copy_now(host.data(), loss_.data(), sizeof(double));
  const double sum = host.front();
  require(std::isfinite(sum), "the loss of ", name(), " is ", sum, "; expected a finite number");
  return sum * step_.label_weight();
}

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
