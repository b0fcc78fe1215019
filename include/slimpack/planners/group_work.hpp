#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/cost/prices.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/slicing/cut_seconds.hpp"

namespace slimpack {

/// Number of packs with which filling and draining a pipeline costs as much as all packs add.
/// @param work of a stage. @param each what each pack adds: its constants, and the cut before it.
[[nodiscard]] inline std::size_t promising_packs(std::size_t stages, double work, double each) {
  const double fill = std::max(0.5, static_cast<double>(stages) - 1.0) * work;
  const double packs = each > 0.0 ? std::sqrt(fill / each) : 64.0 * static_cast<double>(stages);
  return static_cast<std::size_t>(std::clamp(packs, 1.0, 1e6));
}

/// What is known of a group of pipelines before its samples are cut: the work of its stages, and how many packs promise a
/// short schedule. Keeps its memory between calls.
class GroupWork {
 public:
  /// @param lengths of all samples. @param prices of the pipelines' kind. Both have to outlive this.
  GroupWork(std::span<const Tokens> lengths, GroupPrices& prices) : lengths_(lengths), prices_(prices) {
    const Prices& alone = prices.alone();
    for (std::size_t s = 0; s < alone.stages(); ++s) {
      const double forward = alone.pack_seconds(s, Pass::forward),
                   backward = alone.pack_seconds(s, Pass::backward);
      constants_.push_back(forward + backward);
      least_constants_.push_back(std::min(forward, backward));
    }
  }

  /// Chooses the group that later calls are about. O(samples + members * stages).
  void load(const SampleGroup& group) {
    const Prices& alone = prices_.alone();
    seconds_.assign(alone.stages(), 0.0);
    samples_ = 0;
    tokens_ = 0;
    for (const std::vector<SampleId>& local : group.local) {
      own_seconds_.assign(alone.stages(), 0.0);
      add_sample_seconds(alone, lengths_of(local), own_seconds_);
      for (std::size_t s = 0; s < seconds_.size(); ++s) seconds_[s] = std::max(seconds_[s], own_seconds_[s]);
      samples_ = std::max(samples_, own_.size());
      tokens_ = std::max(tokens_, std::accumulate(own_.begin(), own_.end(), Tokens{0}));
    }
    if (!group.merged.empty()) {
      add_sample_seconds(prices_.shared_by(group.size()), lengths_of(group.merged), seconds_);
      samples_ += own_.size();
      tokens_ += std::accumulate(own_.begin(), own_.end(), Tokens{0});
    }
    cut_seconds_ = cut_seconds(group.local.front(), alone);
    if (!group.merged.empty())
      cut_seconds_ = std::max(cut_seconds_, cut_seconds(group.merged, prices_.shared_by(group.size())));
  }

  /// Samples that a member takes part in, at most.
  [[nodiscard]] std::size_t samples() const { return samples_; }
  /// Their tokens, at most.
  [[nodiscard]] Tokens tokens() const { return tokens_; }
  /// Pieces that they can be cut into.
  [[nodiscard]] std::size_t pieces(Tokens tile) const {
    return samples_ + static_cast<std::size_t>(tokens_ / tile);
  }

  /// Work of the busiest stage, samples uncut: every schedule takes at least this.
  [[nodiscard]] double seconds() const { return *std::max_element(seconds_.begin(), seconds_.end()); }

  /// `promising_packs`, or as many as there are pieces to fill them.
  [[nodiscard]] std::size_t promising(Tokens tile) const {
    const double each = *std::max_element(constants_.begin(), constants_.end()) + cut_seconds_;
    return std::min(pieces(tile), promising_packs(seconds_.size(), seconds(), each));
  }

  /// Seconds that every schedule of at least so many packs in one of the passes takes at least.
  [[nodiscard]] double least_seconds(double packs) const {
    double most = 0.0;
    for (std::size_t s = 0; s < seconds_.size(); ++s)
      most = std::max(most, seconds_[s] + packs * least_constants_[s]);
    return most;
  }

 private:
  [[nodiscard]] std::span<const Tokens> lengths_of(const std::vector<SampleId>& ids) {
    own_.clear();
    for (const SampleId id : ids) own_.push_back(lengths_[id]);
    return own_;
  }

  /// What a cut adds on the busiest stage.
  [[nodiscard]] double cut_seconds(const std::vector<SampleId>& ids, const Prices& prices) {
    const auto busiest =
        static_cast<std::size_t>(std::max_element(seconds_.begin(), seconds_.end()) - seconds_.begin());
    return mean_cut_seconds(lengths_of(ids), [&](Tokens begin, Tokens end) {
      return prices.slice_seconds(busiest, begin, end, Pass::forward) +
             prices.slice_seconds(busiest, begin, end, Pass::backward);
    });
  }

  std::span<const Tokens> lengths_;
  GroupPrices& prices_;
  std::vector<double> constants_;              // [stage] of a forward and a backward pack
  std::vector<double> least_constants_;        // [stage] of the pass that has less
  std::vector<double> seconds_, own_seconds_;  // [stage] of the busiest member; of the member looked at
  double cut_seconds_ = 0.0;
  std::size_t samples_ = 0;
  Tokens tokens_ = 0;
  std::vector<Tokens> own_;  // lengths of the samples looked at
};

}  // namespace slimpack
