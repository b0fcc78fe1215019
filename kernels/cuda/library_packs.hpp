#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "kernels/cuda/library_attention.hpp"
#include "kernels/cuda/task_data.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels::cuda {

/// Whose attention a step's tasks run: a library's, for those that it takes.
template <class Stream>
class LibraryPacks {
 public:
  void clear() { *this = {}; }

  /// A task for which no library is asked.
  void add_ours() { ++use_.ours; }

  /// A task for which one was, with its answer.
  void add(const StageTask& task, PlannedAttention<Stream> answer) {
    if (!answer.refusal.empty()) {
      if (use_.ours++ == 0) use_.refusal = concat(to_string(task), ": ", answer.refusal);
      return;
    }
    ++use_.library;
    use_.any_order += answer.any_order ? 1 : 0;
    const std::size_t bytes = TaskData::bytes_of<std::byte>(answer.lists.size());
    most_list_bytes_ = std::max(most_list_bytes_, bytes);
    all_list_bytes_ += bytes;
    packs_[{task.pass, task.pack}] = std::move(answer);
  }

  /// The library's attention of a task; none if ours runs.
  [[nodiscard]] const PlannedAttention<Stream>* find(const StageTask& task) const {
    const auto found = packs_.find({task.pass, task.pack});
    return found == packs_.end() ? nullptr : &found->second;
  }

  [[nodiscard]] const AttentionUse& use() const { return use_; }
  /// Bytes that the device is told of a task, at most; and of all.
  [[nodiscard]] std::size_t most_list_bytes() const { return most_list_bytes_; }
  [[nodiscard]] std::size_t all_list_bytes() const { return all_list_bytes_; }

 private:
  std::map<std::pair<Pass, PackId>, PlannedAttention<Stream>> packs_;
  AttentionUse use_;
  std::size_t most_list_bytes_ = 0, all_list_bytes_ = 0;
};

}  // namespace slimpack::kernels::cuda
