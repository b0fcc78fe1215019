#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Tokens that one forward and one backward pack of a stage have in common.
struct FragmentRange {
  Slice tokens;
  std::size_t recompute_layers = 0;  ///< by the backward pack
  std::size_t offload_layers = 0;    ///< of its activations, in the host's memory
};

[[nodiscard]] inline bool before(const Slice& a, const Slice& b) {
  return std::tuple(a.sample, a.begin) < std::tuple(b.sample, b.begin);
}

/// The fragments of a step, by sample and token. O(n log n) in the stage's slices.
[[nodiscard]] std::vector<FragmentRange> fragments_of(const StageProgram& program);

/// What a stage keeps of tokens from forward to backward, addressed by sample and token. Forward and backward packs cut
/// samples differently, so memory comes in fragments, each of which comes with one task and goes with another: nothing is
/// ever compacted.
/// @tparam Memory of a fragment; empty until somebody sets it.
template <class Memory>
class FragmentTable {
 public:
  struct Fragment : FragmentRange {
    Memory memory{};
  };

  /// Finds the fragments of a step; all are empty. O(n log n) in the stage's slices.
  void begin_step(const StageProgram& program) {
    fragments_.clear();
    for (const FragmentRange& range : fragments_of(program)) fragments_.push_back({range, {}});
  }

  /// Calls f(fragment, row of the task at which it begins) for the fragments of a task's owned tokens, in their order.
  /// @throws InvalidInput if a token is in none. O(slices log fragments + fragments of the task).
  template <class F>
  void for_each(const StageTask& task, F&& f) {
    for_each_of(*this, task, f);
  }
  template <class F>
  void for_each(const StageTask& task, F&& f) const {
    for_each_of(*this, task, f);
  }

  /// All of them.
  [[nodiscard]] std::vector<Fragment>& fragments() { return fragments_; }

  /// Place of one of them among all.
  [[nodiscard]] std::size_t index_of(const Fragment& fragment) const {
    return static_cast<std::size_t>(&fragment - fragments_.data());
  }

 private:
  template <class Self, class F>
  static void for_each_of(Self& self, const StageTask& task, F&& f) {
    std::size_t row = 0;
    for (const Slice& slice : task.owned) {
      auto fragment = std::lower_bound(self.fragments_.begin(), self.fragments_.end(), slice,
                                       [](const Fragment& a, const Slice& s) { return before(a.tokens, s); });
      for (Tokens at = slice.begin; at < slice.end; ++fragment) {
        require(fragment != self.fragments_.end() && fragment->tokens.sample == slice.sample &&
                    fragment->tokens.begin == at,
                "token ", at, " of sample ", slice.sample, " is in no pack of this step's other pass at ",
                to_string(task), "; expected a task of the step that was begun");
        f(*fragment, row);
        row += static_cast<std::size_t>(fragment->tokens.size());
        at = fragment->tokens.end;
      }
    }
  }

  std::vector<Fragment> fragments_;  ///< by sample and token
};

}  // namespace slimpack::kernels
