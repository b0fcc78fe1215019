#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/assignment.hpp"

namespace slimpack::detail {

/// The largest makespan that counts as an improvement: for floating-point numbers, a few units in the last
/// place below.
template <ItemWeight W>
[[nodiscard]] W next_below(W makespan) {
  if constexpr (std::floating_point<W>) {
    return makespan * (W{1} - W{16} * std::numeric_limits<W>::epsilon());
  } else {
    return makespan > W{} ? static_cast<W>(makespan - 1) : W{};
  }
}

/// Depth-first search for assignments into identical bins: items by decreasing weight, every item tried in
/// every bin, but only in one of those with the same contents. Of equal items, a later one never takes an
/// earlier bin.
template <ItemWeight W>
class BranchAndBound {
 public:
  struct Settings {
    std::size_t bins = 1;
    W allowed{};                 ///< the largest makespan that is worth finding
    W enough{};                  ///< the search ends when it finds a makespan this small
    bool fullest_first = false;  ///< whether an item tries the fullest bin first; otherwise the emptiest
    std::uint64_t max_steps = 0;
  };

  BranchAndBound(std::span<const W> weights, const SizeLimit& limit) : frames_(weights.size() + 1) {
    sort_falling(weights, items_);
    size_.resize(items_.size(), 0);
    if (!limit.sizes.empty()) {
      capacity_ = limit.capacity;
      std::stable_sort(items_.begin(), items_.end(), [&](const auto& a, const auto& b) {
        return a.weight > b.weight || (a.weight == b.weight && limit.sizes[a.item] > limit.sizes[b.item]);
      });
      for (std::size_t i = 0; i < items_.size(); ++i) size_[i] = limit.sizes[items_[i].item];
    }
    weight_left_.resize(items_.size() + 1, W{});
    size_left_.resize(items_.size() + 1, 0);
    for (std::size_t i = items_.size(); i-- > 0;) {
      weight_left_[i] = weight_left_[i + 1] + items_[i].weight;
      size_left_[i] = size_left_[i + 1] + size_[i];
    }
  }

  /// Looks for an assignment with the makespan allowed, then for lower and lower ones.
  /// @return whether the search was completed: then no lower makespan than the one found exists, unless that
  /// one was enough.
  bool run(const Settings& settings) {
    settings_ = settings;
    // Further bins than items would stay empty.
    settings_.bins = std::min(settings.bins, std::max<std::size_t>(items_.size(), 1));
    allowed_ = settings.allowed;
    parts_.assign(settings_.bins, {});
    found_ = false;
    steps_ = 0;
    enter(0);
    for (std::size_t depth = 0;;) {
      if (depth == items_.size()) {
        record();
        if (frames_[depth].fullest <= settings_.enough) return true;
      } else {
        if (settings_.max_steps - steps_ < parts_.size()) return false;
        steps_ += parts_.size();
        if (const std::size_t bin = next_bin(depth); bin < parts_.size()) {
          place(depth, bin);
          if (promising(depth + 1)) {
            enter(++depth);
          } else {
            take_back(depth);
          }
          continue;
        }
      }
      if (depth == 0) return true;
      take_back(--depth);
    }
  }

  [[nodiscard]] bool found() const { return found_; }
  /// Bins tried by the last run.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// The best assignment of the last run: the bin of each item.
  [[nodiscard]] const std::vector<std::uint32_t>& bins() const { return best_; }

 private:
  struct Part {
    W load{};
    std::int64_t size = 0;
  };
  /// The state of one item: its bin, and what that held without it.
  struct Frame {
    std::size_t first = 0;  ///< the lowest bin that it may take
    std::size_t bin = 0;
    Part before;
    W fullest{};          ///< load of the fullest bin, before the item
    bool tried = false;   ///< `before` is what the last bin tried held
    bool filled = false;  ///< the last bin tried was filled up to the makespan allowed
    W allowed{};          ///< then
  };

  void enter(std::size_t depth) {
    Frame& frame = frames_[depth];
    frame.tried = false;
    frame.filled = false;
    frame.first = 0;
    if (depth == 0 || depth == items_.size() || !alike(depth, depth - 1)) return;
    // If the previous item filled its bin, other bins were not tried for it, lower ones included, so they
    // stay open to equal items.
    const Frame& last = frames_[depth - 1];
    frame.first = last.filled ? last.first : last.bin;
  }
  [[nodiscard]] bool alike(std::size_t a, std::size_t b) const {
    return items_[a].weight == items_[b].weight && size_[a] == size_[b];
  }

  /// The next bin to try after the last one in the bins' order, or the number of bins.
  [[nodiscard]] std::size_t next_bin(std::size_t depth) const {
    const Frame& frame = frames_[depth];
    if (frame.fullest > allowed_) return parts_.size();
    // If the item fills the bin, no other bin has to be tried: whatever else it could take fits where the
    // item would go.
    if (frame.filled && frame.allowed == allowed_) return parts_.size();
    std::size_t next = parts_.size();
    for (std::size_t b = frame.first; b < parts_.size(); ++b) {
      const Part& part = parts_[b];
      if (part.load > allowed_ - items_[depth].weight || part.size > capacity_ - size_[depth]) continue;
      if (frame.tried && !comes_before(frame.before, part)) continue;
      if (next == parts_.size() || comes_before(part, parts_[next])) next = b;
    }
    return next;
  }
  [[nodiscard]] bool comes_before(const Part& a, const Part& b) const {
    if (a.load == b.load) return a.size < b.size;
    return (a.load < b.load) != settings_.fullest_first;
  }

  void place(std::size_t depth, std::size_t bin) {
    Frame& frame = frames_[depth];
    Part& part = parts_[bin];
    frame.bin = bin;
    frame.before = part;
    frame.tried = true;
    part.load += items_[depth].weight;
    part.size += size_[depth];
    frame.filled = std::integral<W> && capacity_ == 0 && part.load == allowed_;
    frame.allowed = allowed_;
    frames_[depth + 1].fullest = std::max(frame.fullest, part.load);
  }
  void take_back(std::size_t depth) { parts_[frames_[depth].bin] = frames_[depth].before; }

  /// Whether the bins that can take another item have enough room below the makespan allowed for all that is
  /// left.
  [[nodiscard]] bool promising(std::size_t depth) const {
    if (depth == items_.size()) return true;
    const W lightest = items_.back().weight;
    W missing = weight_left_[depth];
    // Floating-point sums depend on their order.
    const W negligible = std::floating_point<W> ? static_cast<W>(1e-6 * static_cast<double>(missing)) : W{};
    std::int64_t size_missing = size_left_[depth];
    for (const Part& part : parts_) {
      if (part.load <= allowed_ - lightest) missing -= std::min<W>(allowed_ - part.load, missing);
      size_missing -= std::min(capacity_ - part.size, size_missing);
      if (missing <= negligible && size_missing == 0) return true;
    }
    return false;
  }

  void record() {
    best_.resize(items_.size());
    for (std::size_t i = 0; i < items_.size(); ++i)
      best_[items_[i].item] = static_cast<std::uint32_t>(frames_[i].bin);
    found_ = true;
    allowed_ = next_below(frames_[items_.size()].fullest);
  }

  Settings settings_;
  std::int64_t capacity_ = 0;          // of sizes; 0 if there are none
  std::vector<WeighedItem<W>> items_;  // by decreasing weight, then size
  std::vector<std::int64_t> size_;     // [place in items_]
  std::vector<W> weight_left_;         // from this item on
  std::vector<std::int64_t> size_left_;
  std::vector<Part> parts_;    // [bin]
  std::vector<Frame> frames_;  // [depth], one more than items
  W allowed_{};
  bool found_ = false;
  std::uint64_t steps_ = 0;
  std::vector<std::uint32_t> best_;
};

}  // namespace slimpack::detail
