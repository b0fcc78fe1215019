#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/distribute.hpp"
#include "slimpack/planners/search.hpp"

namespace slimpack::detail {

/// The groups of a candidate that take least and longest.
inline auto fastest_and_slowest(const Candidate& candidate) {
  return std::minmax_element(
      candidate.schedules.begin(), candidate.schedules.end(),
      [](const GroupSchedule& a, const GroupSchedule& b) { return a.seconds < b.seconds; });
}

/// Whether memory makes the slowest group slower than another, which has the same work, by more than 1 %, or all groups
/// slower than they could be.
[[nodiscard]] inline bool held_back(const Candidate& candidate) {
  const auto [fastest, slowest] = fastest_and_slowest(candidate);
  return slowest->memory_bound && (fastest->memory_bound || slowest->seconds > 1.01 * fastest->seconds);
}

/// Whether the slowest group takes so much longer than the mean that its pipelines should get less work.
[[nodiscard]] inline bool is_unbalanced(const Candidate& candidate) {
  double sum = 0.0, pipelines = 0.0;
  for (std::size_t g = 0; g < candidate.schedules.size(); ++g) {
    const auto members = static_cast<double>(candidate.groups[g].size());
    sum += candidate.schedules[g].seconds * members;
    pipelines += members;
  }
  return candidate.seconds * pipelines > 1.02 * sum;
}

/// Whether neither memory nor its distribution makes a candidate longer than others may be.
[[nodiscard]] inline bool is_good(const Candidate& candidate) {
  return candidate.seconds < std::numeric_limits<double>::infinity() && !held_back(candidate) &&
         !is_unbalanced(candidate);
}

/// Limits to what a member holds of one sample, as shares of the tokens that a stage holds without
/// recomputation.
inline constexpr double token_limits[] = {0.55, 0.35, 0.2};

/// The first so many of them are tried at once; further ones if none of these is good, but one is something.
inline constexpr std::size_t usual_limits = 2;

/// The same for batches that would not fit otherwise.
inline constexpr double tight_token_limits[] = {0.1, 0.05, 0.0};

/// A group that takes this many times as long as another marks its distribution as a bad one.
inline constexpr double most_lag = 1.15;

/// Other numbers of packs can be expected to make a candidate faster by this factor.
inline constexpr double worth_improving = 1.02;

/// Tokens of one sample that the first stage holds from forward to backward if it recomputes nothing.
template <MemoryModel M>
[[nodiscard]] double tokens_without_recompute(const M& memory) {
  const double room = memory.capacity_bytes() - memory.static_bytes(0);
  return room / (memory.activation_bytes(0, 0) + memory.kv_gradient_bytes(0));
}

/// Looks for the best of the distributions whose members hold at most so many tokens of one sample. Their merged groups
/// decide which it is; only of that one are all other groups looked at.
template <CostModel C, MemoryModel M>
class SpreadSearch {
 public:
  /// @param thorough false: gives up distributions of which some group lags far behind, or does not fit with the usual
  /// number of packs.
  SpreadSearch(Distributor<C, M>& distribute, ScheduleSearch<C, M>& search, const M& memory, bool thorough)
      : distribute_(distribute),
        search_(search),
        whole_(tokens_without_recompute(memory)),
        thorough_(thorough) {}

  /// @param shares the limits to try, falling, as shares of what a stage holds without recomputation; up to the first
  /// that memory does not hold back.
  [[nodiscard]] Candidate best_of(std::span<const double> shares) {
    spreads_.clear();
    least_ = unlimited;
    collect(shares);
    std::stable_sort(spreads_.begin(), spreads_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    Candidate best;
    best.seconds = least_ = unlimited;
    for (Candidate& spread : spreads_) {
      if (spread.seconds >= best.seconds || !search_.look(spread, patience(true))) continue;
      search_.improve(spread);
      if (spread.seconds < best.seconds) best = std::move(spread);
      least_ = best.seconds;
    }
    return best;
  }

 private:
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  /// Looks at the merged groups of each distribution. One whose other groups are held back is put off: the next one
  /// may be faster than it can be, unless that has far more work.
  void collect(std::span<const double> shares) {
    std::optional<Candidate> put_off;
    for (const double share : shares) {
      if (!thorough_ && share < shares[usual_limits - 1] && spreads_.empty()) break;
      if (share * whole_ >= static_cast<double>(distribute_.longest())) continue;
      const bool last = share == shares.back();
      Candidate spread{.most_tokens = share * whole_, .groups = distribute_(share * whole_)};
      const double load = least_ < unlimited || put_off ? most_load(spread) : 0.0;
      if (put_off && load > put_off->seconds * most_lag) {
        consider(*put_off, false);
        put_off.reset();
      }
      if (load > least_ * worth_improving) break;
      search_.calibrate(spread);
      if (!last && !put_off && spread.usual_seconds < unlimited && spread.schedules.back().memory_bound) {
        put_off = std::move(spread);
        continue;
      }
      consider(spread, last);
      if (!spreads_.empty() && is_good(spreads_.back())) break;
    }
    if (put_off && put_off->seconds < least_) consider(*put_off, spreads_.empty());
  }

  /// Keeps a distribution if its merged groups are not too slow.
  void consider(Candidate& spread, bool last) {
    if (!search_.look(spread, patience(false))) return;
    if (last && !is_good(spread)) search_.improve(spread);
    least_ = std::min(least_, spread.seconds);
    spreads_.push_back(std::move(spread));
  }

  [[nodiscard]] double most_load(const Candidate& spread) {
    const std::vector<double> loads = distribute_.loads(spread.groups);
    return *std::max_element(loads.begin(), loads.end());
  }

  [[nodiscard]] typename ScheduleSearch<C, M>::Patience patience(bool alone) const {
    return {.seconds = least_ * worth_improving,
            .ratio = thorough_ ? unlimited : most_lag,
            .any_count = thorough_,
            .alone = alone};
  }

  Distributor<C, M>& distribute_;
  ScheduleSearch<C, M>& search_;
  double whole_;  // tokens that a stage holds without recomputation
  bool thorough_;
  double least_ = unlimited;  // seconds of the best one so far
  std::vector<Candidate> spreads_;
};

}  // namespace slimpack::detail
