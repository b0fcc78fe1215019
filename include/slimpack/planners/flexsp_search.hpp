#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/partition/flexible_groups.hpp"
#include "slimpack/partition/similar_lengths.hpp"
#include "slimpack/planners/deepspeed_search.hpp"
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
        splits_(options.split_trials),
        domain_(lengths, ranks,
                rank_group_sizes(ranks, [&](std::size_t size) { return prices.allows(size); }),
                [&](Tokens length, std::size_t size) {
                  return document_seconds(prices.shared_by(size), length);
                }),
        longest_first_(longest_first(domain_)),
        constants_(prices.alone().pack_seconds(0, Pass::forward) +
                   prices.alone().pack_seconds(0, Pass::backward)),
        by_tokens_(weights([&](SampleId id) { return static_cast<double>(lengths[id]); })),
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
    splits_ = options_.final_split_trials;
    rows_.clear();
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
  /// How samples of similar lengths are cut into micro-batches.
  enum class Cut : std::uint8_t {
    tokens,            ///< as equal in tokens as can be, the first as full as that allows
    tokens_last_full,  ///< the same, the last as full as that allows, as the authors do
    work,              ///< as equal in work as can be
  };

  /// Micro-batches of samples of similar lengths.
  struct MicroBatches {
    Tokens limit = 0;  ///< tokens of each rank
    std::size_t count = 0;
    Cut cut = Cut::tokens;
  };

  /// Groups of a micro-batch that were found before.
  struct KnownRow {
    Tokens limit = -1;    ///< with which they were found
    double tokens = 0.0;  ///< that a rank has at most
    std::size_t id = 0;   ///< equal ones are the same groups
    FlexibleRow groups = {};
  };

  /// What one size of all groups would give: DeepSpeed with each degree, and the same micro-batches on groups of any sizes.
  void try_groups_of_one_size() {
    const Tokens context = pack_context(lengths_, options_.context);
    for (std::size_t place = 0; place < domain_.sizes(); ++place) {
      const std::size_t size = domain_.size(place);
      if (domain_.ranks() % size == 0)
        keep(best_uniform_rows(lengths_, context, domain_.ranks(), size, scheduler_, best_.seconds), {});
    }
  }

  /// Limits to try, a factor of the square root of two apart: from that with which one micro-batch may hold all samples, however
  /// they are distributed, to the least with which the largest group holds the longest sample.
  [[nodiscard]] std::vector<Tokens> limits() const {
    if (options_.limit > 0) return {options_.limit};
    const double share = tokens_ / static_cast<double>(domain_.ranks());
    const auto longest = static_cast<double>(lengths_[longest_first_.front()]);
    const double most = std::max(longest, 2.0 * share), step = std::sqrt(2.0);
    std::vector<Tokens> limits;
    double limit = least_limit();
    while (limit < most * step) {
      limits.push_back(static_cast<Tokens>(std::ceil(limit)));
      limit *= step;
    }
    std::reverse(limits.begin(), limits.end());
    return limits;
  }

  /// Fewest tokens of a rank with which the largest group holds the longest sample.
  [[nodiscard]] double least_limit() const {
    return std::ceil(domain_.tokens_per_rank(longest_first_.front(), domain_.sizes() - 1));
  }

  /// Tries numbers of micro-batches from the fewest that hold all tokens, until some more in a row are no better.
  void try_limit(Tokens limit) {
    if (static_cast<double>(limit) < least_limit()) return;
    prepare(limit);
    const double held = static_cast<double>(limit) * static_cast<double>(domain_.ranks());
    const auto least = static_cast<std::size_t>(std::ceil(tokens_ / held));
    std::size_t tried = 0;
    for (std::size_t count = std::max<std::size_t>(least, 1);
         count <= lengths_.size() && tried < options_.micro_batch_trials; ++count) {
      const double before = best_.seconds;
      bool held_all = false;
      for (const Cut cut : {Cut::tokens, Cut::tokens_last_full, Cut::work})
        held_all = try_micro_batches({limit, count, cut}) || held_all;
      if (held_all) tried = best_.seconds < before ? 1 : tried + 1;
      if (static_cast<double>(count) * constants_ >= best_.seconds) break;
    }
  }

  /// @returns whether groups hold all samples so.
  bool try_micro_batches(const MicroBatches& made) {
    const std::vector<std::size_t>& ends = ends_of(made);
    std::vector<double> least{0.0};  // work of micro-batches from the last on
    for (std::size_t k = ends.size(); k-- > 0;)
      least.push_back(least.back() + constants_ + least_group_work(domain_, part(least_, ends, k)));
    std::vector<RankRow> rows;
    std::vector<std::size_t> ids;
    double work = 0.0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      if (work + least[ends.size() - k] >= best_.seconds) return true;
      const KnownRow& known = groups_of(part(longest_first_, ends, k), made.limit);
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

  /// The groups of a micro-batch. Those found with a larger limit serve if they keep this one.
  [[nodiscard]] const KnownRow& groups_of(std::span<const SampleId> samples, Tokens limit) {
    KnownRow& known = rows_[{samples.data(), samples.size()}];
    if (limit <= known.limit && known.tokens <= static_cast<double>(limit)) return known;
    known = {limit, 0.0, ++row_ids_, flexible_groups(domain_, limit, samples, trials(samples.size()))};
    for (const RankGroup& group : known.groups.row) {
      double tokens = 0.0;
      for (const SampleId id : group.samples) tokens += static_cast<double>(lengths_[id]);
      known.tokens = std::max(known.tokens, tokens / static_cast<double>(group.size));
    }
    return known;
  }

  /// Makes ready for micro-batches with this limit.
  void prepare(Tokens limit) {
    by_work_ = RowCuts(weights([&](SampleId id) { return rank_work(id, limit); }));
    ends_by_work_.clear();
    least_.clear();
    for (const SampleId id : longest_first_) least_.push_back(least_sample_work(domain_, limit, id));
  }

  /// Where each micro-batch ends among the samples. @pre `prepare` was last called for its limit.
  [[nodiscard]] const std::vector<std::size_t>& ends_of(const MicroBatches& made) {
    std::vector<std::size_t>& ends = made.cut == Cut::work     ? ends_by_work_[made.count]
                                     : made.cut == Cut::tokens ? ends_by_tokens_[made.count]
                                                               : ends_last_full_[made.count];
    if (ends.empty()) {
      const RowCuts& cuts = made.cut == Cut::work ? by_work_ : by_tokens_;
      ends = made.cut == Cut::tokens_last_full ? lightest_parts_last_full(cuts, made.count)
                                               : lightest_parts(cuts, made.count);
    }
    return ends;
  }
  template <class T>
  [[nodiscard]] static std::span<const T> part(const std::vector<T>& all, std::span<const std::size_t> ends,
                                               std::size_t k) {
    const std::size_t begin = k == 0 ? 0 : ends[k - 1];
    return std::span(all).subspan(begin, ends[k] - begin);
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

  /// Splits to try for a micro-batch: fewer if it has many samples on many ranks.
  [[nodiscard]] std::size_t trials(std::size_t samples) const {
    constexpr std::size_t most_placements = 2'000'000, fewest = 8;
    const std::size_t affordable = most_placements / (samples * domain_.ranks());
    return std::min(splits_, std::max(fewest, affordable));
  }

  bool keep(RowPlan plan, const MicroBatches& made) {
    if (plan.seconds >= best_.seconds) return false;
    best_ = std::move(plan);
    made_ = made;
    return true;
  }

  std::span<const Tokens> lengths_;
  FlexSpOptions options_;
  std::size_t splits_;  // that are tried for a micro-batch
  RankDomain domain_;
  std::vector<SampleId> longest_first_;
  double constants_;  // of the packs of a row
  double tokens_ = 0.0;
  RowCuts by_tokens_, by_work_ = RowCuts({});  // of the samples, longest first; by work with the last limit
  std::map<std::size_t, std::vector<std::size_t>> ends_by_tokens_, ends_last_full_, ends_by_work_;  // [count]
  std::vector<LeastSampleWork> least_;  // of the samples, longest first, with the last limit
  Scheduler scheduler_;
  RowPlan best_;
  MicroBatches made_;  // of the best; a limit of 0: its groups have one size
  std::map<std::pair<const SampleId*, std::size_t>, KnownRow> rows_;  // by the micro-batch's samples
  std::set<std::vector<std::size_t>> scheduled_;                      // ids of the rows that were
  std::vector<std::size_t> best_ids_;                                 // of the best
  std::size_t row_ids_ = 0;
};

/// `plan_flexsp` with prices and memory of any models.
[[nodiscard]] inline Plan search_flexsp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                                        const Memory& memory, const FlexSpOptions& options) {
  require_sequence_parallel("flexsp", job.layout);
  validate_batch(lengths, 1);
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
