#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/cuda/stage_device.hpp"

namespace slimpack::kernels::cuda {

/// Numbers in host memory that a device copies to and from.
template <class D>
class HostNumbers {
 public:
  HostNumbers() = default;
  HostNumbers(D& device, std::size_t n) : memory_(device.host_memory(n * sizeof(Bf16))), size_(n) {}

  [[nodiscard]] Bf16* data() const { return reinterpret_cast<Bf16*>(memory_.bytes().data()); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  typename D::HostMemory memory_;
  std::size_t size_ = 0;
};

/// Where the rows of tasks come and go: tasks use two places in turn. So while one runs, what the next one
/// needs arrives, and what the one before has made leaves. A RowPort and a DevicePort of the stage.
template <StageDevice D>
class RowSlots {
 public:
  using Buffer = HostNumbers<D>;
  using Mark = std::shared_ptr<typename D::Event>;
  using Event = typename D::Event;
  using Memory = typename D::Memory;
  using Stream = typename D::Stream;

  static constexpr std::size_t behind = 2;  ///< so the device has a task while the host prepares another one

  /// A task's place: its rows, and what the host tells of it.
  struct Slot {
    Bf16* rows = nullptr;
    std::byte* data = nullptr;
    typename D::Event used, fetched;
  };

  /// @param device has to outlive it.
  explicit RowSlots(D& device) : device_(device) {}

  /// Call while the device has nothing to do.
  void set(std::size_t slot, Bf16* rows, std::byte* data) {
    slots_[slot].rows = rows;
    slots_[slot].data = data;
  }

  /// Call while the device has nothing to do: each step uses the places in the same turns.
  void begin_step() { current_ = 0; }

  /// The place of a step's task. @param number of tasks that have a place before it
  [[nodiscard]] const Slot& of_task(std::size_t number) const { return slots_[(number + 1) % slots_.size()]; }
  /// The place of the last task.
  [[nodiscard]] const Slot& current() const { return slots_[current_]; }

  /// The place of the next task, for which everything may be brought once the task before the last is done
  /// with it.
  Slot& next() {
    current_ = 1 - current_;
    Slot& slot = slots_[current_];
    device_.wait(Queue::arrive, slot.used);
    device_.wait(Queue::arrive, slot.fetched);
    return slot;
  }

  void bring(void* to, const void* from, std::size_t bytes) { device_.copy(Queue::arrive, to, from, bytes); }

  /// Makes the task wait for what was brought, and so for the place to be free.
  void brought() {
    device_.record(arrived_, Queue::arrive);
    device_.wait(Queue::compute, arrived_);
  }

  /// The task has been given all its work.
  void finished() { device_.record(slots_[current_].used, Queue::compute); }

  [[nodiscard]] Buffer buffer(std::size_t numbers) { return Buffer(device_, numbers); }

  /// @param rows of the last task.
  void fetch(std::span<const Bf16> rows, std::span<Bf16> to) {
    Slot& slot = slots_[current_];
    device_.wait(Queue::leave, slot.used);
    device_.copy(Queue::leave, to.data(), rows.data(), rows.size_bytes());
    device_.record(slot.fetched, Queue::leave);
  }

  [[nodiscard]] Mark mark() {
    Mark mark;
    for (const Mark& known : marks_) {
      if (known.use_count() == 1) mark = known;
    }
    if (!mark) marks_.push_back(mark = std::make_shared<typename D::Event>());
    // All that arrived, the last task has waited for.
    device_.wait(Queue::leave, slots_[current_].used);
    device_.record(*mark, Queue::leave);
    return mark;
  }
  [[nodiscard]] bool reached(const Mark& mark) { return device_.reached(*mark); }
  void wait(const Mark& mark) { device_.wait(*mark); }

  [[nodiscard]] Memory memory(std::size_t bytes, std::string_view what) {
    return device_.memory(bytes, what);
  }

  template <class Give>
  void send(Way way, Give&& give) {
    Slot& slot = slots_[current_];
    device_.wait(queue_of(way), slot.used);
    give(device_.stream(queue_of(way)));
    device_.record(slot.fetched, queue_of(way));
  }

  template <class Take>
  void receive(Way way, Event& arrived, Take&& take) {
    take(device_.stream(queue_of(way)));
    device_.record(arrived, queue_of(way));
  }

  void bring_behind(Event& arrived) { device_.wait(Queue::arrive, arrived); }
  [[nodiscard]] Stream stream() { return device_.stream(Queue::compute); }
  void set_waiter(DeviceWaiter waiter) { device_.set_waiter(std::move(waiter)); }
  void wait_all() { device_.wait_all(); }

 private:
  D& device_;
  std::array<Slot, 2> slots_;
  std::size_t current_ = 0;
  typename D::Event arrived_;
  std::vector<Mark> marks_;  ///< those without another owner are free
};

}  // namespace slimpack::kernels::cuda
