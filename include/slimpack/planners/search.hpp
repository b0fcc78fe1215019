#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/planners/candidates.hpp"

namespace slimpack {

/// A distribution of samples over pipelines, with the best schedule found so far for each of its groups.
struct Candidate {
  double most_tokens = std::numeric_limits<double>::infinity();  ///< what the distribution was asked for
  std::vector<SampleGroup> groups = {};
  std::vector<GroupSchedule> schedules = {};  ///< [group]
  double seconds = 0.0;                       ///< of the slowest group that was looked at
  double usual_seconds =
      std::numeric_limits<double>::infinity();  ///< of the last group, if known: mostly without long samples

  /// Stands for the count that suits most groups.
  static constexpr std::size_t usual_count = std::numeric_limits<std::size_t>::max();

  /// A group's place in the search.
  struct Progress {
    std::size_t count = usual_count;  ///< index of its number of packs
    bool looked_at = false;
    bool searched = false;  ///< other numbers were tried, too
  };
  std::vector<Progress> progress = {};  ///< [group]
};

struct ScheduleSearchOptions {
  MicroPackOptions micropack = {};
  bool asymmetric = true;
  bool equal_packs = false;         ///< all groups take the same number of packs
  std::vector<std::size_t> counts;  ///< numbers of packs to choose from, rising
  std::size_t first = 0;            ///< index of the count with which the search begins
};

/// Looks for the shortest step of distributions: chooses the number of packs of every group (SlimPack,
/// section 5.1).
///
/// Groups have about the same work, so the count that suits one suits most. One group is searched; all others
/// begin with its count, and only those that are slower than the rest are searched, too. Members of a merged
/// group have the same work: one stands for all until `finish`.
template <CostModel C, MemoryModel M>
class ScheduleSearch {
 public:
  ScheduleSearch(std::span<const Tokens> lengths, const C& cost, const M& memory,
                 std::span<const std::int32_t> recompute_limit, ScheduleSearchOptions options)
      : options_(std::move(options)),
        first_(options_.first),
        evaluate_(lengths, cost, memory, recompute_limit, options_.micropack, options_.asymmetric,
                  options_.equal_packs) {}

  /// When to stop looking at a candidate.
  struct Patience {
    double seconds = std::numeric_limits<double>::infinity();  ///< a group takes longer than this
    double ratio = std::numeric_limits<double>::infinity();    ///< or this many times as long as another
    bool memory_bound = true;                                  ///< false: memory holds a group back
    bool any_count = true;  ///< false: a group doesn't fit into memory with the number of packs to begin with
    bool alone = true;      ///< false: leaves groups without merged samples for later; they are alike
  };

  /// Looks at the last group, which holds no merged samples unless all do: others take about as long, if memory does not
  /// hold them back.
  /// That of the first candidate is searched for the count that all groups begin with.
  void calibrate(Candidate& candidate) {
    if (options_.equal_packs || candidate.usual_seconds < infinite) return;
    Candidate alone{.groups = {candidate.groups.back()}};
    look(alone, {});
    if (!calibrated_) {
      search(alone, 0, members(alone.groups[0]), infinite);
      calibrated_ = true;
      first_ = alone.progress[0].count;
    }
    if (alone.schedules[0].seconds == infinite) return;
    candidate.schedules.resize(candidate.groups.size());
    candidate.progress.resize(candidate.groups.size());
    candidate.usual_seconds = alone.schedules[0].seconds;
    usual_seconds_ = std::min(usual_seconds_, candidate.usual_seconds);
    candidate.seconds = std::max(candidate.seconds, candidate.usual_seconds);
    candidate.schedules.back() = std::move(alone.schedules[0]);
    candidate.progress.back() = {.count = alone.progress[0].count, .looked_at = true};
  }

  /// Schedules the groups not looked at so far, as long as they deserve it. Those left for later are taken to be as
  /// fast as others are; none is left while that isn't known. @returns whether all were looked at, or left.
  bool look(Candidate& candidate, const Patience& patience) {
    candidate.schedules.resize(candidate.groups.size());
    candidate.progress.resize(candidate.groups.size());
    const bool compares = patience.ratio < infinite;
    if (compares) calibrate(candidate);
    double fastest = compares ? usual_seconds_ : infinite;
    const auto too_long = [&] { return std::min(patience.seconds, patience.ratio * fastest); };
    if (candidate.seconds > too_long()) return false;
    for (std::size_t i = 0; i < candidate.groups.size(); ++i) {
      const std::size_t g = riskiest(candidate.groups, i);
      if (candidate.progress[g].looked_at) continue;
      if (i == 1 && !calibrated_) {
        calibrate(candidate);
        const bool bound = candidate.progress.back().looked_at && candidate.schedules.back().memory_bound;
        if (candidate.seconds > too_long() || (bound && !patience.memory_bound)) return false;
      }
      if (!patience.alone && candidate.usual_seconds < infinite && candidate.groups[g].merged.empty()) {
        candidate.schedules[g].seconds = candidate.usual_seconds;
        continue;
      }
      std::size_t& count = candidate.progress[g].count;
      if (count == Candidate::usual_count) count = first_;
      GroupSchedule& schedule = candidate.schedules[g];
      const auto outcome = evaluate_(candidate.groups[g],
                                     {.packs = options_.counts[count],
                                      .members = members(candidate.groups[g]),
                                      .enough = candidate.seconds,
                                      .most = too_long(),
                                      .memory_bound = patience.memory_bound},
                                     schedule);
      if (outcome == CandidateEvaluator<C, M>::Outcome::no_use) return false;
      candidate.progress[g].looked_at = true;
      if (schedule.seconds == infinite && !options_.equal_packs) {
        if (!patience.any_count) return false;
        search(candidate, g, members(candidate.groups[g]), 0.0);
      }
      candidate.seconds = std::max(candidate.seconds, schedule.seconds);
      fastest = std::min(fastest, schedule.seconds);
      if (candidate.seconds > too_long() || (!patience.memory_bound && schedule.memory_bound)) return false;
    }
    return true;
  }

  /// Lets every group that is not looked at yet begin with the number of packs that suited the group in the same
  /// place of another candidate, if they have as many members.
  void begin_like(const Candidate& found, Candidate& candidate) const {
    candidate.progress.resize(candidate.groups.size());
    for (std::size_t g = 0; g < std::min(found.groups.size(), candidate.groups.size()); ++g) {
      if (found.groups[g].size() == candidate.groups[g].size())
        candidate.progress[g].count = found.progress[g].count;
    }
  }

  /// Tries other numbers of packs for the slowest groups, until the slowest one has its best, or is one left for later.
  void improve(Candidate& candidate) {
    if (options_.equal_packs) {
      for (const bool up : {true, false}) climb(candidate, up);
      return;
    }
    while (true) {
      const std::size_t g = slowest(candidate);
      const double others = slowest_but(candidate, g);
      const auto& [count, looked_at, searched] = candidate.progress[g];
      if (!looked_at || searched || candidate.seconds <= searched_seconds(candidate) * worth_a_search) break;
      search(candidate, g, members(candidate.groups[g]), others);
      candidate.seconds = std::max(others, candidate.schedules[g].seconds);
    }
  }

  /// Schedules all members of merged groups, with packs as equal as can be.
  void finish(Candidate& candidate) {
    for (std::size_t g = 0; g < candidate.groups.size(); ++g) {
      const SampleGroup& group = candidate.groups[g];
      if (group.merged.empty()) continue;
      const std::size_t packs = options_.counts[candidate.progress[g].count];
      if (!evaluate_.complete(group, packs, candidate.seconds, candidate.schedules[g]) &&
          !options_.equal_packs) {
        search(candidate, g, group.size(), 0.0);
      }
    }
    candidate.seconds = candidate.schedules[slowest(candidate)].seconds;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  /// Members of a merged group that stand for all of them: two are looked at together, of more the first.
  [[nodiscard]] static std::size_t members(const SampleGroup& group) { return group.size() == 2 ? 2 : 1; }
  /// A group has to be slower than those that were searched by this factor to be searched, too.
  static constexpr double worth_a_search = 1.004;

  [[nodiscard]] static std::size_t slowest(const Candidate& candidate) {
    const auto faster = [](const GroupSchedule& a, const GroupSchedule& b) { return a.seconds < b.seconds; };
    return static_cast<std::size_t>(
        std::max_element(candidate.schedules.begin(), candidate.schedules.end(), faster) -
        candidate.schedules.begin());
  }

  [[nodiscard]] static double slowest_but(const Candidate& candidate, std::size_t group) {
    double most = 0.0;
    for (std::size_t g = 0; g < candidate.schedules.size(); ++g) {
      if (g != group) most = std::max(most, candidate.schedules[g].seconds);
    }
    return most;
  }

  [[nodiscard]] static double searched_seconds(const Candidate& candidate) {
    double most = 0.0;
    for (std::size_t g = 0; g < candidate.groups.size(); ++g) {
      if (candidate.progress[g].searched) most = std::max(most, candidate.schedules[g].seconds);
    }
    return most;
  }

  /// The group to look at in place `i`: those with merged samples, which stand first, from the smallest, whose
  /// members hold most; then the others.
  [[nodiscard]] static std::size_t riskiest(std::span<const SampleGroup> groups, std::size_t i) {
    const auto alone = std::find_if(groups.begin(), groups.end(),
                                    [](const SampleGroup& group) { return group.merged.empty(); });
    const auto merged = static_cast<std::size_t>(alone - groups.begin());
    return i < merged ? merged - 1 - i : i;
  }

  /// Tries the count that was best for the group searched before; if that makes this one no faster, the
  /// counts on both sides of its present one, as long as they do.
  /// @param enough as for CandidateEvaluator.
  void search(Candidate& candidate, std::size_t g, std::size_t looked_at_members, double enough) {
    candidate.progress[g].searched = true;
    GroupSchedule& best = candidate.schedules[g];
    const std::size_t from = candidate.progress[g].count;
    const int patience = best.seconds < infinite && enough < infinite ? 1 : 0;
    const auto try_count = [&](std::size_t i) {
      evaluate_(
          candidate.groups[g],
          {.packs = options_.counts[i], .members = looked_at_members, .enough = enough, .most = best.seconds},
          trial_);
      if (!(trial_.seconds < best.seconds)) return false;
      std::swap(trial_, best);
      candidate.progress[g].count = i;
      return true;
    };
    const auto done = [&] { return enough < infinite && best.seconds <= enough * worth_a_search; };
    if (latest_ != from && latest_ < options_.counts.size() && try_count(latest_) && done()) return;
    for (const bool up : {true, false}) {
      int failures = 0;
      if (!up && enough == infinite && best.memory_bound) break;
      for (std::size_t i = from; (up ? i + 1 < options_.counts.size() : i > 0) && !done();) {
        i += up ? 1 : std::size_t(-1);
        if (i == latest_ || try_count(i) || best.seconds == infinite) continue;
        if (++failures > patience) break;
      }
    }
    latest_ = candidate.progress[g].count;
  }

  /// Moves all groups to the next counts upwards or downwards as long as that makes the step shorter.
  void climb(Candidate& candidate, bool up) {
    std::size_t i = candidate.progress[0].count;
    while (up ? i + 1 < options_.counts.size() : i > 0) {
      i += up ? 1 : std::size_t(-1);
      std::vector<GroupSchedule> trial(candidate.groups.size());
      double seconds = 0.0;
      for (std::size_t g = 0; g < trial.size() && seconds < candidate.seconds; ++g) {
        evaluate_(candidate.groups[g],
                  {.packs = options_.counts[i], .members = members(candidate.groups[g]), .enough = seconds},
                  trial[g]);
        seconds = std::max(seconds, trial[g].seconds);
      }
      if (seconds < candidate.seconds) {
        candidate.schedules = std::move(trial);
        candidate.seconds = seconds;
        candidate.progress.assign(candidate.groups.size(), {.count = i, .looked_at = true, .searched = true});
      } else if (candidate.seconds < infinite) {
        break;
      }
    }
  }

  ScheduleSearchOptions options_;
  std::size_t first_;
  std::size_t latest_ = std::numeric_limits<std::size_t>::max();  // best count of the group searched before
  bool calibrated_ = false;
  double usual_seconds_ = infinite;  // least of all candidates
  CandidateEvaluator<C, M> evaluate_;
  GroupSchedule trial_;
};

/// Index of the count to begin a search with: where `stages - 1` packs of filling and draining cost as much
/// as the constants of all packs. @param seconds work of a stage.
[[nodiscard]] inline std::size_t first_count(std::span<const std::size_t> counts, std::size_t stages,
                                             double seconds, double pack_constants) {
  const double best =
      pack_constants > 0.0 ? std::sqrt((static_cast<double>(stages) - 1.0) * seconds / pack_constants) : 1e9;
  std::size_t first = 0;
  while (first + 1 < counts.size() && static_cast<double>(counts[first + 1]) <= best) ++first;
  return first;
}

}  // namespace slimpack
