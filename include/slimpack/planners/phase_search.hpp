#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/partition/length_classes.hpp"
#include "slimpack/planners/homogeneous_strategy.hpp"
#include "slimpack/planners/hotspa_options.hpp"
#include "slimpack/planners/whole_samples.hpp"
#include "slimpack/strategy/phase_chain.hpp"
#include "slimpack/strategy/switch_seconds.hpp"

namespace slimpack::detail {

/// Finds the classes of lengths, and the strategy of each.
class PhaseSearch {
 public:
  /// All have to outlive this.
  PhaseSearch(std::span<const Tokens> lengths, const Transformer& model, const Device& device,
              const HotSpaOptions& options)
      : lengths_(lengths),
        model_(model),
        device_(device),
        options_(options),
        classes_(lengths, options.thresholds) {}

  /// Adds a strategy of equal pipelines, unless its models can't be made.
  void add(const Strategy& strategy, const MakeKindModels& make) {
    try {
      strategies_.push_back(std::make_unique<HomogeneousStrategy>(strategy, make, lengths_));
    } catch (const InvalidInput& error) {
      if (reason_.empty()) reason_ = error.what();
    }
  }

  /// @returns no phases if some samples fit no strategy.
  [[nodiscard]] std::vector<Phase> operator()() {
    const std::size_t n = classes_.parts();
    std::vector<std::vector<ClassPlan>> plans(n * n);  // [first part * n + last part]
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a; b < n; ++b) {
        if (options_.most_classes == 1 && (a > 0 || b + 1 < n)) continue;
        plans[a * n + b] = rivals(classes_.begin(a), classes_.end(b));
      }
    }
    return best_chain(
        classes_, plans, options_.most_classes,
        [&](std::size_t from, std::size_t to) { return seconds_between(from, to); },
        [&](std::size_t s) { return strategies_[s]->sync_seconds(); });
  }

  [[nodiscard]] const LengthClasses& classes() const { return classes_; }
  [[nodiscard]] HomogeneousStrategy& strategy(std::size_t s) { return *strategies_[s]; }
  [[nodiscard]] std::size_t strategies() const { return strategies_.size(); }
  /// Why the first strategy that can't be used can't; empty if all can.
  [[nodiscard]] const std::string& reason() const { return reason_; }

  /// Plans the samples of a class on a strategy; packs may be as long as those of all samples. @param own their lengths.
  [[nodiscard]] WholeSamplePlan plan(std::size_t s, Scheduler& scheduler, std::span<const Tokens> own,
                                     double most = infinite) const {
    static constexpr std::size_t alone = 1;
    const Tokens context = std::max(options_.context, classes_.longest());
    return best_whole_samples(own, context, strategies_[s]->pipelines(), {&alone, 1}, scheduler,
                              {.fit = FitPolicy::recompute}, most);
  }

  /// Seconds of a switch between two strategies (`switch_seconds`); none from one to itself.
  [[nodiscard]] double seconds_between(std::size_t from, std::size_t to) {
    if (from == to) return 0.0;
    const auto [known, added] = switches_.try_emplace({from, to}, 0.0);
    if (added)
      known->second = switch_seconds(strategies_[from]->strategy(), strategies_[to]->strategy(), model_,
                                     device_, options_.weight_bytes, options_.gradient_bytes);
    return known->second;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Strategies that may hold a class, by the seconds that it and the synchronisation take on each at least.
  [[nodiscard]] std::vector<std::pair<double, std::size_t>> promising(std::span<const SampleId> ids,
                                                                      Tokens longest) const {
    std::vector<std::pair<double, std::size_t>> order;
    order.reserve(strategies_.size());
    for (std::size_t s = 0; s < strategies_.size(); ++s) {
      if (!strategies_[s]->may_hold(longest)) continue;
      double least = strategies_[s]->sync_seconds();
      for (const SampleId id : ids) least += strategies_[s]->seconds(id);
      order.emplace_back(least, s);
    }
    std::sort(order.begin(), order.end());
    return order;
  }

  /// The strategies with which a class, and the synchronisation, take least.
  [[nodiscard]] std::vector<ClassPlan> rivals(std::size_t begin, std::size_t end) const {
    const std::vector<SampleId> ids = classes_.samples(begin, end);
    const std::vector<Tokens> own = classes_.lengths_of(ids);
    std::vector<std::pair<double, ClassPlan>> best;
    for (const auto& [least, s] : promising(ids, classes_.length(end - 1))) {
      const bool full = best.size() == options_.rivals;
      if (full && least >= best.back().first) break;
      const double sync = strategies_[s]->sync_seconds();
      Scheduler scheduler(own, strategies_[s]->prices(), strategies_[s]->memory());
      const double most = full ? best.back().first - sync : infinite;
      const WholeSamplePlan found = plan(s, scheduler, own, most);
      if (!(found.seconds < most)) continue;
      if (full) best.pop_back();
      best.emplace_back(found.seconds + sync, ClassPlan{s, found.seconds});
      std::stable_sort(best.begin(), best.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    std::vector<ClassPlan> out;
    out.reserve(best.size());
    for (const auto& [key, each] : best) out.push_back(each);
    return out;
  }

  std::span<const Tokens> lengths_;
  const Transformer& model_;
  const Device& device_;
  HotSpaOptions options_;
  LengthClasses classes_;
  std::vector<std::unique_ptr<HomogeneousStrategy>> strategies_;
  std::map<std::pair<std::size_t, std::size_t>, double> switches_;
  std::string reason_;
};

}  // namespace slimpack::detail
