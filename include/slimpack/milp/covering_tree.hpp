#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "slimpack/milp/covering_relaxation.hpp"

namespace slimpack::detail {

/// Where a node is split in two.
struct CoveringBranch {
  std::size_t column = 0;
  bool up_first = false;  ///< whether the node with the larger values is visited first
};

/// The fractional column whose rounding promises to raise the bound most; nothing if there is none.
[[nodiscard]] inline std::optional<CoveringBranch> fractional_branch(const CoveringRelaxation& relaxation) {
  std::optional<CoveringBranch> found;
  double best = -1.0;
  for (std::size_t j = 0; j < relaxation.point().size(); ++j) {
    const double value = relaxation.point()[j], part = value - std::floor(value);
    if (part < 1e-6 || part > 1.0 - 1e-6 || !relaxation.is_basic(j)) continue;
    if (relaxation.lower(j) == relaxation.upper(j)) continue;  // where the simplex method ended early
    const auto penalty = relaxation.penalty(j);
    const double least = std::min(penalty.down, penalty.up), most = std::max(penalty.down, penalty.up);
    const double score =
        std::max(least, 1e-4) * std::clamp(most, 1e-4, 10.0) + 1e-6 * std::min(part, 1.0 - part);
    if (score > best) {
      best = score;
      found = {j, penalty.up < penalty.down};
    }
  }
  return found;
}

/// The column with the widest bounds; nothing if these leave a single point.
[[nodiscard]] inline std::optional<CoveringBranch> widest_branch(const CoveringRelaxation& relaxation) {
  std::optional<CoveringBranch> found;
  double widest = 0.0;
  for (std::size_t j = 0; j < relaxation.point().size(); ++j) {
    const double width = relaxation.upper(j) - relaxation.lower(j);
    if (width <= widest) continue;
    widest = width;
    found = {j, false};
  }
  return found;
}

/// The open nodes of a search, by bound. A node is its parent with other bounds of one column.
class CoveringTree {
 public:
  static constexpr std::uint32_t no_change = 0xffffffffU;

  struct Node {
    double bound = 0.0;
    std::uint32_t change = no_change;  ///< that made it of its parent
    double exact = 0.0;  ///< the bound that was last solved, its parent's or its own, not rounded up
  };

  [[nodiscard]] bool empty() const { return open_.empty(); }
  /// The least of all open nodes; infinite if there is none.
  [[nodiscard]] double bound() const {
    return open_.empty() ? std::numeric_limits<double>::infinity() : open_.front().bound;
  }
  void clear() { open_.clear(); }

  /// Keeps the relaxation of the first node, with all that holds for the others.
  void set_root(const CoveringRelaxation& relaxation) {
    root_ = relaxation;
    entered_ = no_change;
  }

  /// Takes a node with the least bound: the latest, which mostly goes on from its parent's dictionary. @pre not empty.
  [[nodiscard]] Node take_latest() {
    std::pop_heap(open_.begin(), open_.end(), later);
    return take_last();
  }

  /// Takes a node with the least bound: the most promising. @pre not empty.
  [[nodiscard]] Node take_most_promising() {
    const double least = bound();
    const auto better = [&](const Node& a, const Node& b) {
      if ((a.bound == least) != (b.bound == least)) return a.bound == least;
      return a.exact != b.exact ? a.exact < b.exact : a.change > b.change;
    };
    std::iter_swap(std::min_element(open_.begin(), open_.end(), better), open_.end() - 1);
    const Node taken = take_last();
    std::make_heap(open_.begin(), open_.end(), later);
    return taken;
  }

  /// Gives the relaxation, that of the node entered before, the bounds of this one. @pre `set_root` was called.
  void enter(const Node& node, CoveringRelaxation& relaxation) {
    const Change& change = changes_[node.change];
    if (change.parent == entered_) {
      relaxation.set_bounds(change.column, change.lower, change.upper);
    } else {
      relaxation = *root_;
      for (std::uint32_t i = node.change; i != no_change; i = changes_[i].parent) {
        const Change& each = changes_[i];
        relaxation.set_bounds(each.column, std::max(each.lower, relaxation.lower(each.column)),
                              std::min(each.upper, relaxation.upper(each.column)));
      }
    }
    entered_ = node.change;
  }

  /// Adds two nodes below one that was solved; the one that comes first is added last.
  void split(const Node& node, const CoveringRelaxation& relaxation, const CoveringBranch& branch) {
    const std::size_t column = branch.column;
    const double lower = relaxation.lower(column), upper = relaxation.upper(column);
    const double middle = std::clamp(std::floor(relaxation.point()[column]), lower, upper - 1.0);
    const auto id = static_cast<std::uint32_t>(column);
    const Change down{node.change, id, lower, middle}, up{node.change, id, middle + 1.0, upper};
    push(node, branch.up_first ? down : up);
    push(node, branch.up_first ? up : down);
  }

 private:
  /// Bounds of one column, in addition to those of a parent.
  struct Change {
    std::uint32_t parent, column;
    double lower, upper;
  };
  static bool later(const Node& a, const Node& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.change < b.change;
  }

  [[nodiscard]] Node take_last() {
    const Node taken = open_.back();
    open_.pop_back();
    return taken;
  }

  void push(const Node& parent, const Change& change) {
    changes_.push_back(change);
    open_.push_back({parent.bound, static_cast<std::uint32_t>(changes_.size() - 1), parent.exact});
    std::push_heap(open_.begin(), open_.end(), later);
  }

  std::optional<CoveringRelaxation> root_;
  std::uint32_t entered_ = no_change;  // change whose node the relaxation holds
  std::vector<Change> changes_;
  std::vector<Node> open_;  // heap
};

}  // namespace slimpack::detail
