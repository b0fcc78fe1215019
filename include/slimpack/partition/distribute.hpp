#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/partition/sample_prices.hpp"

namespace slimpack {

struct DistributorOptions {
  GroupSizes group_sizes = GroupSizes::any;
  /// Most tokens of one sample that fit into a member's memory.
  double memory_tokens = std::numeric_limits<double>::infinity();
};

/// What a distribution should be like.
struct DistributionOptions {
  bool merge = true;  ///< whether samples are merged to save time; otherwise only where memory asks for it
  /// Most tokens of one sample that a member should hold: longer samples are merged over more pipelines even if that
  /// takes more time in total, so that less has to be recomputed.
  double most_tokens = std::numeric_limits<double>::infinity();
  /// Most tokens of one sample that a member holds at all, if that is less than `DistributorOptions` has.
  double memory_tokens = std::numeric_limits<double>::infinity();
  /// Seconds that each pipeline works beyond its samples, by its place; may be empty.
  std::vector<double> overhead = {};
  double merged_overhead = 0.0;  ///< of pipelines with merged samples
};

/// Phase 1 of SlimPack (section 4.1.1): samples over pipelines with uniform capacity, and DP-Merge for
/// samples that no single pipeline can hold or finish within it.
///
/// Of the capacities for which the merged samples find groups and the total work has room, the one that leaves the busiest
/// pipeline least work. Then everything else goes, longest first, to the pipeline with the least work so far.
class Distributor {
 public:
  /// @param prices of the pipelines' kind. It and the lengths have to outlive this.
  Distributor(std::span<const Tokens> lengths, GroupPrices& prices, std::size_t pipelines,
              const DistributorOptions& options)
      : lengths_(lengths),
        group_prices_(prices),
        pipelines_(pipelines),
        options_(options),
        by_length_(longest_first(lengths)),
        prices_(lengths, by_length_, prices) {
    for (const SampleId id : by_length_) mean_seconds_ += prices_.whole(id) / static_cast<double>(pipelines);
    for (std::size_t size = 1; size <= pipelines; ++size) {
      allowed_.push_back(allows(size));
      if (allowed_.back()) largest_ = size;
    }
  }

  /// Work of a pipeline, samples unmerged, in both passes on the busiest stage: the mean of all.
  [[nodiscard]] double mean_seconds() const { return mean_seconds_; }

  /// Says how many packs a pipeline will have, about: samples are priced in slices of that size.
  void expect_packs(std::size_t packs) {
    prices_.set_slice_seconds(mean_seconds() / (more_packs * static_cast<double>(packs)));
    suffix_.clear();
  }

  /// Most tokens of one sample that a member of any group holds.
  [[nodiscard]] double most_tokens(std::span<const SampleGroup> groups) const {
    double most = 0.0;
    for (const SampleGroup& group : groups) most = std::max(most, most_held_tokens(group, lengths_));
    return most;
  }

  [[nodiscard]] Tokens longest() const { return lengths_[by_length_.front()]; }

  /// The largest group of pipelines that can be merged.
  [[nodiscard]] std::size_t largest_group() const { return largest_; }

  /// @throws InvalidInput if memory can't hold the longest sample on any group.
  void require_memory() const {
    const SampleId longest = by_length_.front();
    if (fits_memory(longest, largest_)) return;
    throw InvalidInput(concat("sample ", longest, " has ", lengths_[longest],
                              " tokens; memory holds at most ",
                              static_cast<Tokens>(options_.memory_tokens * static_cast<double>(largest_)),
                              " of one sample, with all layers recomputed, on ", largest_,
                              largest_ == 1 ? " pipeline" : " merged pipelines",
                              "; expected a shorter context, more stages or more memory"));
  }

  /// Groups that cover all pipelines; none if the samples find no place. O(n log n).
  [[nodiscard]] std::vector<SampleGroup> operator()(const DistributionOptions& wanted) {
    wanted_ = wanted;
    if (!place_merged()) return {};
    const std::size_t merged = merged_.size();
    std::vector<SampleGroup> groups = make_groups();
    std::vector<double> load = loads(groups);
    for (std::size_t i = 0; i < wanted.overhead.size(); ++i) load[i] += wanted.overhead[i];
    place_local(merged, load, groups);
    return groups;
  }

  /// Work of each pipeline on the busiest stage, as it was priced.
  [[nodiscard]] std::vector<double> loads(std::span<const SampleGroup> groups) {
    std::vector<double> load(pipelines_, 0.0);
    for (const SampleGroup& group : groups) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        for (const SampleId id : group.merged) load[group.first + i] += prices_.on(id, group.size());
        for (const SampleId id : group.local[i]) load[group.first + i] += prices_.alone(id);
      }
    }
    return load;
  }

 private:
  /// A search goes for more packs than are expected rather than for fewer: slices are priced as if there were so many
  /// times as many.
  static constexpr double more_packs = 1.5;

  struct Merged {
    SampleId id;
    std::size_t group;
  };
  struct OpenGroup {
    std::size_t size;
    double load;
  };

  static std::vector<SampleId> longest_first(std::span<const Tokens> lengths) {
    std::vector<SampleId> ids(lengths.size());
    std::iota(ids.begin(), ids.end(), SampleId{0});
    std::stable_sort(ids.begin(), ids.end(), [&](SampleId a, SampleId b) { return lengths[a] > lengths[b]; });
    return ids;
  }

  [[nodiscard]] bool allows(std::size_t size) const {
    return contains(options_.group_sizes, size) && group_prices_.allows(size);
  }

  [[nodiscard]] bool fits_memory(SampleId id, std::size_t size) const {
    return static_cast<double>(lengths_[id]) <=
           std::min(options_.memory_tokens, wanted_.memory_tokens) * static_cast<double>(size);
  }

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
    while (smallest <= pipelines_ && !suits(id, smallest, capacity)) ++smallest;
    if (smallest > pipelines_) return 0;
    if (smallest == 1) return 1;
    const auto total = [&](std::size_t size) { return prices_.on(id, size) * static_cast<double>(size); };
    std::size_t best = smallest;
    double least = total(best);
    for (std::size_t size = smallest + 1; size <= std::min(pipelines_, smallest * 3 / 2); ++size) {
      if (!suits(id, size, capacity) || total(size) >= least) continue;
      best = size;
      least = total(size);
    }
    return best;
  }

  /// Whether all samples find room if no pipeline may work longer than `capacity`; fills `merged_` and
  /// `open_`.
  bool place(double capacity) {
    merged_.clear();
    open_.clear();
    double work = 0.0;
    std::size_t used = 0;
    std::size_t count = 0;
    for (; count < by_length_.size(); ++count) {
      const SampleId id = by_length_[count];
      const std::size_t size = group_size(id, capacity);
      if (size == 1) break;
      if (size == 0) return false;
      std::size_t g = first_open([&](const OpenGroup& group) {
        return group.size >= size && group.load + prices_.on(id, group.size) <= capacity;
      });
      if (g == open_.size() && used + size > pipelines_) {
        g = first_open([&](const OpenGroup& group) {
          return suits(id, group.size, capacity) && group.load + prices_.on(id, group.size) <= capacity;
        });
        if (g == open_.size()) return false;
      }
      if (g == open_.size()) {
        used += size;
        open_.push_back({size, wanted_.merged_overhead});
        work += wanted_.merged_overhead * static_cast<double>(size);
      }
      const double seconds = prices_.on(id, open_[g].size);
      open_[g].load += seconds;
      work += seconds * static_cast<double>(open_[g].size);
      merged_.push_back({id, g});
    }
    needed_ = (work + work_from(count)) / static_cast<double>(pipelines_);
    return needed_ <= capacity * (1.0 + 1e-12);
  }

  /// Index of the first open group that will do; their number if there is none.
  template <class WillDo>
  [[nodiscard]] std::size_t first_open(const WillDo& will_do) const {
    return static_cast<std::size_t>(std::find_if(open_.begin(), open_.end(), will_do) - open_.begin());
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

  /// Places merged samples for the capacity with which the busiest pipeline has least work. Feasibility is not monotone:
  /// with more room, samples are merged over other groups. So capacities are tried upwards from the mean work uncut, as
  /// long as they can be better than the best so far. @returns whether there is one.
  bool place_merged() {
    constexpr double unlimited = std::numeric_limits<double>::infinity(), fine = 1.02, coarse = 1.1;
    if (!wanted_.merge) return place(unlimited);
    if (!fits_memory(by_length_.front(), largest_)) return false;
    const double mean = mean_seconds_, most = coarse * most_capacity(mean);
    double best = unlimited, least = unlimited, capacity = mean;
    while (capacity < std::min(most, least)) {
      const double level = place(capacity) ? busiest() : unlimited;
      if (level < least) {
        least = level;
        best = capacity;
      }
      capacity *= capacity < 1.5 * mean ? fine : coarse;
    }
    return best < unlimited && place(best);
  }

  /// With this capacity no sample is merged but for memory; or, if memory asks for larger groups than that, all samples
  /// could be in one of them.
  [[nodiscard]] double most_capacity(double mean) {
    const SampleId longest = by_length_.front();
    double most = std::max(2.0 * mean, prices_.alone(longest));
    if (!suits(longest, 1, most)) most = std::max(most, mean * static_cast<double>(pipelines_));
    return most;
  }

  /// Work of the busiest pipeline, if local samples fill the room that merged ones leave.
  [[nodiscard]] double busiest() const {
    double most = needed_;
    for (const OpenGroup& group : open_) most = std::max(most, group.load);
    return most;
  }

  /// Groups of merged pipelines, largest first so that groups of powers of two are aligned; then the single
  /// ones.
  std::vector<SampleGroup> make_groups() {
    std::vector<std::size_t> by_size(open_.size()), index(open_.size());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](std::size_t a, std::size_t b) { return open_[a].size > open_[b].size; });
    std::vector<SampleGroup> groups;
    PipelineId first = 0;
    const auto add = [&](std::size_t size) {
      groups.push_back({.first = first, .merged = {}, .local = std::vector<std::vector<SampleId>>(size)});
      first += static_cast<PipelineId>(size);
    };
    for (const std::size_t g : by_size) {
      index[g] = groups.size();
      add(open_[g].size);
    }
    while (first < pipelines_) add(1);
    for (const Merged& m : merged_) groups[index[m.group]].merged.push_back(m.id);
    return groups;
  }

  void place_local(std::size_t merged, std::span<const double> load, std::vector<SampleGroup>& groups) {
    std::vector<double> weights;
    weights.reserve(lengths_.size() - merged);
    for (std::size_t i = merged; i < by_length_.size(); ++i) weights.push_back(prices_.alone(by_length_[i]));
    std::vector<std::vector<SampleId>*> local;
    for (SampleGroup& group : groups) {
      for (auto& samples : group.local) local.push_back(&samples);
    }
    const Assignment assignment = LptSolver().solve(weights, load);
    for (std::size_t i = 0; i < weights.size(); ++i)
      local[assignment.bin[i]]->push_back(by_length_[merged + i]);
  }

  std::span<const Tokens> lengths_;
  GroupPrices& group_prices_;
  std::size_t pipelines_;
  DistributorOptions options_;
  DistributionOptions wanted_;
  std::vector<SampleId> by_length_;  // longest first
  SamplePrices prices_;
  std::vector<bool> allowed_;  // [size - 1] whether a group may have this size
  std::size_t largest_ = 1;    // size of a group that is allowed
  std::vector<double> suffix_;
  std::vector<Merged> merged_;
  std::vector<OpenGroup> open_;
  double mean_seconds_ = 0.0;  // work of a pipeline, samples whole
  double needed_ = 0.0;        // mean work of the pipelines as samples were placed last
};

}  // namespace slimpack
