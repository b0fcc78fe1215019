#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"

namespace slimpack {

struct KarmarkarKarpOptions {
  /// Every bin gets the same number of items, or one more or less if they don't divide evenly.
  bool equal_counts = false;
};

/// Karmarkar and Karp's largest differencing method (1982) into any number of bins. A partial solution is a
/// tuple of loads; the two tuples with the largest spread (largest load minus smallest) are joined, the
/// largest load of one with the smallest of the other, until one tuple is left. Keeps its memory between
/// calls.
///
/// A tuple made of two single items has the largest spread until each of its bins holds something. So single
/// items need no tuples, only their place in the sorted order, and the heap holds full tuples alone, at most
/// items / bins. Loads are never reduced by the smallest one: spreads stay the same, and sums of integers
/// stay exact.
template <ItemWeight W>
class KarmarkarKarpSolver {
 public:
  /// @param weights of the items, not negative. @param bins at least 1.
  /// @return the bins by decreasing load. Equal spreads: tuples before items, later tuples before earlier
  /// ones.
  /// @throws InvalidInput if there is no bin, a weight is negative or not finite, or their sum overflows.
  /// At most 4/3 - 1/(3 (bins - 1)) times the least makespan for bins > 2 (Michiels, Korst and Aarts 2003),
  /// 7/6 times for 2 (Fischetti and Martello 1987); both without equal counts.
  /// Complexity: O(n log n + n bins) at worst, O(n log n) for most inputs; memory O(n + bins).
  [[nodiscard]] BasicAssignment<W> solve(std::span<const W> weights, std::size_t bins,
                                         const KarmarkarKarpOptions& options = {}) {
    detail::check_counts(weights.size(), bins);
    static_cast<void>(detail::checked_sum(weights));
    bins_ = bins;
    next_ = 0;
    born_ = 0;
    cells_.clear();
    free_.clear();
    heap_.clear();
    detail::sort_falling(weights, items_);
    after_.resize(weights.size());
    std::iota(after_.begin(), after_.end(), std::uint32_t{0});
    return unroll(options.equal_counts ? join_groups() : join_items());
  }

 private:
  /// One bin of a tuple. Its items form a ring; `item` is one of them.
  struct Cell {
    W load;
    std::uint32_t item;
  };
  struct Tuple {
    W spread;
    std::uint32_t born;
    std::uint32_t slot;
    [[nodiscard]] bool operator<(const Tuple& other) const {
      return spread < other.spread || (spread == other.spread && born < other.born);
    }
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  [[nodiscard]] bool item_leads() const {
    return next_ < items_.size() && (heap_.empty() || items_[next_].weight > heap_.front().spread);
  }

  /// Slot of the tuple that is left at the end.
  std::uint32_t join_items() {
    if (items_.empty()) return start_tuple().first;
    for (;;) {
      std::uint32_t slot = 0;
      if (item_leads()) {
        std::size_t filled = 0;
        std::tie(slot, filled) = start_tuple();
        if (filled < bins_ && !heap_.empty()) join(slot, pop());
      } else {
        slot = pop();
        if (item_leads()) {
          add_items(slot);
        } else if (!heap_.empty()) {
          join(slot, pop());
        } else {
          return slot;
        }
      }
      push(slot);
    }
  }

  /// The same from tuples of one item per bin.
  std::uint32_t join_groups() {
    do {
      const std::uint32_t slot = new_slot();
      Cell* cells = cells_of(slot);
      for (std::size_t b = 0; b < bins_; ++b) cells[b] = take_item();
      push(slot);
    } while (next_ < items_.size());
    for (std::uint32_t slot = pop();; slot = pop()) {
      if (heap_.empty()) return slot;
      join(slot, pop());
      push(slot);
    }
  }

  /// A tuple of the items with the largest spread: its slot, and how many of its bins hold one.
  std::pair<std::uint32_t, std::size_t> start_tuple() {
    const std::uint32_t slot = new_slot();
    Cell* cells = cells_of(slot);
    std::size_t filled = 0;
    while (filled < bins_ && item_leads()) cells[filled++] = take_item();
    std::fill(cells + filled, cells + bins_, Cell{W{}, none});
    return {slot, filled};
  }

  /// Puts items into the least loaded bin of a tuple as long as these two have the largest spreads.
  void add_items(std::uint32_t slot) {
    Cell* cells = cells_of(slot);
    Cell* last = cells + bins_ - 1;
    do {
      const Cell item = take_item();
      const Cell grown{last->load + item.load, splice(last->item, item.item)};
      Cell* place =
          std::upper_bound(cells, last, grown, [](const Cell& a, const Cell& b) { return a.load > b.load; });
      std::move_backward(place, last, last + 1);
      *place = grown;
    } while (item_leads() && cells->load - last->load >= items_[next_].weight);
  }

  /// Joins the second tuple into the first.
  void join(std::uint32_t first, std::uint32_t second) {
    Cell* cells = cells_of(first);
    const Cell* others = cells_of(second);
    for (std::size_t b = 0; b < bins_; ++b) {
      const Cell& other = others[bins_ - 1 - b];
      cells[b] = {cells[b].load + other.load, splice(cells[b].item, other.item)};
    }
    std::sort(cells, cells + bins_, [](const Cell& a, const Cell& b) {
      return a.load > b.load || (a.load == b.load && a.item < b.item);
    });
    free_.push_back(second);
  }

  /// Joins two rings.
  std::uint32_t splice(std::uint32_t a, std::uint32_t b) {
    if (a == none) return b;
    if (b != none) std::swap(after_[a], after_[b]);
    return a;
  }

  Cell take_item() {
    if (next_ == items_.size()) return {W{}, none};
    const auto& item = items_[next_++];
    return {item.weight, item.item};
  }

  std::uint32_t new_slot() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(cells_.size() / bins_));
      cells_.resize(cells_.size() + bins_);
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  [[nodiscard]] Cell* cells_of(std::uint32_t slot) { return cells_.data() + slot * bins_; }

  void push(std::uint32_t slot) {
    const Cell* cells = cells_of(slot);
    heap_.push_back({cells[0].load - cells[bins_ - 1].load, born_++, slot});
    std::push_heap(heap_.begin(), heap_.end());
  }
  std::uint32_t pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    const std::uint32_t slot = heap_.back().slot;
    heap_.pop_back();
    return slot;
  }

  BasicAssignment<W> unroll(std::uint32_t slot) {
    BasicAssignment<W> result;
    result.bin.resize(items_.size());
    result.load.resize(bins_);
    const Cell* cells = cells_of(slot);
    for (std::size_t b = 0; b < bins_; ++b) {
      result.load[b] = cells[b].load;
      std::uint32_t item = cells[b].item;
      if (item == none) continue;
      do {
        result.bin[item] = static_cast<std::uint32_t>(b);
        item = after_[item];
      } while (item != cells[b].item);
    }
    return result;
  }

  std::size_t bins_ = 0;
  std::size_t next_ = 0;    // first single item, in items_
  std::uint32_t born_ = 0;  // tuples pushed so far
  std::vector<detail::WeighedItem<W>> items_;
  std::vector<std::uint32_t> after_;  // [item] the next one of its ring
  std::vector<Cell> cells_;           // [slot][bin] by decreasing load
  std::vector<std::uint32_t> free_;   // slots
  std::vector<Tuple> heap_;
};

/// One call of KarmarkarKarpSolver.
template <WeightRange R>
[[nodiscard]] auto karmarkar_karp(const R& weights, std::size_t bins,
                                  const KarmarkarKarpOptions& options = {}) {
  using W = std::ranges::range_value_t<R>;
  return KarmarkarKarpSolver<W>().solve(std::span<const W>(weights), bins, options);
}

}  // namespace slimpack
