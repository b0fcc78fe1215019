#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/planners/deepspeed_search.hpp"
#include "slimpack/planners/flexsp_micro_batches.hpp"
#include "slimpack/planners/limit_search.hpp"
#include "slimpack/planners/sequence_parallel_options.hpp"
#include "slimpack/planners/ulysses.hpp"
#include "slimpack/planners/uniform_rows.hpp"

namespace slimpack::detail {

/// Looks for the limit of tokens per rank and the number of micro-batches with the shortest step.
class FlexSpSearch {
 public:
  /// All have to outlive this.
  FlexSpSearch(std::span<const Tokens> lengths, std::size_t ranks, GroupPrices& prices, const Memory& memory,
               const FlexSpOptions& options)
      : lengths_(lengths),
        options_(options),
        domain_(lengths, ranks,
                rank_group_sizes(ranks, [&](std::size_t size) { return prices.allows(size); }),
                [&](Tokens length, std::size_t size) {
                  return document_seconds(prices.shared_by(size), length);
                }),
        longest_first_(longest_first(domain_)),
        least_limit_(std::ceil(domain_.tokens_per_rank(longest_first_.front(), domain_.sizes() - 1))),
        constants_(prices.alone().pack_seconds(0, Pass::forward) +
                   prices.alone().pack_seconds(0, Pass::backward)),
        ends_(weights([&](SampleId id) { return static_cast<double>(lengths[id]); })),
        rows_(lengths, domain_, options.split_trials),
        scheduler_(lengths, prices, memory) {
    for (const Tokens length : lengths) tokens_ += static_cast<double>(length);
  }

  /// The best plan; its seconds are infinite if none fits.
  [[nodiscard]] RowPlan operator()() {
    if (options_.limit == 0) try_groups_of_one_size();
    for (const Tokens limit : limits()) try_limit(limit);
    for (const double step : {0.25, 0.125}) {
      if (options_.limit > 0 || made_.limit == 0) break;
      const auto middle = static_cast<double>(made_.limit);
      for (const double direction : {1.0, -1.0})
        try_limit(static_cast<Tokens>(middle * std::exp2(direction * step)));
    }
    rows_.start_again(options_.final_split_trials);
    if (made_.limit > 0) {
      prepare(made_.limit);
      try_micro_batches(made_);
    }
    return std::move(best_);
  }

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  /// Tokens of a rank with which the best plan was made; 0: its groups have one size.
  [[nodiscard]] Tokens limit() const { return made_.limit; }

 private:
  /// What one size of all groups would give: DeepSpeed with each degree, and the same micro-batches on groups of any sizes.
  void try_groups_of_one_size() {
    const Tokens context = pack_context(lengths_, options_.context);
    for (std::size_t place = 0; place < domain_.sizes(); ++place) {
      const std::size_t size = domain_.size(place);
      if (domain_.ranks() % size == 0)
        keep(best_uniform_rows(lengths_, context, domain_.ranks(), size, scheduler_, best_.seconds), {});
    }
  }

  /// Falling.
  [[nodiscard]] std::vector<Tokens> limits() const {
    if (options_.limit > 0) return {options_.limit};
    std::vector<Tokens> limits = limits_of_tokens(lengths_, domain_.ranks(), least_limit_);
    std::reverse(limits.begin(), limits.end());
    return limits;
  }

  /// Tries numbers of micro-batches from the fewest that hold all tokens, until some more in a row are no better.
  void try_limit(Tokens limit) {
    if (static_cast<double>(limit) < least_limit_) return;
    prepare(limit);
    const double held = static_cast<double>(limit) * static_cast<double>(domain_.ranks());
    const auto least = static_cast<std::size_t>(std::ceil(tokens_ / held));
    std::size_t tried = 0;
    for (std::size_t count = std::max<std::size_t>(least, 1);
         count <= lengths_.size() && tried < options_.micro_batch_trials; ++count) {
      const double before = best_.seconds;
      bool held_all = false;
      for (const MicroBatchCut cut :
           {MicroBatchCut::tokens, MicroBatchCut::tokens_last_full, MicroBatchCut::work})
        held_all = try_micro_batches({limit, count, cut}) || held_all;
      if (held_all) tried = best_.seconds < before ? 1 : tried + 1;
      if (static_cast<double>(count) * constants_ >= best_.seconds) break;
    }
  }

  /// @returns whether groups hold all samples so.
  bool try_micro_batches(const MicroBatches& made) {
    const std::vector<std::size_t>& ends = ends_(made.count, made.cut);
    std::vector<double> least{0.0};  // work of micro-batches from the last on
    for (std::size_t k = ends.size(); k-- > 0;)
      least.push_back(least.back() + constants_ + least_group_work(domain_, part(least_, ends, k)));
    std::vector<RankRow> rows;
    std::vector<std::size_t> ids;
    double work = 0.0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      if (work + least[ends.size() - k] >= best_.seconds) return true;
      const FlexibleRows::Row& known = rows_(part(longest_first_, ends, k), made.limit);
      if (known.groups.row.empty()) return false;
      work += known.groups.work + constants_;
      rows.push_back(known.groups.row);
      ids.push_back(known.id);
    }
    if (ids == best_ids_) made_ = made;  // limits fall
    if (work < best_.seconds && scheduled_.insert(ids).second &&
        keep(schedule_with_barriers(lengths_, rows, domain_.ranks(), scheduler_, best_.seconds), made))
      best_ids_ = std::move(ids);
    return true;
  }

  /// Makes ready for micro-batches with this limit.
  void prepare(Tokens limit) {
    ends_.use_work(weights([&](SampleId id) { return rank_work(id, limit); }));
    least_.clear();
    for (const SampleId id : longest_first_) least_.push_back(least_sample_work(domain_, limit, id));
  }

  template <class Weight>
  [[nodiscard]] std::vector<double> weights(const Weight& weight) const {
    std::vector<double> all;
    all.reserve(longest_first_.size());
    for (const SampleId id : longest_first_) all.push_back(weight(id));
    return all;
  }

  /// Work of all ranks of the smallest group that holds a sample.
  [[nodiscard]] double rank_work(SampleId id, Tokens limit) const {
    const std::size_t place = std::min(domain_.least_place(id, limit), domain_.sizes() - 1);
    return domain_.work(id, place) * static_cast<double>(domain_.size(place));
  }

  bool keep(RowPlan plan, const MicroBatches& made) {
    if (plan.seconds >= best_.seconds) return false;
    best_ = std::move(plan);
    made_ = made;
    return true;
  }

  std::span<const Tokens> lengths_;
  FlexSpOptions options_;
  RankDomain domain_;
  std::vector<SampleId> longest_first_;
  double least_limit_;  // fewest tokens of a rank with which the largest group holds the longest sample
  double constants_;    // of the packs of a row
  double tokens_ = 0.0;
  MicroBatchEnds ends_;
  FlexibleRows rows_;
  std::vector<LeastSampleWork> least_;  // of the samples, longest first, with the last limit
  Scheduler scheduler_;
  RowPlan best_;
  MicroBatches made_;                             // of the best; a limit of 0: its groups have one size
  std::set<std::vector<std::size_t>> scheduled_;  // ids of the rows that were
  std::vector<std::size_t> best_ids_;             // of the best
};

/// `plan_flexsp` with prices and memory of any models.
[[nodiscard]] inline Plan search_flexsp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                        const Memory& memory, const FlexSpOptions& options) {
  require_sequence_parallel("flexsp", job.layout);
  validate_batch(lengths);
  require(options.limit >= 0, "limit is ", options.limit, "; expected 0 or a positive number of tokens");
  FlexSpSearch search(lengths, static_cast<std::size_t>(job.layout.dp), prices, memory, options);
  RowPlan best = search();
  require(best.schedule.fits(), "no micro-batches that were tried fit into ", memory.capacity_text(),
          " with sequence-parallel groups of up to dp = ", job.layout.dp,
          " pipelines and all layers recomputed; expected shorter samples, more devices or more memory",
          options.limit > 0 ? ", or the limit of tokens left to the planner" : "");
  Plan plan = assemble_rows("flexsp", lengths, job, std::move(best), prices, search.scheduler());
  plan.notes.push_back(search.limit() > 0 ? concat("groups of different sizes, with at most ", search.limit(),
                                                   " tokens of a micro-batch on each rank")
                                          : std::string("groups of one size were the best"));
  return plan;
}

}  // namespace slimpack::detail
