#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace slimpack {

/// Classes of sequences in groups, each of which is a pipeline of its own.
struct SequenceGroups {
  std::vector<std::uint32_t> ends;                        ///< of the groups: classes up to each, ascending
  double cost = std::numeric_limits<double>::infinity();  ///< infinite: some class fits in no group
  std::size_t solved = 0;                                 ///< groups whose cost was asked for
};

namespace detail {

/// The dynamic program of `group_sequences`, and the costs that it knows.
template <class GroupCost>
class SequenceGrouping {
 public:
  SequenceGrouping(double group_seconds, const GroupCost& cost)
      : group_seconds_(group_seconds), cost_(cost) {}

  SequenceGroups operator()(std::uint32_t classes) {
    best_.assign(classes + 1, infinite);
    from_.assign(classes + 1, 0);
    best_[0] = 0.0;
    for (std::uint32_t end = 1; end <= classes; ++end) extend(end);
    SequenceGroups out{.ends = {}, .cost = best_[classes], .solved = known_.size()};
    if (out.cost == infinite) return out;
    for (std::uint32_t end = classes; end > 0; end = from_[end]) out.ends.push_back(end);
    std::reverse(out.ends.begin(), out.ends.end());
    return out;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Finds the best groups of the classes before `end`. All in one group come first: if that is cheap, little else can be better.
  void extend(std::uint32_t end) {
    consider(0, end);
    for (std::uint32_t begin = end - 1; begin > 0; --begin) {
      if (best_[begin] + group_seconds_ + least(begin, end) < best_[end]) consider(begin, end);
    }
  }

  void consider(std::uint32_t begin, std::uint32_t end) {
    const double own = known_.emplace(std::pair{begin, end}, 0.0).first->second = cost_(begin, end);
    const double cost = best_[begin] + group_seconds_ + own;
    if (cost >= best_[end]) return;
    best_[end] = cost;
    from_[end] = begin;
  }

  /// What a group costs at least, by the groups within it that are known.
  [[nodiscard]] double least(std::uint32_t begin, std::uint32_t end) const {
    double most = 0.0;
    for (const auto& within : {std::pair{begin, end - 1}, std::pair{begin + 1, end}}) {
      const auto known = known_.find(within);
      if (known != known_.end()) most = std::max(most, known->second);
    }
    return most;
  }

  double group_seconds_;
  const GroupCost& cost_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> known_;
  std::vector<double> best_;         // [end] cost of the classes before it
  std::vector<std::uint32_t> from_;  // [end] where its last group begins
};

}  // namespace detail

/// Which sequences share a pipeline (InfiniPipe, section 3.3.2, Eq. 14): classes of sequences, from those of fewest
/// chunks to those of most, are put into groups of neighbours, each of which costs its recomputation and a constant.
/// Groups are asked for their cost only where the recursion needs it.
/// @param group_seconds that each group costs in addition: its warm-up and cool-down.
/// @param cost `cost(begin, end)` of the classes [begin, end) as one group, in seconds; not less than that of a part of
/// them; infinite if they do not fit into memory. O(classes^2) costs, mostly far fewer.
template <class GroupCost>
[[nodiscard]] SequenceGroups group_sequences(std::uint32_t classes, double group_seconds,
                                             const GroupCost& cost) {
  return detail::SequenceGrouping<GroupCost>(group_seconds, cost)(classes);
}

}  // namespace slimpack
