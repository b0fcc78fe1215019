#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/distribution_options.hpp"
#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/partition/longest_first.hpp"
#include "slimpack/partition/merged_groups.hpp"
#include "slimpack/partition/sample_prices.hpp"

namespace slimpack {

/// Phase 1 of SlimPack (section 4.1.1): samples over pipelines with uniform capacity, and DP-Merge for
/// samples that no single pipeline can hold or finish within it.
///
/// `MergedGroups` merges the longest samples. Then everything else goes, longest first, to the pipeline with the least work
/// so far.
class Distributor {
 public:
  /// @param prices of the pipelines' kind. It and the lengths have to outlive this.
  Distributor(std::span<const Tokens> lengths, GroupPrices& prices, std::size_t pipelines,
              const DistributorOptions& options)
      : lengths_(lengths),
        pipelines_(pipelines),
        options_(options),
        by_length_(detail::longest_first(lengths)),
        prices_(lengths, by_length_, prices),
        merged_(lengths, by_length_, prices_, allowed_sizes(prices), options) {}

  Distributor(const Distributor&) = delete;
  Distributor& operator=(const Distributor&) = delete;

  /// Work of a pipeline, samples unmerged, in both passes on the busiest stage: the mean of all.
  [[nodiscard]] double mean_seconds() const { return merged_.mean_seconds(); }

  /// Says how many packs a pipeline will have, about: samples are priced in slices of that size. If the longest sample is more
  /// than a pipeline's mean work, its slices are as long as the packs of the pipelines that run it.
  void expect_packs(std::size_t packs) {
    prices_.set_slice_seconds(merged_.least_busiest_seconds() /
                              (options_.slices_per_pack * static_cast<double>(packs)));
    merged_.forget_prices();
  }

  /// Most tokens of one sample that a member of any group holds.
  [[nodiscard]] double most_tokens(std::span<const SampleGroup> groups) const {
    double most = 0.0;
    for (const SampleGroup& group : groups) most = std::max(most, most_held_tokens(group, lengths_));
    return most;
  }

  [[nodiscard]] Tokens longest() const { return lengths_[by_length_.front()]; }

  /// The largest group of pipelines that can be merged.
  [[nodiscard]] std::size_t largest_group() const { return merged_.largest_group(); }

  /// @throws InvalidInput if memory can't hold the longest sample on any group.
  void require_memory() const {
    const SampleId longest = by_length_.front();
    const std::size_t largest = largest_group();
    if (merged_.fits_memory(longest, largest)) return;
    throw InvalidInput(concat("sample ", longest, " has ", lengths_[longest],
                              " tokens; memory holds at most ",
                              static_cast<Tokens>(options_.memory_tokens * static_cast<double>(largest)),
                              " of one sample, with all layers recomputed, on ", largest,
                              largest == 1 ? " pipeline" : " merged pipelines",
                              "; expected a shorter context, more stages or more memory"));
  }

  /// Groups that cover all pipelines; none if the samples find no place. O(n log n).
  [[nodiscard]] std::vector<SampleGroup> operator()(const DistributionOptions& wanted) {
    if (!merged_.find(wanted)) return {};
    std::vector<SampleGroup> groups = make_groups();
    std::vector<double> load = loads(groups);
    for (std::size_t i = 0; i < wanted.overhead.size(); ++i) load[i] += wanted.overhead[i];
    place_local(load, groups);
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
  /// [size - 1] whether a group may have this size.
  [[nodiscard]] std::vector<bool> allowed_sizes(GroupPrices& prices) const {
    std::vector<bool> allowed;
    for (std::size_t size = 1; size <= pipelines_; ++size)
      allowed.push_back(contains(options_.group_sizes, size) && prices.allows(size));
    return allowed;
  }

  /// Groups of merged pipelines, largest first so that groups of powers of two are aligned; then the single
  /// ones.
  std::vector<SampleGroup> make_groups() {
    const auto open = merged_.groups();
    std::vector<std::size_t> by_size(open.size()), index(open.size());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](std::size_t a, std::size_t b) { return open[a].size > open[b].size; });
    std::vector<SampleGroup> groups;
    PipelineId first = 0;
    const auto add = [&](std::size_t size) {
      groups.push_back({.first = first, .merged = {}, .local = std::vector<std::vector<SampleId>>(size)});
      first += static_cast<PipelineId>(size);
    };
    for (const std::size_t g : by_size) {
      index[g] = groups.size();
      add(open[g].size);
    }
    while (first < pipelines_) add(1);
    for (const MergedGroups::Merged& m : merged_.merged()) groups[index[m.group]].merged.push_back(m.id);
    return groups;
  }

  void place_local(std::span<const double> load, std::vector<SampleGroup>& groups) {
    const std::size_t merged = merged_.merged().size();
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
  std::size_t pipelines_;
  DistributorOptions options_;
  std::vector<SampleId> by_length_;  // longest first
  SamplePrices prices_;
  MergedGroups merged_;
};

}  // namespace slimpack
