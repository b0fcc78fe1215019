#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/cost/prices.hpp"
#include "slimpack/partition/bounds.hpp"

namespace slimpack {

/// What any plan of a batch on given pipelines takes at least, and why. Seconds, without synchronisation.
struct StepLowerBound {
  double work = 0.0;  ///< the busiest stage's share of all samples, with the time to fill and drain around it
  double sample = 0.0;  ///< the longest sample's own chain, run by as many pipelines as pay off
  bool exists = true;   ///< false: the model prices whole samples above their slices; both terms are zero

  [[nodiscard]] double seconds() const { return std::max(work, sample); }
};

namespace detail {

/// What is bounded: samples on equal pipelines, with a model for every number of pipelines that can run one.
class StepBounds {
 public:
  StepBounds(std::span<const Tokens> lengths, std::size_t pipelines, GroupPrices& prices)
      : lengths_(lengths.begin(), lengths.end()), pipelines_(pipelines), stages_(prices.alone().stages()) {
    std::sort(lengths_.begin(), lengths_.end());
    for (std::size_t g = 1; g <= pipelines; ++g) {
      if (prices.allows(g)) groups_.push_back({static_cast<double>(g), &prices.shared_by(g)});
    }
  }

  /// Whether no sample is cheaper in two parts, or as one token, for some lengths and cuts.
  [[nodiscard]] bool parts_cost_no_less() const {
    constexpr std::size_t most = 4;
    for (std::size_t i = 0; i < most; ++i) {
      const Tokens length = lengths_[(lengths_.size() - 1) * i / (most - 1)];
      for (std::size_t s = 0; s < stages_; ++s) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          if (!parts_cost_no_less(*groups_.front().prices, s, length, pass)) return false;
          if (!parts_cost_no_less(*groups_.back().prices, s, length, pass)) return false;
        }
      }
    }
    return true;
  }

  /// The busiest stage's work on the pipeline that has most of it, and what is around.
  [[nodiscard]] double work() const {
    const std::vector<double> around = fill_and_drain();
    std::vector<double> sum(stages_, 0.0);
    add_sample_seconds(*groups_.front().prices, lengths_, sum);
    std::size_t busiest = 0;
    for (std::size_t s = 0; s < stages_; ++s) {
      sum[s] = around[s] + sum[s] / static_cast<double>(pipelines_);
      if (sum[s] > sum[busiest]) busiest = s;
    }
    return around[busiest] + most_work(busiest);
  }

  /// Least seconds in which any group runs the longest sample alone.
  [[nodiscard]] double longest_sample() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Group& group : groups_) {
      least = std::min(least, chain_seconds(*group.prices, lengths_.back(), Pass::forward) +
                                  chain_seconds(*group.prices, lengths_.back(), Pass::backward));
    }
    return least;
  }

 private:
  struct Group {
    double members;
    const Prices* prices;
  };

  [[nodiscard]] static bool parts_cost_no_less(const Prices& prices, std::size_t stage, Tokens length,
                                               Pass pass) {
    constexpr double rounding = 1.0 + 1e-6;
    const auto seconds = [&](Tokens begin, Tokens end) {
      return prices.slice_seconds(stage, begin, end, pass);
    };
    const double whole = seconds(0, length) / rounding;
    if (seconds(0, 1) > seconds(0, length) * rounding) return false;
    for (const Tokens cut : {Tokens{1}, length / 2, length - 1}) {
      if (cut > 0 && cut < length && whole > seconds(0, cut) + seconds(cut, length)) return false;
    }
    return true;
  }

  template <class Seconds>
  [[nodiscard]] double least_of_groups(const Seconds& seconds) const {
    double least = std::numeric_limits<double>::infinity();
    for (const Group& group : groups_) least = std::min(least, double{seconds(*group.prices)});
    return least;
  }

  /// [stage] Constants of a forward and a backward pack there, and what passes the stages before it first and last.
  [[nodiscard]] std::vector<double> fill_and_drain() const {
    std::vector<double> around;
    double sum = 0.0;
    for (std::size_t s = 0; s < stages_; ++s) {
      double constants = 0.0, passage = 0.0;
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        constants += least_of_groups([&](const Prices& prices) { return prices.pack_seconds(s, pass); });
        passage += least_of_groups([&](const Prices& prices) { return prices.slice_seconds(s, 0, 1, pass); });
        if (s + 1 < stages_)
          passage +=
              least_of_groups([&](const Prices& prices) { return prices.transfer_seconds(s, 1, pass); });
      }
      around.push_back(sum + constants);
      sum += constants + passage;
    }
    return around;
  }

  [[nodiscard]] static double sample_seconds(const Prices& prices, std::size_t stage, Tokens length) {
    return prices.slice_seconds(stage, 0, length, Pass::forward) +
           prices.slice_seconds(stage, 0, length, Pass::backward);
  }

  /// Seconds that some pipeline works on a stage at least, constants aside. Samples that can't be merged are
  /// whole items; those that can take the least total of any group, in equal shares.
  [[nodiscard]] double most_work(std::size_t stage) const {
    if (groups_.size() > 1) return least_total(stage) / static_cast<double>(pipelines_);
    std::vector<double> weights;
    weights.reserve(lengths_.size());
    for (const Tokens length : lengths_)
      weights.push_back(sample_seconds(*groups_.front().prices, stage, length));
    return makespan_lower_bound(weights, pipelines_);
  }

  /// Sum over all samples of the least seconds that the members of any group take together. Of samples of
  /// about the same length, only those groups are looked at that take less for the shortest one than one
  /// pipeline takes for the longest one.
  [[nodiscard]] double least_total(std::size_t stage) const {
    constexpr double similar = 1.05;
    const Prices& alone = *groups_.front().prices;
    double sum = 0.0;
    std::vector<const Group*> rivals;
    for (std::size_t i = 0; i < lengths_.size();) {
      const auto limit = static_cast<Tokens>(similar * static_cast<double>(lengths_[i]));
      std::size_t end = i + 1;
      while (end < lengths_.size() && lengths_[end] <= limit) ++end;
      rivals.clear();
      const double most = sample_seconds(alone, stage, lengths_[end - 1]);
      for (std::size_t g = 1; g < groups_.size(); ++g) {
        if (groups_[g].members * sample_seconds(*groups_[g].prices, stage, lengths_[i]) < most)
          rivals.push_back(&groups_[g]);
      }
      for (; i < end; ++i) {
        double least = sample_seconds(alone, stage, lengths_[i]);
        for (const Group* group : rivals)
          least = std::min(least, group->members * sample_seconds(*group->prices, stage, lengths_[i]));
        sum += least;
      }
    }
    return sum;
  }

  /// Least seconds of one pass of a sample from the first stage it runs on to the last: in one pack, or in
  /// several, of which the first brings at least one token to each stage and the last takes at least one on.
  [[nodiscard]] double chain_seconds(const Prices& prices, Tokens length, Pass pass) const {
    double whole = 0.0, before = 0.0, after = 0.0;
    for (std::size_t s = 0; s < stages_; ++s) {
      const double constant = prices.pack_seconds(s, pass);
      whole += constant + prices.slice_seconds(s, 0, length, pass);
      after += constant + prices.slice_seconds(s, length - 1, length, pass);
      if (s + 1 == stages_) continue;
      whole += prices.transfer_seconds(s, length, pass);
      after += prices.transfer_seconds(s, 1, pass);
    }
    if (length == 1) return whole;
    double most = 0.0;
    for (std::size_t s = 0; s < stages_; ++s) {
      const double constant = prices.pack_seconds(s, pass);
      after -= constant + prices.slice_seconds(s, length - 1, length, pass);
      most = std::max(most, before + 2.0 * constant + prices.slice_seconds(s, 0, length, pass) + after);
      if (s + 1 == stages_) continue;
      const double transfer = prices.transfer_seconds(s, 1, pass);
      before += constant + prices.slice_seconds(s, 0, 1, pass) + transfer;
      after -= transfer;
    }
    return std::min(whole, most);
  }

  std::vector<Tokens> lengths_;  // ascending
  std::size_t pipelines_;
  std::size_t stages_;
  std::vector<Group> groups_;  // the first is one pipeline alone
};

}  // namespace detail

/// Bound of all plans that train these samples on `pipelines` equal pipelines under these prices: samples may be
/// cut, merged over any group of the pipelines, packed and ordered in any way, and their layers be recomputed.
///
/// Work. Some pipeline works on stage s for at least the mean over the pipelines; without merging, at least for
/// what the assignment of whole samples allows. A sample's work there is no less than that of the sample in one
/// slice on the group whose members take least together, because slices cost no less than the whole. To this come
/// the constants of one forward and one backward pack. The first pack that the stage runs is a forward pack with
/// the first token of some sample; it has passed the stages before. The last one is a backward pack with such a
/// token; it has yet to pass them. Neither overlaps with the work.
///
/// Sample. One group runs all slices of the longest sample, in order. If these are in one pack of a pass, it goes
/// through all stages. If not, stage s waits for the first slice, runs all of them with the constants of two
/// packs, and then the last slice goes on. The backward pass starts on the last stage when the forward pass has
/// ended there, so the least of each pass add up.
///
/// @param prices not falling with more tokens in a slice or a transfer, and no cheaper in slices than whole. This is
/// looked at for some samples and cuts; a model that fails has no bound (`exists`).
/// @pre pipelines > 0. O(n log n + samples * stages + groups * stages), and for each sample the groups that take no
/// longer in all than one pipeline.
[[nodiscard]] inline StepLowerBound step_lower_bound(std::span<const Tokens> lengths, std::size_t pipelines,
                                                     GroupPrices& prices) {
  if (lengths.empty()) return {};
  const detail::StepBounds bounds(lengths, pipelines, prices);
  if (!bounds.parts_cost_no_less()) return {.exists = false};
  return {.work = bounds.work(), .sample = bounds.longest_sample()};
}

/// The same for a cost model of any type.
template <CostModel C>
[[nodiscard]] StepLowerBound step_lower_bound(std::span<const Tokens> lengths, std::size_t pipelines,
                                              const C& cost) {
  GroupPrices prices{Prices(cost)};
  return step_lower_bound(lengths, pipelines, prices);
}

}  // namespace slimpack
