#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "slimpack/partition/similar_lengths.hpp"

namespace slimpack {

/// How samples of similar lengths are cut into micro-batches.
enum class MicroBatchCut : std::uint8_t {
  tokens,            ///< as equal in tokens as can be, the first as full as that allows
  tokens_last_full,  ///< the same, the last as full as that allows, as the authors of FlexSP do
  work,              ///< as equal in work as can be
};

/// Where micro-batches of samples of similar lengths end. Each is found once.
class MicroBatchEnds {
 public:
  /// @param tokens of the samples, longest first.
  explicit MicroBatchEnds(std::span<const double> tokens) : by_tokens_(tokens) {}

  /// @param work of the samples, longest first, that later calls are about.
  void use_work(std::span<const double> work) {
    by_work_ = RowCuts(work);
    ends_[index(MicroBatchCut::work)].clear();
  }

  /// The end of each of at most `count` micro-batches among the samples. @param count positive.
  [[nodiscard]] const std::vector<std::size_t>& operator()(std::size_t count, MicroBatchCut cut) {
    std::vector<std::size_t>& ends = ends_[index(cut)][count];
    if (!ends.empty()) return ends;
    const RowCuts& cuts = cut == MicroBatchCut::work ? by_work_ : by_tokens_;
    ends = cut == MicroBatchCut::tokens_last_full ? lightest_parts_last_full(cuts, count)
                                                  : lightest_parts(cuts, count);
    return ends;
  }

 private:
  static std::size_t index(MicroBatchCut cut) { return static_cast<std::size_t>(cut); }

  RowCuts by_tokens_, by_work_ = RowCuts({});
  std::array<std::map<std::size_t, std::vector<std::size_t>>, 3> ends_;  // [cut][count]
};

}  // namespace slimpack
