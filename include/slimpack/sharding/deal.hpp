#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "slimpack/sharding/cuts.hpp"

namespace slimpack::detail {

/// What a rank has been dealt so far: its extra tokens, and twice its (query, key) pairs.
struct RankLoad {
  double pairs = 0.0;
  std::uint32_t extra = 0;
  std::uint32_t rank = 0;
};

/// Deals the slots of documents to ranks, one document after another. Slots with one more token go to ranks
/// with the fewest tokens, so ranks never differ by more than one. Among these, the slot with the most work
/// goes to the rank with the least. The order of the ranks is updated for each of the first documents, and
/// occasionally after that. Deterministic: ties are broken by the rank's number.
class SlotDealer {
 public:
  /// Starts again with nothing dealt. @pre cp > 0.
  void reset(std::int32_t cp) {
    loads_.resize(static_cast<std::size_t>(cp));
    for (std::size_t r = 0; r < loads_.size(); ++r) loads_[r] = {0.0, 0, static_cast<std::uint32_t>(r)};
    total_extra_ = dealt_ = 0;
  }

  /// Calls `visit(rank, slot)` for each rank. O(cp log cp); O(cp) if all slots are equal.
  template <class Visit>
  void deal(const DocumentCut& cut, Visit&& visit) {
    const auto cp = static_cast<Tokens>(loads_.size());
    const RemainderShares shares = cut.shares();
    // Sorting costs more than the rest, and the loads drift slowly.
    if (!cut.is_even()) sort(shares.more, !cut.is_long() && (dealt_ < 64 || dealt_ % 4 == 0));
    for (Tokens i = 0; i < cp; ++i) {
      Tokens slot = i;
      // A short document's inner slots have more work than its outer ones, with or without one more token.
      if (!cut.is_even() && !cut.is_long()) slot = (i < shares.more ? shares.more : cp + shares.more) - 1 - i;
      give(i, slot, shares, cut.twice_pairs(slot), visit);
    }
    total_extra_ += static_cast<std::size_t>(shares.before(cp));
    ++dealt_;
  }

  /// The same for the slots of a concatenation, whose work is given: `pairs[slot]`. If nothing was dealt
  /// before, rank r gets slot r. O(cp log cp).
  template <class Visit>
  void deal(const SequenceCut& cut, std::span<const double> pairs, Visit&& visit) {
    const auto cp = static_cast<Tokens>(loads_.size());
    const RemainderShares shares = cut.shares();
    slots_.resize(loads_.size());
    for (std::size_t s = 0; s < slots_.size(); ++s) slots_[s] = static_cast<std::uint32_t>(s);
    if (dealt_ > 0) {
      sort(shares.more, true);
      const auto heavier = [&](std::uint32_t a, std::uint32_t b) {
        return std::tuple(-pairs[a], a) < std::tuple(-pairs[b], b);
      };
      const auto middle = slots_.begin() + shares.more;
      std::sort(slots_.begin(), middle, heavier);
      std::sort(middle, slots_.end(), heavier);
    }
    for (Tokens i = 0; i < cp; ++i) {
      const std::uint32_t slot = slots_[static_cast<std::size_t>(i)];
      give(i, slot, shares, pairs[slot], visit);
    }
    total_extra_ += static_cast<std::size_t>(shares.before(cp));
    ++dealt_;
  }

 private:
  /// Sorts the ranks: first those that get one more token, which are the ones with the fewest tokens and, of
  /// these, with the least work. Within both parts, ranks are sorted by their work.
  void sort(Tokens more, bool renew) {
    if (renew) {
      std::sort(loads_.begin(), loads_.end(), [](const RankLoad& a, const RankLoad& b) {
        return a.pairs < b.pairs || (a.pairs == b.pairs && a.rank < b.rank);
      });
    }
    // Ranks have `few` tokens more than the even share, or one more than that.
    const std::size_t cp = loads_.size(), few = total_extra_ / cp, rest = total_extra_ % cp;
    Tokens poor = std::min(more, static_cast<Tokens>(cp - rest)), rich = more - poor;
    if (more == 0 || (rich == 0 && rest == 0)) return;
    others_.clear();
    auto to = loads_.begin();
    for (const RankLoad& load : loads_) {
      Tokens& places = load.extra == few ? poor : rich;
      if (places > 0) {
        --places;
        *to++ = load;
      } else {
        others_.push_back(load);
      }
    }
    std::copy(others_.begin(), others_.end(), to);
  }

  template <class Visit>
  void give(Tokens to, Tokens slot, const RemainderShares& shares, double pairs, Visit&& visit) {
    RankLoad& load = loads_[static_cast<std::size_t>(to)];
    load.extra += static_cast<std::uint32_t>(shares.of(slot));
    load.pairs += pairs;
    visit(load.rank, static_cast<std::uint32_t>(slot));
  }

  std::vector<RankLoad> loads_, others_;
  std::vector<std::uint32_t> slots_;
  std::size_t total_extra_ = 0;  // of all ranks
  std::size_t dealt_ = 0;
};

}  // namespace slimpack::detail
