#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/rank_rows.hpp"
#include "slimpack/partition/sized_groups.hpp"

namespace slimpack {

/// A row of groups, and the work of its busiest rank; infinite if there is none.
struct FlexibleRow {
  RankRow row = {};
  double work = std::numeric_limits<double>::infinity();
};

/// What a sample takes at least in groups whose ranks hold it.
struct LeastSampleWork {
  double all = std::numeric_limits<double>::infinity();   ///< ranks together
  double each = std::numeric_limits<double>::infinity();  ///< of them
};

/// @param limit tokens of each rank. O(sizes).
[[nodiscard]] inline LeastSampleWork least_sample_work(const RankDomain& domain, Tokens limit, SampleId id) {
  LeastSampleWork least;
  for (std::size_t place = domain.least_place(id, limit); place < domain.sizes(); ++place) {
    const double work = domain.work(id, place);
    least.each = std::min(least.each, work);
    least.all = std::min(least.all, work * static_cast<double>(domain.size(place)));
  }
  return least;
}

/// No groups of the ranks run samples with less work of the busiest rank: they don't where each sample is shared by as
/// few ranks as can hold it, or by those that have least of it. O(samples).
[[nodiscard]] inline double least_group_work(const RankDomain& domain,
                                             std::span<const LeastSampleWork> samples) {
  double all = 0.0, most = 0.0;
  for (const LeastSampleWork& sample : samples) {
    all += sample.all;
    most = std::max(most, sample.each);
  }
  return std::max(most, all / static_cast<double>(domain.ranks()));
}

/// The same for samples of a domain, with at most `limit` tokens of each rank. O(samples * sizes).
[[nodiscard]] inline double least_group_work(const RankDomain& domain, Tokens limit,
                                             std::span<const SampleId> samples) {
  std::vector<LeastSampleWork> least;
  least.reserve(samples.size());
  for (const SampleId id : samples) least.push_back(least_sample_work(domain, limit, id));
  return least_group_work(domain, least);
}

/// One micro-batch of FlexSP (Wang et al., ASPLOS 2025): all ranks are split into groups of different sizes, each of which runs
/// some of the samples as one pack, such that the slowest group is as fast as can be and no rank holds more than `limit`
/// tokens. They solve a mixed-integer program over buckets of similar lengths; here, numbers of groups of each size are tried
/// best first, from groups of equal size on, each time splitting one group or joining two, and samples are distributed by
/// list scheduling and exchanges. Up to 16 ranks, all splits are tried as long as `trials` allows.
/// @param samples to distribute, longest first. @param trials splits that are tried at most.
/// @returns no row if no split that was tried holds the samples.
/// Complexity: O(trials * samples * groups) and the exchanges.
[[nodiscard]] inline FlexibleRow flexible_groups(const RankDomain& domain, Tokens limit,
                                                 std::span<const SampleId> samples, std::size_t trials = 48) {
  using Counts = std::vector<std::uint32_t>;  // groups of each size
  struct Trial {
    double work;
    Counts counts;
    bool operator<(const Trial& other) const {
      return work != other.work ? work < other.work : counts < other.counts;
    }
  };
  const double enough = least_group_work(domain, limit, samples) * (1.0 + 1e-9);
  detail::SizedGroups groups(domain, limit, samples);
  std::set<Trial> open;
  std::set<Counts> known;
  FlexibleRow best;
  const auto try_counts = [&](Counts counts) {
    if (best.work <= enough || known.size() >= trials || !known.insert(counts).second) return;
    const double work = groups(counts);
    if (work < best.work) best = {groups.row(), work};
    open.insert({work, std::move(counts)});
  };
  for (std::size_t place = domain.sizes(); place-- > 0;) {
    Counts counts(domain.sizes(), 0);
    std::size_t left = domain.ranks();
    for (std::size_t p = place + 1; p-- > 0;) {
      counts[p] = static_cast<std::uint32_t>(left / domain.size(p));
      left %= domain.size(p);
    }
    try_counts(std::move(counts));
  }
  while (!open.empty() && best.work > enough && known.size() < trials) {
    const Counts counts = std::move(open.extract(open.begin()).value().counts);
    for (std::size_t p = 0; p + 1 < domain.sizes(); ++p) {
      if (domain.size(p + 1) != 2 * domain.size(p)) continue;
      for (const bool join : {true, false}) {
        if (counts[join ? p : p + 1] < (join ? 2u : 1u)) continue;
        Counts next = counts;
        next[p] = join ? next[p] - 2 : next[p] + 2;
        next[p + 1] = join ? next[p + 1] + 1 : next[p + 1] - 1;
        try_counts(std::move(next));
      }
    }
  }
  return best;
}

}  // namespace slimpack
