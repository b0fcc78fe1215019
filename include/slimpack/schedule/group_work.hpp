#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/schedule/full_pack.hpp"
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
  /// @param lengths of all samples. @param prices, memory of the pipelines' kind. All have to outlive this.
  GroupWork(std::span<const Tokens> lengths, GroupPrices& prices, const Memory& memory)
      : lengths_(lengths), prices_(prices), memory_(memory) {
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
    find_recompute(group);
    seconds_.assign(alone.stages(), 0.0);
    limited_.assign(alone.stages(), 0.0);
    samples_ = 0;
    tokens_ = longest_ = 0;
    most_.clear();
    for (const std::vector<SampleId>& local : group.local) {
      find_work(alone, local);
      for (std::size_t s = 0; s < seconds_.size(); ++s) {
        seconds_[s] = std::max(seconds_[s], own_seconds_[s]);
        limited_[s] = std::max(limited_[s], own_seconds_[s] + own_recompute_[s]);
      }
      samples_ = std::max(samples_, own_.size());
      const Tokens tokens = own_tokens();
      if (tokens < tokens_) continue;
      tokens_ = tokens;
      most_ = own_;
    }
    if (!group.merged.empty()) {
      find_work(prices_.shared_by(group.size()), group.merged);
      for (std::size_t s = 0; s < seconds_.size(); ++s) {
        seconds_[s] += own_seconds_[s];
        limited_[s] += own_seconds_[s] + own_recompute_[s];
      }
      samples_ += own_.size();
      tokens_ += own_tokens();
      most_.insert(most_.end(), own_.begin(), own_.end());
    }
    cut_seconds_ = cut_seconds(group.local.front(), alone);
    if (!group.merged.empty())
      cut_seconds_ = std::max(cut_seconds_, cut_seconds(group.merged, prices_.shared_by(group.size())));
  }

  /// Samples that a member takes part in, at most.
  [[nodiscard]] std::size_t samples() const { return samples_; }
  /// Their tokens, at most.
  [[nodiscard]] Tokens tokens() const { return tokens_; }
  /// Tokens of the longest.
  [[nodiscard]] Tokens longest() const { return longest_; }
  /// Pieces that they can be cut into.
  [[nodiscard]] std::size_t pieces(Tokens tile) const {
    return samples_ + static_cast<std::size_t>(tokens_ / tile);
  }

  /// Tiles of the samples that the member with most tokens takes part in: it can run no more packs. O(samples).
  [[nodiscard]] std::size_t tiles(Tokens tile) const {
    Tokens tiles = 0;
    for (const Tokens length : most_) tiles += (length + tile - 1) / tile;
    return static_cast<std::size_t>(tiles);
  }

  /// Work of the busiest stage, samples uncut: every schedule takes at least this.
  [[nodiscard]] double seconds() const { return *std::max_element(seconds_.begin(), seconds_.end()); }

  /// The same with the layers recomputed without which memory can't hold the longest sample, on all packs alike.
  /// Infinite if it can't hold that at all.
  [[nodiscard]] double limited_seconds() const { return *std::max_element(limited_.begin(), limited_.end()); }

  /// `promising_packs`, or as many as there are pieces to fill them.
  [[nodiscard]] std::size_t promising(Tokens tile) const {
    const double each = *std::max_element(constants_.begin(), constants_.end()) + cut_seconds_;
    return std::min(std::max<std::size_t>(1, pieces(tile)),
                    promising_packs(seconds_.size(), seconds(), each));
  }

  /// Seconds that every schedule of at least so many packs in one of the passes takes at least, if the busiest member runs
  /// that many.
  [[nodiscard]] double least_seconds(double packs) const {
    double most = 0.0;
    for (std::size_t s = 0; s < seconds_.size(); ++s)
      most = std::max(most, seconds_[s] + packs * least_constants_[s]);
    return most;
  }

 private:
  /// Finds how many layers of each stage are recomputed at least: between its passes a sample is held as a whole.
  void find_recompute(const SampleGroup& group) {
    const double tokens = most_held_tokens(group, lengths_);
    recompute_.clear();
    for (std::size_t s = 0; s < memory_.stages(); ++s)
      recompute_.push_back(detail::layers_to_hold(memory_, s, tokens));
  }

  /// Finds the work of samples in both passes, and what the recomputation that memory asks for adds to it.
  void find_work(const Prices& prices, const std::vector<SampleId>& ids) {
    const std::span<const Tokens> own = lengths_of(ids);
    own_seconds_.assign(seconds_.size(), 0.0);
    own_recompute_.assign(seconds_.size(), 0.0);
    add_sample_seconds(prices, own, own_seconds_);
    for (const Tokens length : own) longest_ = std::max(longest_, length);
    if (own.empty() || std::all_of(recompute_.begin(), recompute_.end(), [](auto r) { return r == 0; }))
      return;
    whole_.clear();
    for (std::size_t i = 0; i < own.size(); ++i) whole_.push_back({ids[i], 0, own[i]});
    if (prices.recomputes()) prices.price_recompute(whole_, own_recompute_);
    for (std::size_t s = 0; s < seconds_.size(); ++s) {
      own_recompute_[s] = recompute_[s] > memory_.recompute_limit(s) ? std::numeric_limits<double>::infinity()
                                                                     : recompute_[s] * own_recompute_[s];
    }
  }

  [[nodiscard]] Tokens own_tokens() const { return std::accumulate(own_.begin(), own_.end(), Tokens{0}); }

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
  const Memory& memory_;
  std::vector<double> constants_;          // [stage] of a forward and a backward pack
  std::vector<double> least_constants_;    // [stage] of the pass that has less
  std::vector<double> seconds_, limited_;  // [stage] of the busiest member, without and with recomputation
  std::vector<double> own_seconds_, own_recompute_;  // [stage] of the samples looked at
  std::vector<std::int32_t> recompute_;  // [stage] layers, at least; one more than it has if all are too few
  double cut_seconds_ = 0.0;
  std::size_t samples_ = 0;
  Tokens tokens_ = 0, longest_ = 0;
  std::vector<Tokens> own_;   // lengths of the samples looked at
  std::vector<Tokens> most_;  // lengths of the samples of the member with most tokens
  std::vector<Slice> whole_;  // these, uncut
};

}  // namespace slimpack
