#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/stage_device.hpp"
#include "kernels/task_record.hpp"

namespace slimpack::kernels::cuda {

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
