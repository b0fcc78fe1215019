#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/karmarkar_karp.hpp"
#include "slimpack/partition/ordered_parts.hpp"
#include "slimpack/planners/best_of.hpp"
#include "slimpack/planners/dynapipe_options.hpp"
#include "slimpack/planners/whole_sample_plan.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/schedule/pack_orders.hpp"

namespace slimpack::detail {

/// What micro-batches of samples in a fixed order take on each stage, for `ordered_parts`.
class MicroBatchSeconds {
 public:
  /// @param by_length samples in their order. @param prices of the pipelines that run a micro-batch.
  MicroBatchSeconds(std::span<const Tokens> lengths, std::span<const SampleId> by_length,
                    const Prices& prices)
      : constant_(prices.pack_seconds(0, Pass::forward) + prices.pack_seconds(0, Pass::backward)),
        seconds_(1, 0.0),
        tokens_(1, 0) {
    seconds_.reserve(by_length.size() + 1);
    tokens_.reserve(by_length.size() + 1);
    const auto stages = static_cast<double>(prices.stages());
    for (const SampleId id : by_length) {
      seconds_.push_back(seconds_.back() + document_seconds(prices, lengths[id]) / stages);
      tokens_.push_back(tokens_.back() + lengths[id]);
    }
  }

  /// Most tokens that micro-batches of several samples may have from now on.
  void limit(Tokens tokens) { limit_ = tokens; }

  double operator()(std::size_t begin, std::size_t end) const {
    const bool fits = end - begin == 1 || tokens_[end] - tokens_[begin] <= limit_;
    return fits ? constant_ + seconds_[end] - seconds_[begin] : std::numeric_limits<double>::infinity();
  }

 private:
  double constant_;
  std::vector<double> seconds_;  // of all samples before
  std::vector<Tokens> tokens_;
  Tokens limit_ = 0;
};

/// Looks for the micro-batches and their order with the shortest step.
class DynaPipeSearch {
 public:
  /// All have to outlive this.
  DynaPipeSearch(std::span<const Tokens> lengths, std::size_t pipelines, GroupPrices& prices,
                 const Memory& memory, const DynaPipeOptions& options)
      : lengths_(lengths),
        pipelines_(pipelines),
        prices_(prices),
        memory_(memory),
        options_(options),
        by_length_(falling_order(lengths, *std::max_element(lengths.begin(), lengths.end()))),
        scheduler_(lengths, prices, memory) {}

  /// The best plan; no pipelines run its packs if none fits.
  [[nodiscard]] WholeSamplePlan operator()() {
    const std::vector<std::size_t> sizes =
        options_.choose_cp ? context_parallel_group_sizes(pipelines_, prices_) : std::vector<std::size_t>{1};
    WholeSamplePlan best;
    for (const std::size_t size : sizes) {
      for (WholeSamplePlan& plan : finalists(size)) {
        reorder(plan, best.seconds);
        improve(std::move(plan), best);
      }
    }
    return best;
  }

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  /// How much longer than the best a split may take before its orders are searched, to be a finalist.
  static constexpr double promising = 1.25;

  /// The fastest splits for groups of `size` pipelines, each of which runs a micro-batch, in their given order.
  [[nodiscard]] std::vector<WholeSamplePlan> finalists(std::size_t size) {
    std::vector<WholeSamplePlan> found;
    double least = infinite;
    MicroBatchSeconds seconds(lengths_, by_length_, prices_.shared_by(size));
    const std::size_t groups = pipelines_ / size;
    const auto replicas = static_cast<double>(groups);
    // The replica with the most work has at most so much more than an equal share (Karmarkar-Karp and LPT alike).
    const double imbalance = (replicas - 1.0) / replicas;
    const double weight = static_cast<double>(memory_.stages() - 1) + imbalance;
    std::set<std::vector<std::size_t>> known;
    for (const Tokens limit : limits(size)) {
      seconds.limit(limit);
      OrderedPartsSolver solver(by_length_.size(), seconds);
      for (const double factor : {1.0, 0.5, 2.0, 0.25, 4.0}) {
        const OrderedParts parts =
            solver.solve({.most_weight = factor * weight, .sum_weight = 1.0 / replicas, .gap = 3e-3});
        if (!known.insert(parts.ends).second) continue;
        WholeSamplePlan plan = schedule_parts(parts.ends, size, seconds, promising * least);
        if (plan.pipelines_per_pack == 0) continue;
        least = std::min(least, plan.seconds);
        found.push_back(std::move(plan));
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    if (found.size() > options_.finalists) found.resize(options_.finalists);
    return found;
  }

  /// Tokens that micro-batches may have: as many as fill 1F1B pipelines of `size` neighbours with no layer recomputed, half of
  /// them, or all; and any number.
  [[nodiscard]] std::vector<Tokens> limits(std::size_t size) const {
    std::int32_t layers = 0;
    for (std::size_t s = 0; s < memory_.stages(); ++s) layers = std::max(layers, memory_.recompute_limit(s));
    std::vector<Tokens> out;
    const Tokens all = std::accumulate(lengths_.begin(), lengths_.end(), Tokens{0});
    for (const std::int32_t recompute : {0, layers / 2, layers}) {
      const Tokens most = largest_full_pack(memory_, recompute);
      out.push_back(std::min(all, most * static_cast<Tokens>(size)));
    }
    out.push_back(all);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  /// Micro-batches dealt to replicas by Karmarkar-Karp, each replica's longest samples first.
  [[nodiscard]] WholeSamplePlan schedule_parts(std::span<const std::size_t> ends, std::size_t size,
                                               const MicroBatchSeconds& seconds, double most) {
    Packs packs;
    std::vector<double> work;
    work.reserve(ends.size());
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      work.push_back(seconds(begin, end));
      for (; begin < end; ++begin) packs.add({by_length_[begin], 0, lengths_[by_length_[begin]]});
      packs.close();
    }
    const std::size_t replicas = pipelines_ / size;
    std::vector<Packs> dealt = packs_by_bin(packs, karmarkar_karp(work, replicas).bin, replicas);
    WholeSamplePlan plan{.pipelines_per_pack = size, .schedules = std::vector<Schedule>(replicas)};
    plan.seconds = 0.0;
    for (std::size_t r = 0; r < replicas; ++r) {
      Schedule& own = plan.schedules[r];
      own.pipelines = size;
      own.forward = own.backward = in_rows(std::move(dealt[r]), size);
      scheduler_(own, {}, most);
      plan.seconds = std::max(plan.seconds, own.seconds);
      if (!own.fits()) return {};
    }
    return plan;
  }

  /// Lets each replica run its micro-batches in the best order that is tried, the slowest first, as long as that makes the plan
  /// shorter. @param enough seconds from which on the plan is of no use.
  void reorder(WholeSamplePlan& plan, double enough) {
    const std::array options{ScheduleOptions{.order = PassOrder::packflow},
                             ScheduleOptions{.order = PassOrder::eager}};
    std::vector<std::size_t> slowest(plan.schedules.size());
    std::iota(slowest.begin(), slowest.end(), std::size_t{0});
    std::stable_sort(slowest.begin(), slowest.end(),
                     [&](auto a, auto b) { return plan.schedules[a].seconds > plan.schedules[b].seconds; });
    double seconds = 0.0;
    for (const std::size_t r : slowest) {
      Schedule& own = plan.schedules[r];
      if (own.seconds > seconds && seconds < enough) {
        const std::vector<double> durations = pack_durations(own);
        auto tried = cluster_orders(durations, options_.clusters);
        for (auto& order : pack_orders(durations)) tried.push_back(std::move(order));
        shorten_by_orders(own, tried, options, scheduler_);
      }
      seconds = std::max(seconds, own.seconds);
    }
    plan.seconds = seconds;
  }

  std::span<const Tokens> lengths_;
  std::size_t pipelines_;
  GroupPrices& prices_;
  const Memory& memory_;
  DynaPipeOptions options_;
  std::vector<SampleId> by_length_;  // longest first
  Scheduler scheduler_;
};

/// `plan_dynapipe` with prices and memory of any models.
[[nodiscard]] inline Plan search_dynapipe(std::span<const Tokens> lengths, const Job& job,
                                          GroupPrices& prices, const Memory& memory,
                                          const DynaPipeOptions& options) {
  validate_batch(lengths);
  require(options.clusters >= 1 && options.clusters <= 6, "clusters is ", options.clusters,
          "; expected 1 to 6");
  require(options.finalists >= 1, "finalists is 0; expected at least 1");
  DynaPipeSearch search(lengths, static_cast<std::size_t>(job.layout.dp), prices, memory, options);
  WholeSamplePlan best = search();
  require(best.pipelines_per_pack > 0, "no micro-batches that were tried fit into ", memory.capacity_text(),
          options.choose_cp ? concat(" with any context parallelism up to dp = ", job.layout.dp)
                            : std::string(" with the layout's cp"),
          " and all layers recomputed; expected shorter samples, more stages or more memory");
  std::size_t micro_batches = 0;
  for (const Schedule& schedule : best.schedules) micro_batches += schedule.forward.packs.size();
  const std::size_t replicas = best.schedules.size();
  Plan plan = assemble_whole_samples("dynapipe", lengths, job, std::move(best), prices, search.scheduler());
  plan.notes.push_back(concat(micro_batches, " micro-batches on ", replicas, " replicas"));
  return plan;
}

}  // namespace slimpack::detail
