#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/distribution_decisions.hpp"
#include "slimpack/planners/tile_search.hpp"

namespace slimpack {

namespace detail {

/// Finds the best plan with the same number of packs on all pipelines, in both passes.
class EqualPacks {
 public:
  /// @param hopeless `SlimPackSearch::hopeless`. The others have to outlive this.
  EqualPacks(Distributor& distribute, GroupSearch& groups, DistributionDecisions& decided,
             TileSearch& finished, double hopeless)
      : distribute_(distribute),
        groups_(groups),
        decided_(decided),
        finished_(finished),
        hopeless_(hopeless) {}

  /// @param constants seconds that a forward and a backward pack take in addition to their slices. @param promising
  /// number of packs that samples are distributed for. @param most packs to try.
  void expect(double constants, std::size_t promising, std::size_t most) {
    constants_ = constants;
    promising_packs_ = promising;
    most_packs_ = most;
  }

  /// The best plan with equal numbers of packs; its seconds are infinite if none takes less than `most`. Leaves out
  /// what takes far longer, as it is decided, than the best of this call and earlier ones.
  /// @param merge whether samples may be merged to save time; distributions without merging are tried in the same way
  /// in either case.
  [[nodiscard]] DistributionPlan operator()(bool merge, double most) {
    const GroupScheduler::Options before = groups_.options();
    groups_.options().exact = true;
    std::vector<DistributionPlan> decided;
    if (merge) decide_all(true, least_merged_, decided);
    decide_all(false, least_unmerged_, decided);
    groups_.options() = before;
    distribute_.expect_packs(promising_packs_);
    std::stable_sort(
        decided.begin(), decided.end(),
        [](const DistributionPlan& a, const DistributionPlan& b) { return a.seconds < b.seconds; });
    decided.erase(std::unique(decided.begin(), decided.end(), decided_alike), decided.end());
    DistributionPlan best;
    for (DistributionPlan& plan : decided)
      improve(finished_(std::move(plan), std::min(best.seconds, most)), best);
    return best;
  }

  /// Leaves nothing out any more because of earlier calls.
  void forget() { least_merged_ = least_unmerged_ = infinite; }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Distributions with numbers of packs that were tried.
  struct Decisions {
    std::vector<DistributionPlan> plans = {};
    std::vector<std::size_t> tried = {};  ///< numbers of packs
    double least = infinite;              ///< seconds of the best
    std::size_t best_packs = 1;           ///< of that
  };

  /// Tries powers of two, then numbers between them. Which are tried does not depend on what a plan's tile and
  /// boundaries make of them. @param least seconds of the best that was decided so far. @param promising gets what does
  /// not take far longer than that.
  void decide_all(bool merge, double& least, std::vector<DistributionPlan>& promising) {
    Decisions all{.least = least};
    for (std::size_t packs = 1; packs <= most_packs_; packs *= 2) decide(packs, merge, all);
    for (const double step : {0.5, 0.25}) {
      const auto middle = static_cast<double>(all.best_packs);
      for (const double factor : {std::exp2(-step), std::exp2(step)})
        decide(static_cast<std::size_t>(std::round(std::max(1.0, middle * factor))), merge, all);
    }
    least = all.least;
    for (DistributionPlan& plan : all.plans) {
      if (plan.seconds <= hopeless_ * least) promising.push_back(std::move(plan));
    }
  }

  /// Decides which pipelines run which samples if each has so many packs, unless that surely takes too long.
  void decide(std::size_t packs, bool merge, Decisions& all) {
    if (distribute_.mean_seconds() + static_cast<double>(packs) * constants_ >= all.least) return;
    if (std::find(all.tried.begin(), all.tried.end(), packs) != all.tried.end()) return;
    all.tried.push_back(packs);
    groups_.options().packs = packs;
    distribute_.expect_packs(packs);
    std::vector<DistributionPlan> plans = decided_(merge, all.least);
    if (plans.empty()) return;
    if (plans.front().seconds < all.least) {
      all.best_packs = packs;
      all.least = plans.front().seconds;
    }
    std::ranges::move(plans, std::back_inserter(all.plans));
  }

  Distributor& distribute_;
  GroupSearch& groups_;
  DistributionDecisions& decided_;
  TileSearch& finished_;
  double constants_ = 0.0;
  double hopeless_;
  double least_merged_ = infinite, least_unmerged_ = infinite;  // seconds of the best that was decided
  std::size_t promising_packs_ = 1, most_packs_ = 1;
};

}  // namespace detail

}  // namespace slimpack
