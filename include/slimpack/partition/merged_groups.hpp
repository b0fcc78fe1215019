#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/distribution_options.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/partition/sample_prices.hpp"

namespace slimpack {

/// Which samples are merged over several pipelines (DP-Merge), and on which groups of pipelines they run.
///
/// Of the capacities for which the merged samples find groups and the total work has room, it takes the one that leaves
/// the busiest pipeline least work.
class MergedGroups {
 public:
  struct Merged {
    SampleId id;
    std::size_t group;  ///< place in `groups()`
  };
  struct Group {
    std::size_t size;  ///< pipelines
    double load;       ///< seconds of each member
  };

  /// @param by_length the samples, longest first. @param prices of these samples. @param allowed [size - 1] whether a group
  /// may have this size. Those that are not taken by value have to outlive this.
  MergedGroups(std::span<const Tokens> lengths, std::span<const SampleId> by_length, SamplePrices& prices,
               std::vector<bool> allowed, const DistributorOptions& options)
      : lengths_(lengths),
        by_length_(by_length),
        prices_(prices),
        allowed_(std::move(allowed)),
        options_(options) {
    for (const SampleId id : by_length_)
      mean_seconds_ += prices_.whole(id) / static_cast<double>(pipelines());
    for (std::size_t size = 1; size <= pipelines(); ++size) {
      if (allowed_[size - 1]) largest_ = size;
    }
  }

  /// Work of a pipeline, samples whole and unmerged, in both passes on the busiest stage: the mean of all.
  [[nodiscard]] double mean_seconds() const { return mean_seconds_; }

  /// Work of the busiest pipeline at least, samples whole, about: the mean of all, or what the longest sample takes on the best
  /// group of 1, 2, 4, … pipelines, if that is more. O(log pipelines).
  [[nodiscard]] double least_busiest_seconds() {
    const SampleId longest = by_length_.front();
    double least = prices_.whole(longest);
    for (std::size_t size = 2; size <= largest_; size *= 2) {
      if (allowed_[size - 1]) least = std::min(least, prices_.whole_on(longest, size));
    }
    return std::max(mean_seconds_, least);
  }

  /// The largest group of pipelines that can be merged.
  [[nodiscard]] std::size_t largest_group() const { return largest_; }

  /// Whether memory holds the sample on a group of this size.
  [[nodiscard]] bool fits_memory(SampleId id, std::size_t size) const {
    return static_cast<double>(lengths_[id]) <=
           std::min(options_.memory_tokens, wanted_.memory_tokens) * static_cast<double>(size);
  }

  /// To be called when the prices of samples have changed.
  void forget_prices() { suffix_.clear(); }

  /// Places merged samples for the capacity with which the busiest pipeline has least work. Feasibility is not monotone:
  /// with more room, samples are merged over other groups. So capacities are tried upwards from the mean work uncut, as
  /// long as they can be better than the best so far. @returns whether there is one.
  bool find(const DistributionOptions& wanted) {
    wanted_ = wanted;
    constexpr double unlimited = std::numeric_limits<double>::infinity();
    if (!wanted_.merge) return place(unlimited);
    if (!fits_memory(by_length_.front(), largest_)) return false;
    const double mean = mean_seconds_, most = options_.coarse_step * most_capacity(mean);
    double best = unlimited, least = unlimited, capacity = mean;
    while (capacity < std::min(most, least)) {
      const double level = place(capacity) ? busiest() : unlimited;
      if (level < least) {
        least = level;
        best = capacity;
      }
      capacity *= capacity < 1.5 * mean ? options_.fine_step : options_.coarse_step;
    }
    return best < unlimited && place(best);
  }

  /// What `find` found: the longest samples, in falling order of length, and their groups.
  [[nodiscard]] std::span<const Merged> merged() const { return merged_; }
  [[nodiscard]] std::span<const Group> groups() const { return groups_; }

 private:
  [[nodiscard]] std::size_t pipelines() const { return allowed_.size(); }

  [[nodiscard]] bool suits(SampleId id, std::size_t size, double capacity) {
    if (!allowed_[size - 1] || !fits_memory(id, size)) return false;
    if (!wanted_.merge) return true;
    const bool few_tokens =
        static_cast<double>(lengths_[id]) <= wanted_.most_tokens * static_cast<double>(size);
    return (few_tokens || size == largest_) && prices_.on(id, size) <= capacity;
  }

  /// Group that holds the sample within memory and `capacity` seconds: the smallest, or one half as large
  /// again if it takes less time in total; 0 if there is none.
  std::size_t group_size(SampleId id, double capacity) {
    std::size_t smallest = 1;
    while (smallest <= pipelines() && !suits(id, smallest, capacity)) ++smallest;
    if (smallest > pipelines()) return 0;
    if (smallest == 1) return 1;
    const auto total = [&](std::size_t size) { return prices_.on(id, size) * static_cast<double>(size); };
    std::size_t best = smallest;
    double least = total(best);
    for (std::size_t size = smallest + 1; size <= std::min(pipelines(), smallest * 3 / 2); ++size) {
      if (!suits(id, size, capacity) || total(size) >= least) continue;
      best = size;
      least = total(size);
    }
    return best;
  }

  /// Whether all samples find room if no pipeline may work longer than `capacity`; fills `merged_` and `groups_`.
  bool place(double capacity) {
    merged_.clear();
    groups_.clear();
    double work = 0.0;
    std::size_t used = 0;
    std::size_t count = 0;
    for (; count < by_length_.size(); ++count) {
      const SampleId id = by_length_[count];
      const std::size_t size = group_size(id, capacity);
      if (size == 1) break;
      if (size == 0) return false;
      std::size_t g = first_group([&](const Group& group) {
        return group.size >= size && group.load + prices_.on(id, group.size) <= capacity;
      });
      if (g == groups_.size() && used + size > pipelines()) {
        g = first_group([&](const Group& group) {
          return suits(id, group.size, capacity) && group.load + prices_.on(id, group.size) <= capacity;
        });
        if (g == groups_.size()) return false;
      }
      if (g == groups_.size()) {
        used += size;
        groups_.push_back({size, wanted_.merged_overhead});
        work += wanted_.merged_overhead * static_cast<double>(size);
      }
      const double seconds = prices_.on(id, groups_[g].size);
      groups_[g].load += seconds;
      work += seconds * static_cast<double>(groups_[g].size);
      merged_.push_back({id, g});
    }
    needed_ = (work + work_from(count)) / static_cast<double>(pipelines());
    return needed_ <= capacity * (1.0 + 1e-12);
  }

  /// Index of the first group that will do; their number if there is none.
  template <class WillDo>
  [[nodiscard]] std::size_t first_group(const WillDo& will_do) const {
    return static_cast<std::size_t>(std::find_if(groups_.begin(), groups_.end(), will_do) - groups_.begin());
  }

  /// Unmerged work, in slices, of all samples but the `count` longest.
  double work_from(std::size_t count) {
    if (suffix_.empty()) {
      suffix_.assign(lengths_.size() + 1, 0.0);
      for (std::size_t i = lengths_.size(); i-- > 0;)
        suffix_[i] = suffix_[i + 1] + prices_.alone(by_length_[i]);
    }
    return suffix_[count];
  }

  /// With this capacity samples are merged only where memory asks for it; or, if memory asks for larger groups than
  /// that, all samples could be in one of them.
  [[nodiscard]] double most_capacity(double mean) {
    const SampleId longest = by_length_.front();
    double most = std::max(2.0 * mean, prices_.alone(longest));
    if (!suits(longest, 1, most)) most = std::max(most, mean * static_cast<double>(pipelines()));
    return most;
  }

  /// Work of the busiest pipeline, if local samples fill the room that merged ones leave.
  [[nodiscard]] double busiest() const {
    double most = needed_;
    for (const Group& group : groups_) most = std::max(most, group.load);
    return most;
  }

  std::span<const Tokens> lengths_;
  std::span<const SampleId> by_length_;  // longest first
  SamplePrices& prices_;
  std::vector<bool> allowed_;  // [size - 1]
  DistributorOptions options_;
  DistributionOptions wanted_;
  double mean_seconds_ = 0.0;
  std::size_t largest_ = 1;     // size of a group that is allowed
  std::vector<double> suffix_;  // [count] work of all but the longest
  std::vector<Merged> merged_;
  std::vector<Group> groups_;
  double needed_ = 0.0;  // mean work of the pipelines as samples were placed last
};

}  // namespace slimpack
