#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/solve.hpp"
#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/bounds.hpp"
#include "slimpack/partition/branch_and_bound.hpp"
#include "slimpack/partition/capped_bound.hpp"
#include "slimpack/partition/karmarkar_karp.hpp"
#include "slimpack/partition/least_slack.hpp"
#include "slimpack/partition/local_search.hpp"
#include "slimpack/partition/packing.hpp"

namespace slimpack {

struct ExactAssignmentOptions {
  std::uint64_t max_steps = 100000000;  ///< bins tried before the search gives up
  SizeLimit limit = {};
};

/// An assignment and what is known about the least makespan.
template <ItemWeight W>
struct ExactAssignment {
  SolveStatus status =
      SolveStatus::unknown;            ///< `unknown`: gave up before any assignment that keeps the limit
  BasicAssignment<W> assignment = {};  ///< empty unless optimal or feasible
  W bound{};                ///< no assignment is below, up to rounding; the makespan itself if optimal
  std::uint64_t steps = 0;  ///< bins tried
};

struct ExactPackingOptions {
  std::uint64_t max_steps = 100000000;  ///< bins tried before the search gives up
};

/// A packing and what is known about the fewest bins.
struct ExactPacking {
  SolveStatus status = SolveStatus::feasible;  ///< or `optimal`
  Packing packing = {};
  std::size_t bound = 0;    ///< no packing has fewer bins
  std::uint64_t steps = 0;  ///< bins tried
};

namespace detail {

template <class W>
BasicAssignment<W> assignment_of(std::span<const W> weights, std::vector<std::uint32_t> bin,
                                 std::size_t bins) {
  BasicAssignment<W> assignment{std::move(bin), std::vector<W>(bins, W{})};
  for (std::size_t i = 0; i < weights.size(); ++i) assignment.load[assignment.bin[i]] += weights[i];
  return assignment;
}

/// A good assignment, found quickly: the bin of each item, or nothing if none was found that keeps the limit.
template <ItemWeight W>
std::vector<std::uint32_t> first_answer(std::span<const W> weights, std::size_t bins,
                                        const SizeLimit& limit) {
  BasicAssignment<W> assignment;
  if (limit.sizes.empty()) {
    assignment = karmarkar_karp(weights, bins);
  } else {
    Packing packing = first_fit_decreasing(limit.sizes, limit.capacity);
    if (packing.load.size() > bins) return {};
    assignment = assignment_of(weights, std::move(packing.bin), bins);
  }
  improve_assignment(weights, assignment, {.limit = limit});
  return std::move(assignment.bin);
}

}  // namespace detail

/// The assignment of least makespan, by branch and bound from an improved heuristic answer.
/// @param weights of the items, not negative. @param bins at least 1.
/// @return `optimal`, or what is best when the steps run out: `feasible`, never worse than Karmarkar-Karp's
/// answer with local search if there is no size limit. `infeasible` if no assignment keeps the limit.
/// Floating-point makespans that differ by a few units in the last place count as equal.
/// @throws InvalidInput if there is no bin, a weight is negative or not finite, their sum overflows, or the
/// sizes do not fit the items or the capacity.
/// Complexity: exponential without the limit on steps, a few nanoseconds each. The same input gives the same
/// answer.
template <WeightRange R, ItemWeight W = std::ranges::range_value_t<R>>
[[nodiscard]] ExactAssignment<W> exact_assignment(const R& weights, std::size_t bins,
                                                  const ExactAssignmentOptions& options = {}) {
  const std::span<const W> span(weights);
  ExactAssignment<W> result{.bound = makespan_lower_bound(span, bins)};
  detail::check_limit(options.limit, span.size());
  const bool limited = options.limit.capacity > 0 && !options.limit.sizes.empty();
  const SizeLimit limit = limited ? options.limit : SizeLimit{};
  if (limited) result.bound = makespan_lower_bound(span, bins, limit);
  result.status = SolveStatus::infeasible;
  if (limited && packing_lower_bound(limit.sizes, limit.capacity) > bins) return result;

  typename detail::BranchAndBound<W>::Settings settings{
      .bins = bins, .allowed = std::numeric_limits<W>::max(), .enough = result.bound};
  if constexpr (std::floating_point<W>) {
    settings.enough *= W{1} + W{16} * std::numeric_limits<W>::epsilon();
  }
  std::vector<std::uint32_t> best = detail::first_answer(span, bins, limit);
  bool known = best.size() == span.size();
  if (known) result.assignment = detail::assignment_of(span, best, bins);
  bool ended = known && result.assignment.makespan() <= settings.enough;
  if (!ended) {
    settings.max_steps = options.max_steps;
    if (known) settings.allowed = detail::next_below(result.assignment.makespan());
    detail::BranchAndBound<W> search(span, limit);
    ended = search.run(settings);
    result.steps = search.steps();
    if (search.found()) {
      known = true;
      result.assignment = detail::assignment_of(span, search.bins(), bins);
      if (!ended) improve_assignment(span, result.assignment, {.limit = limit});
    }
  }
  if (known) {
    result.status = ended ? SolveStatus::optimal : SolveStatus::feasible;
    if (ended) result.bound = result.assignment.makespan();
  } else if (!ended) {
    result.status = SolveStatus::unknown;
  }
  return result;
}

/// The packing with the fewest bins, by branch and bound for every number of bins from the lower bound on.
/// @param weights of the items, 0 <= weight <= capacity, with a sum below 2^63. @param capacity of every bin.
/// @return `optimal`, or what is best when the steps run out: `feasible`, never worse than first-fit
/// decreasing, nor than `least_slack_packing` where items times bins are within the steps.
/// @throws InvalidInput naming the first item that no bin can hold.
/// Complexity: exponential without the limit on steps, a few nanoseconds each. The same input gives the same
/// answer.
[[nodiscard]] inline ExactPacking exact_packing(std::span<const std::int64_t> weights, std::int64_t capacity,
                                                const ExactPackingOptions& options = {}) {
  ExactPacking result{.bound = packing_lower_bound(weights, capacity)};
  result.packing = first_fit_decreasing(weights, capacity);
  const bool quick = weights.size() * result.packing.load.size() <= options.max_steps;
  if (result.bound < result.packing.load.size() && quick) {
    Packing other = least_slack_packing(weights, capacity);
    if (other.load.size() < result.packing.load.size()) result.packing = std::move(other);
  }
  const std::size_t most = result.packing.load.size();
  const auto into = [&](std::size_t bins, std::vector<std::uint32_t> bin) {
    auto packed = detail::assignment_of(weights, std::move(bin), bins);
    if (packed.makespan() > capacity) return false;
    result.packing = {std::move(packed.bin), std::move(packed.load)};
    return true;
  };
  detail::BranchAndBound<std::int64_t> search(weights, {});
  for (std::size_t bins = result.bound; bins < most; ++bins) {
    if (into(bins, detail::first_answer(weights, bins, {}))) break;
    // A number of bins that is decided early leaves its unused steps to the others.
    const std::uint64_t share = (options.max_steps - result.steps) / (most - bins);
    const bool ended = search.run(
        {.bins = bins, .allowed = capacity, .enough = capacity, .fullest_first = true, .max_steps = share});
    result.steps += search.steps();
    if (search.found() && into(bins, search.bins())) break;
    if (ended && result.bound == bins) ++result.bound;
  }
  if (result.bound == result.packing.load.size()) result.status = SolveStatus::optimal;
  return result;
}

}  // namespace slimpack
