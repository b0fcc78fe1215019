#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cuda/stage_device.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels::cuda {

/// What a step's tasks do, but for the numbers that the host brings to their places: two steps of a stage
/// with the same words, and with everything in the same places, give the device the same work.
[[nodiscard]] inline std::vector<std::uint64_t> work_words(const StageProgram& program) {
  std::vector<std::uint64_t> words;
  const auto add = [&](auto... numbers) { (words.push_back(static_cast<std::uint64_t>(numbers)), ...); };
  const auto add_slices = [&](const auto& slices) {
    add(slices.size());
    for (const Slice& slice : slices) add(slice.sample, slice.begin, slice.end);
  };
  for (const StageTask& task : program.tasks()) {
    add(task.pass, task.pack, task.tokens, task.owned_tokens, task.recompute_layers, task.member);
    add(task.members.size(), task.exchange);
    add_slices(task.slices);
    add_slices(task.owned);
    for (const Slice& slice : task.slices) add(program.plan().tokens[slice.sample]);
  }
  return words;
}

/// The work of a step's tasks as graphs of the device: captured once a step is like the one before, launched
/// as long as steps are.
template <StageDevice D>
class StepGraphs {
 public:
  /// @param device has to outlive it.
  explicit StepGraphs(D& device) : device_(device) {}

  /// Call while the device has nothing to do. Graphs are gone if the step is another one than the last.
  /// @param words that say all that the tasks' work depends on. @param tasks of the step.
  /// @returns whether the step's graphs are to be captured now: it is the last one again, all of whose tasks
  /// were given to the device, so that whatever is chosen or loaded at first use has been.
  [[nodiscard]] bool begin_step(std::vector<std::uint64_t> words, std::size_t tasks) {
    const bool is_same = words == words_, all_ran = given_ == tasks;
    if (!is_same) graphs_.clear();
    words_ = std::move(words);
    given_ = launched_ = 0;
    return is_same && all_ran && graphs_.empty();
  }

  /// Also forgets the last step.
  void clear() {
    graphs_.clear();
    words_.clear();
    given_ = launched_ = 0;
  }

  /// @param place of the task, on which its work depends. @param work gives the task's work to the device.
  template <class F>
  void capture(const StageTask& task, const void* place, F&& work) {
    graphs_[{task.pass, task.pack}] = {device_.capture(work), place};
  }

  /// Gives a task's work to the device: as a graph if there is one for this place, or else by `work`.
  template <class F>
  void run(const StageTask& task, const void* place, F&& work) {
    ++given_;
    const auto found = graphs_.find({task.pass, task.pack});
    if (found == graphs_.end() || found->second.place != place) return work();
    device_.replay(found->second.graph);
    ++launched_;
  }

  /// Tasks of the step that were launched as graphs.
  [[nodiscard]] std::size_t launched() const { return launched_; }

 private:
  struct TaskGraph {
    typename D::Graph graph;
    const void* place = nullptr;
  };

  D& device_;
  std::map<std::pair<Pass, PackId>, TaskGraph> graphs_;
  std::vector<std::uint64_t> words_;
  std::size_t given_ = 0, launched_ = 0;
};

}  // namespace slimpack::kernels::cuda
