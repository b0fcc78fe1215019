#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/cuda/stage_device.hpp"
#include "kernels/task_record.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// Arrays of a number for each token that the host tells the GPU of a task, at most.
inline constexpr std::size_t task_words = 7;

/// What the GPU has to know about a task in addition to its rows: arrays in its memory. Rows are those of
/// `task.owned`.
struct TaskTables {
  std::span<const std::int32_t> positions;  ///< of each token in its sample
  std::span<const std::int32_t> rows;       ///< forward: of its key and value; backward: of their gradients
  std::span<const std::int32_t> labels;     ///< last stage
  std::span<const std::int32_t> ids;        ///< first stage; backward: those of a `TokenOrder`
  std::span<const std::int32_t> begins, tokens;  ///< the rest of that
  std::span<const std::int32_t> order;  ///< merged: rows of all members' tokens, as members hold them
  AttentionItems attention;
  std::span<const std::byte> lists;        ///< of a library's attention, in the place of `attention`
  std::span<const KeptPiece> pieces;       ///< fragments of the task
  std::span<const std::int32_t> piece_of;  ///< each token's
  std::span<const std::int32_t> pages;     ///< of the pieces, consecutively
};

/// Consecutive arrays in the host's memory, laid out as in the GPU's: they go there in one copy.
class TaskData {
 public:
  /// What n numbers take.
  template <class T>
  [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t n) {
    return (n * sizeof(T) + alignment - 1) / alignment * alignment;
  }

  /// @param device where the bytes will lie, at a multiple of 16.
  void begin(std::byte* device) {
    device_ = device;
    bytes_.clear();
  }

  /// @returns the array in the GPU's memory.
  template <class T>
  [[nodiscard]] std::span<const T> add(const std::vector<T>& numbers) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes_of<T>(numbers.size()));
    if (!numbers.empty()) std::memcpy(bytes_.data() + at, numbers.data(), numbers.size() * sizeof(T));
    return {reinterpret_cast<const T*>(device_ + at), numbers.size()};
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  static constexpr std::size_t alignment = 16;

  std::byte* device_ = nullptr;
  std::vector<std::byte> bytes_;
};

/// Host memory for what a step's tasks are told, which stays as it is until the device has copied it. Taken before the step's
/// first task, and used again by later steps.
template <StageDevice D>
class Staging {
 public:
  /// @param device has to outlive it.
  explicit Staging(D& device) : device_(device) {}

  /// Call while the device has nothing to do. @param bytes that the step's tasks are told, at most
  void begin_step(std::size_t bytes) {
    used_ = 0;
    if (memory_.bytes().size() >= bytes) return;
    memory_ = typename D::HostMemory{};  // or both would be there
    memory_ = device_.host_memory(bytes);
  }

  /// A copy of some bytes. @throws InvalidInput if there are more than the step was begun with.
  [[nodiscard]] const std::byte* keep(std::span<const std::byte> bytes) {
    const std::span<std::byte> memory = memory_.bytes();
    require(bytes.size() <= memory.size() - used_, "a task is told ", bytes.size(),
            " bytes; expected at most ", memory.size() - used_, ", of ", memory.size(),
            " for the step: is a task run twice?");
    std::byte* at = memory.data() + used_;
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    used_ += bytes.size();
    return at;
  }

 private:
  D& device_;
  typename D::HostMemory memory_;
  std::size_t used_ = 0;
};

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

/// When a step's tasks ran by the device's own clock: the host is through with them long before.
template <StageDevice D>
class TaskClock {
 public:
  /// @param device has to outlive it.
  explicit TaskClock(D& device) : device_(device) {}

  /// Call while the device has nothing to do. @param tasks of the step, at most.
  void begin_step(std::size_t tasks) {
    next_ = 0;
    while (points_.size() < 2 * tasks + 1) points_.push_back(std::make_unique<typename D::Event>());
    mark();
  }
  void begin_task() { mark(); }
  void end_task() { mark(); }

  /// Sets the times of tasks, in the order in which they were given to the device, which is done with them.
  void read(std::span<TaskRecord> tasks) {
    const std::size_t known = next_ > 0 ? (next_ - 1) / 2 : 0;
    for (std::size_t i = 0; i < std::min(known, tasks.size()); ++i) {
      tasks[i].start = device_.seconds(*points_[0], *points_[2 * i + 1]);
      tasks[i].seconds = device_.seconds(*points_[2 * i + 1], *points_[2 * i + 2]);
    }
  }

 private:
  void mark() {
    if (next_ == points_.size()) points_.push_back(std::make_unique<typename D::Event>());
    device_.record(*points_[next_++], Queue::compute);
  }

  D& device_;
  std::size_t next_ = 0;
  std::vector<std::unique_ptr<typename D::Event>>
      points_;  ///< the step's begin, then each task's begin and end
};

}  // namespace slimpack::kernels::cuda
