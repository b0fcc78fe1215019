#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/cuda/task_io.hpp"
#include "kernels/math/attention.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels::cuda {

/// Numbers from one row to the next.
struct AttentionStrides {
  std::int64_t q = 0, k = 0, v = 0;
  std::int64_t out = 0;  ///< of the output and its gradient
  std::int64_t dq = 0;   ///< of the queries' gradients
};

/// A pack whose attention a library is asked for.
struct PackProblem {
  HeadShape shape;
  std::vector<AttentionSlice> slices;
  std::size_t tokens = 0, cache = 0;  ///< rows of queries and of keys
  AttentionStrides strides;
  bool gradients = false;     ///< the backward pass will run as well
  std::size_t workspace = 0;  ///< bytes that there will be; a library that has a choice keeps within them
  /// Rows in which pieces of keys' gradients begin, as `attention_work` takes them; there while the library
  /// is asked.
  std::span<const std::int32_t> gradient_pieces = {};
};

/// Where a pack's matrices are, in the device's memory: of one layer.
struct PackMatrices {
  AttentionInput in;
  MatrixView<Bf16> out;         ///< forward sets it, backward reads it
  MatrixView<float> lse;        ///< [heads x tokens]; as `out`
  MatrixView<const Bf16> dout;  ///< backward
  MatrixView<Bf16> dq;          ///< backward sets it
  MatrixView<float> dk, dv;     ///< backward adds to them
  const std::byte* lists;       ///< a copy of `PlannedAttention::lists`
  std::span<std::byte> workspace;
};

/// A library's attention of one pack, made before its tasks, with the meaning of `attention` and
/// `attention_backward`. Calls give work to the stream, take no memory and wait for nothing; they serve all
/// layers.
template <class Stream>
struct PlannedAttention {
  std::string refusal;  ///< why the library does not take the pack; empty if it does
  std::vector<std::byte>
      lists;  ///< what has to lie in the device's memory meanwhile, at a multiple of 16 bytes
  std::size_t workspace_bytes = 0;
  bool any_order = false;  ///< gradients are added up in another order each time
  std::function<void(const PackMatrices&, Stream)> forward, backward;
};

/// Asks a library for a pack's attention, or for the reason why it has none.
template <class Stream>
using AttentionLibrary = std::function<PlannedAttention<Stream>(const PackProblem&)>;

/// Whose attention a step's tasks ran.
struct AttentionUse {
  std::size_t library = 0, ours = 0;  ///< tasks
  std::size_t any_order = 0;  ///< of the library's, those whose gradients may differ in their last bits
  std::string refusal;  ///< why the first of these did not run the library's; empty if none was asked for
};

/// The same library, each answer of which is counted.
/// @param workspace bytes that stages hold for it: packs that need more run ours. @param use is added to; the
/// stages' thread's.
template <class Stream>
[[nodiscard]] AttentionLibrary<Stream> counted(AttentionLibrary<Stream> library, std::size_t workspace,
                                               std::shared_ptr<AttentionUse> use) {
  return [library = std::move(library), workspace, use = std::move(use)](const PackProblem& problem) {
    PlannedAttention<Stream> out = library(problem);
    const bool fits = out.workspace_bytes <= workspace;
    if (out.refusal.empty() && fits) {
      ++use->library;
      use->any_order += out.any_order ? 1 : 0;
    } else if (use->ours++ == 0) {
      use->refusal = fits ? out.refusal : concat("it needs a workspace of ", out.workspace_bytes, " bytes");
    }
    return out;
  };
}

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
