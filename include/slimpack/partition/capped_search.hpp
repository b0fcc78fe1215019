#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/solve.hpp"
#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/branch_and_bound.hpp"
#include "slimpack/partition/capped_bound.hpp"
#include "slimpack/partition/capped_greedy.hpp"
#include "slimpack/partition/companions.hpp"
#include "slimpack/partition/exact.hpp"
#include "slimpack/partition/exchange_search.hpp"
#include "slimpack/partition/local_search.hpp"
#include "slimpack/partition/packing.hpp"

namespace slimpack {

struct CappedSearchOptions {
  /// A bin for every item, within the capacity, such as documents in their original order. Optional; the
  /// answer is never worse by more than the gap.
  std::span<const std::uint32_t> start = {};
  double gap = 0.0;  ///< the search ends when the makespan is at most 1 + gap times the lower bound
  /// Subsets looked at, some nanoseconds each. 0: the greedy answer, improved by a local search, will do.
  std::uint64_t max_exchange_steps = 1000000;
  std::uint64_t max_exact_steps = 1000000;  ///< of branch and bound, for up to `max_exact_items`
  std::size_t max_exact_items = 32;
};

/// An assignment within the capacity and what is known about the least makespan.
template <ItemWeight W>
struct CappedSearchResult {
  /// `optimal`; `feasible`; `infeasible`: proven that there is none; `unknown`: none was found.
  SolveStatus status = SolveStatus::unknown;
  BasicAssignment<W> assignment = {};  ///< empty unless optimal or feasible
  W bound{};                           ///< no assignment is below, up to rounding
  [[nodiscard]] double gap() const {
    const auto makespan = static_cast<double>(assignment.makespan()), least = static_cast<double>(bound);
    return makespan <= least
               ? 0.0
               : (least > 0.0 ? makespan / least - 1.0 : std::numeric_limits<double>::infinity());
  }
};

namespace detail {

template <ItemWeight W>
std::vector<std::uint32_t> bins_of(const ExchangeSearch<W>& search, std::size_t items) {
  std::vector<std::uint32_t> bin(items);
  for (std::size_t b = 0; b < search.bins().count(); ++b) {
    for (const std::uint32_t item : search.bins().items(b)) bin[item] = static_cast<std::uint32_t>(b);
  }
  return bin;
}

/// The greedy assignment; for the items that it leaves over, exchanges make room. Nothing if they don't make
/// enough.
template <ItemWeight W>
std::optional<std::vector<std::uint32_t>> complete_greedy(std::span<const W> weights, const SizeLimit& limit,
                                                          std::size_t bins) {
  auto packed = capped_greedy(weights, limit, bins);
  if (packed.left.empty()) return std::move(packed.assignment.bin);
  ExchangeSearch<W> search(weights, limit, bins);
  for (std::uint32_t i = 0; i < weights.size(); ++i) {
    if (packed.assignment.bin[i] != unassigned) search.put(i, packed.assignment.bin[i]);
  }
  for (const std::uint32_t item : packed.left) {
    if (!search.insert(item)) return std::nullopt;
  }
  return bins_of(search, weights.size());
}

template <ItemWeight W>
class CappedSearch {
 public:
  CappedSearch(std::span<const W> weights, const SizeLimit& limit, std::size_t bins,
               const CappedSearchOptions& options)
      : weights_(weights), limit_(limit), bins_(bins), options_(options) {}

  CappedSearchResult<W> run() {
    result_.bound = makespan_lower_bound(weights_, bins_, limit_);
    if (packing_lower_bound(limit_.sizes, limit_.capacity) > bins_) {
      result_.status = SolveStatus::infeasible;
      return std::move(result_);
    }
    enough_ = static_cast<W>(static_cast<double>(result_.bound) * (1.0 + options_.gap));
    if constexpr (std::floating_point<W>) enough_ *= W{1} + W{16} * std::numeric_limits<W>::epsilon();
    if (!options_.start.empty()) offer({options_.start.begin(), options_.start.end()});
    offer_greedy();
    if (!known()) offer_first_fit();
    if (!good() && !(known() && options_.max_exchange_steps == 0)) offer_with_companions();
    bool ended = false;
    if (!good() && weights_.size() <= options_.max_exact_items) ended = search_exactly();
    if (known() && !good() && !ended) exchange();
    if (known()) {
      const bool proven = ended || assignment_.makespan() <= result_.bound;
      result_.status = proven ? SolveStatus::optimal : SolveStatus::feasible;
      if (ended) result_.bound = assignment_.makespan();
      result_.assignment = std::move(assignment_);
    } else if (ended) {
      result_.status = SolveStatus::infeasible;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool known() const {
    return assignment_.bin.size() == weights_.size() && !assignment_.load.empty();
  }
  [[nodiscard]] bool good() const { return known() && assignment_.makespan() <= enough_; }

  /// Keeps an assignment if it is the best one after a local search; of two that are good enough, the more
  /// even one.
  void offer(std::vector<std::uint32_t> bin) {
    auto candidate = assignment_of(weights_, std::move(bin), bins_);
    improve_assignment(weights_, candidate, {.limit = limit_});
    const bool better = good() && candidate.makespan() <= enough_
                            ? unevenness(candidate) < unevenness(assignment_)
                            : !known() || candidate.makespan() < assignment_.makespan();
    if (better) assignment_ = std::move(candidate);
  }
  [[nodiscard]] static double unevenness(const BasicAssignment<W>& assignment) {
    double squares = 0.0;
    for (const W load : assignment.load) squares += static_cast<double>(load) * static_cast<double>(load);
    return squares;
  }

  /// Greedily; for the items left over, exchanges make room.
  void offer_greedy() {
    if (auto bin = complete_greedy(weights_, limit_, bins_)) offer(std::move(*bin));
  }

  void offer_first_fit() {
    Packing packing = first_fit_decreasing(limit_.sizes, limit_.capacity);
    if (packing.load.size() <= bins_) offer(std::move(packing.bin));
  }

  /// One bin after another: the heaviest item left with the lightest companions; after each, the rest
  /// greedily.
  void offer_with_companions() {
    std::vector<std::uint32_t> bin(weights_.size(), unassigned);
    std::vector<W> weights(weights_.begin(), weights_.end());
    std::vector<std::int64_t> sizes(limit_.sizes.begin(), limit_.sizes.end());
    std::vector<std::uint32_t> items(weights_.size());
    std::iota(items.begin(), items.end(), 0U);
    for (std::size_t left = bins_; left >= 2 && !items.empty() && bins_ - left < most_peeled; --left) {
      const auto heaviest =
          static_cast<std::uint32_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
      const auto companions = lightest_companions<W>(weights, {sizes, limit_.capacity}, left, heaviest);
      if (!companions) return;
      bin[items[heaviest]] = static_cast<std::uint32_t>(left - 1);
      for (const std::uint32_t k : *companions) bin[items[k]] = static_cast<std::uint32_t>(left - 1);
      std::size_t kept = 0;
      for (std::size_t k = 0; k < items.size(); ++k) {
        if (bin[items[k]] != unassigned) continue;
        weights[kept] = weights[k];
        sizes[kept] = sizes[k];
        items[kept++] = items[k];
      }
      weights.resize(kept);
      sizes.resize(kept);
      items.resize(kept);
      offer_rest(bin, weights, {sizes, limit_.capacity}, items, left - 1);
      if (good()) return;
    }
  }

  /// Completes an assignment by placing items greedily into the first bins.
  void offer_rest(std::vector<std::uint32_t> bin, std::span<const W> weights, const SizeLimit& limit,
                  std::span<const std::uint32_t> items, std::size_t bins) {
    const auto rest = complete_greedy(weights, limit, bins);
    if (!rest) return;
    for (std::size_t k = 0; k < items.size(); ++k) bin[items[k]] = (*rest)[k];
    offer(std::move(bin));
  }

  /// Branch and bound below the best so far. True if it proves that nothing below the answer exists.
  bool search_exactly() {
    typename BranchAndBound<W>::Settings settings{.bins = bins_,
                                                  .allowed = std::numeric_limits<W>::max(),
                                                  .enough = enough_,
                                                  .max_steps = options_.max_exact_steps};
    if (known()) settings.allowed = next_below(assignment_.makespan());
    BranchAndBound<W> search(weights_, limit_);
    const bool ended = search.run(settings);
    if (search.found()) assignment_ = assignment_of(weights_, search.bins(), bins_);
    return ended && !(search.found() && assignment_.makespan() <= enough_ && enough_ > result_.bound);
  }

  /// Exchanges until none helps; then changes what other bins hold, in several ways, and keeps a change that
  /// makes further exchanges possible.
  void exchange() {
    ExchangeSearch<W> search(weights_, limit_, bins_);
    for (std::uint32_t i = 0; i < weights_.size(); ++i) search.put(i, assignment_.bin[i]);
    descend(search);
    for (std::size_t number = 0; number < most_shakes && unfinished(search); ++number) {
      ExchangeSearch<W> shaken = search;
      if (!shaken.shake(number)) continue;
      descend(shaken);
      if (shaken.makespan() < search.makespan()) {
        search = std::move(shaken);
      } else {
        search.add_steps(shaken.steps() - search.steps());
      }
    }
    offer(bins_of(search, weights_.size()));
  }
  [[nodiscard]] bool unfinished(const ExchangeSearch<W>& search) const {
    return search.makespan() > enough_ && search.steps() < options_.max_exchange_steps;
  }
  void descend(ExchangeSearch<W>& search) const {
    constexpr std::size_t triple_items = 60;
    while (unfinished(search)) {
      if (!search.improve(enough_) && !search.improve_by_triples(enough_, triple_items)) break;
    }
  }

  static constexpr std::size_t most_shakes = 24;
  static constexpr std::size_t most_peeled = 4;

  std::span<const W> weights_;
  SizeLimit limit_;
  std::size_t bins_;
  CappedSearchOptions options_;
  CappedSearchResult<W> result_;
  BasicAssignment<W> assignment_;
  W enough_{};
};

}  // namespace detail

/// Puts items into bins of limited size so that the fullest holds little, with a proven gap: greedily, then
/// by exchanges of few items for few, and for few items by branch and bound. It is meant for tight limits,
/// where the sizes nearly fill the bins and a bin with one heavy item needs the lightest companions
/// (WLB-LLM's Eq. 1).
/// @param weights of the items, not negative. @param limit sizes of the items, and what every bin may hold.
/// @param bins at least 1.
/// @return with `optimal`, the least makespan; for up to `max_exact_items` items always optimal or infeasible
/// if the gap is 0 and the steps suffice. The same input gives the same answer.
/// @throws InvalidInput if there is no bin, a weight is negative or not finite, their sum overflows, sizes do
/// not fit the items or the capacity, or the start is no assignment within the capacity.
/// Complexity: O(n log n + n bins) for loose limits; otherwise bounded by the options' steps.
template <WeightRange R, ItemWeight W = std::ranges::range_value_t<R>>
[[nodiscard]] CappedSearchResult<W> capped_search(const R& weights, const SizeLimit& limit, std::size_t bins,
                                                  const CappedSearchOptions& options = {}) {
  const std::span<const W> span(weights);
  require(limit.sizes.size() == span.size(), limit.sizes.size(), " sizes of ", span.size(),
          " items; expected one per item");
  require(limit.capacity > 0, "capacity is ", limit.capacity, "; expected at least 1");
  require(options.gap >= 0.0, "gap is ", options.gap, "; expected 0 or more");
  require(options.start.empty() || options.start.size() == span.size(), "start has bins for ",
          options.start.size(), " of ", span.size(), " items; expected one for each, or none at all");
  detail::check_counts(span.size(), bins);
  for (std::size_t i = 0; i < options.start.size(); ++i) {
    require(options.start[i] < bins, "start puts item ", i, " into bin ", options.start[i],
            "; expected less than the ", bins, " bins");
  }
  return detail::CappedSearch<W>(span, limit, bins, options).run();
}

}  // namespace slimpack
