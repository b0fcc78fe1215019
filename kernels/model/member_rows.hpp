#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Which rows of a merged task's tokens, those of all members in the slices' order, each member holds, in
/// ascending order.
/// @param owners of the task's program. @param rows [member], set. O(tokens).
inline void member_rows(const StageTask& task, const SampleOwners& owners,
                        std::vector<std::vector<std::size_t>>& rows) {
  rows.resize(task.members.size());
  for (std::size_t m = 0; m < rows.size(); ++m) {
    rows[m].clear();
    Tokens first = 0;  // row of the slice
    for (const Slice& slice : task.slices) {
      owners.for_each_owned_range(slice, m, [&](const Slice& range) {
        for (Tokens t = range.begin; t < range.end; ++t)
          rows[m].push_back(static_cast<std::size_t>(first + t - slice.begin));
      });
      first += slice.size();
    }
  }
}

}  // namespace slimpack::kernels
