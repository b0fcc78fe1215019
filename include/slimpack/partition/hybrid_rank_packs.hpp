#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/local_search.hpp"
#include "slimpack/partition/nested_rank_groups.hpp"
#include "slimpack/partition/rank_rows.hpp"

namespace slimpack {

/// What hybrid data parallelism makes equal.
enum class HybridBalance : std::uint8_t {
  ranks,  ///< the work of all ranks, whatever packs they run (ByteScale's DP balance)
  packs,  ///< the work of all packs as well, so that stages of a pipeline wait for each other less (its PP balance)
};

/// What a pack may hold at most on each of its ranks.
struct HybridLimits {
  Tokens tokens = 0;
  double work = std::numeric_limits<double>::infinity();  ///< more only where no group is faster
};

/// Sizes of groups for samples that run on as many ranks as they need: each up to 32, then steps of at most a
/// sixteenth, and all ranks.
/// @param allows whether so many ranks can run a sample together. O(ranks).
template <class Allows>
[[nodiscard]] std::vector<std::size_t> hybrid_group_sizes(std::size_t ranks, const Allows& allows) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size < ranks; size += std::max<std::size_t>(1, size / 16)) {
    if (allows(size)) sizes.push_back(size);
  }
  if (allows(ranks)) sizes.push_back(ranks);
  return sizes;
}

namespace detail {

/// Makes the packs of `hybrid_rank_packs`.
class HybridPacks {
 public:
  HybridPacks(const RankDomain& domain, const HybridLimits& limits)
      : domain_(domain), limits_(limits), work_(domain.ranks(), 0.0), by_place_(domain.sizes()) {
    for (const SampleId id : longest_first(domain)) by_place_[place_of(id)].push_back(id);
  }

  [[nodiscard]] std::vector<RankRow> operator()(HybridBalance balance) {
    for (std::size_t place = by_place_.size(); place-- > 1;) {
      for (const SampleId id : by_place_[place]) add({0, domain_.size(place), {id}}, domain_.work(id, place));
    }
    if (!by_place_[0].empty()) balance == HybridBalance::ranks ? balance_ranks() : balance_packs();
    return std::move(packs_);
  }

 private:
  /// Place of the smallest size on which a sample keeps the limits, or next to which larger groups are no faster.
  [[nodiscard]] std::size_t place_of(SampleId id) const {
    std::size_t place = domain_.least_place(id, limits_.tokens);
    while (place + 1 < domain_.sizes() && domain_.work(id, place) > limits_.work &&
           domain_.work(id, place + 1) < domain_.work(id, place))
      ++place;
    return place;
  }

  /// First of `size` neighbouring ranks that are all free soonest. O(ranks).
  [[nodiscard]] std::size_t soonest(std::size_t size) const {
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    std::deque<std::size_t>
        busiest;  // ranks whose work is less than that of those before, of the last `size`
    for (std::size_t r = 0; r < work_.size(); ++r) {
      while (!busiest.empty() && work_[busiest.back()] <= work_[r]) busiest.pop_back();
      busiest.push_back(r);
      if (busiest.front() + size == r) busiest.pop_front();
      if (r + 1 < size || work_[busiest.front()] >= least) continue;
      least = work_[busiest.front()];
      best = r + 1 - size;
    }
    return best;
  }

  /// Adds a pack on the ranks that are free soonest.
  void add(RankGroup pack, double seconds) {
    pack.first = soonest(pack.size);
    const auto begin = work_.begin() + static_cast<std::ptrdiff_t>(pack.first);
    const auto end = begin + static_cast<std::ptrdiff_t>(pack.size);
    std::fill(begin, end, *std::max_element(begin, end) + seconds);
    packs_.push_back({std::move(pack)});
  }

  /// Samples of the smallest groups: distributed one by one, then packed.
  void balance_ranks() {
    for (const RankGroup& rank : balanced_groups(domain_, 0, by_place_[0], work_)) {
      for (RankGroup& pack : packs_of(domain_, limits_.tokens, rank)) packs_.push_back({std::move(pack)});
    }
  }

  /// The same packed first, so that packs are about equal, then distributed.
  void balance_packs() {
    std::vector<std::vector<SampleId>> packs = equal_packs();
    std::vector<std::pair<double, std::size_t>> order;
    order.reserve(packs.size());
    for (std::size_t k = 0; k < packs.size(); ++k) {
      double sum = 0.0;
      for (const SampleId id : packs[k]) sum += domain_.work(id, 0);
      order.emplace_back(-sum, k);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [work, k] : order) add({0, domain_.size(0), std::move(packs[k])}, -work);
  }

  /// Packs within the limits, first-fit decreasing; as many of equal work, if these are within the limit of tokens as well.
  [[nodiscard]] std::vector<std::vector<SampleId>> equal_packs() const {
    const std::vector<SampleId>& samples = by_place_[0];
    const Tokens most = limits_.tokens * static_cast<Tokens>(domain_.size(0));
    std::vector<Pack> open;
    std::vector<double> weights;
    weights.reserve(samples.size());
    for (const SampleId id : samples) {
      weights.push_back(domain_.work(id, 0));
      const auto fits = [&](const Pack& pack) {
        return pack.tokens + domain_.length(id) <= most && pack.work + weights.back() <= limits_.work;
      };
      auto found = std::find_if(open.begin(), open.end(), fits);
      if (found == open.end()) found = open.insert(open.end(), Pack{});
      found->add(id, domain_.length(id), weights.back());
    }
    Assignment equal = LptSolver().solve(weights, std::vector<double>(open.size(), 0.0));
    improve_assignment(weights, equal, {.max_rounds = 2 * open.size()});
    std::vector<Pack> balanced(open.size());
    for (std::size_t i = 0; i < samples.size(); ++i)
      balanced[equal.bin[i]].add(samples[i], domain_.length(samples[i]), weights[i]);
    const auto busier = [](const Pack& one, const Pack& other) { return one.work < other.work; };
    const bool lighter = std::max_element(balanced.begin(), balanced.end(), busier)->work <=
                         std::max_element(open.begin(), open.end(), busier)->work;
    const bool fit = lighter && std::all_of(balanced.begin(), balanced.end(),
                                            [&](const Pack& pack) { return pack.tokens <= most; });
    std::vector<std::vector<SampleId>> out;
    out.reserve(open.size());
    for (Pack& pack : fit ? balanced : open) out.push_back(std::move(pack.samples));
    return out;
  }

  struct Pack {
    std::vector<SampleId> samples = {};
    Tokens tokens = 0;
    double work = 0.0;

    void add(SampleId id, Tokens length, double seconds) {
      samples.push_back(id);
      tokens += length;
      work += seconds;
    }
  };

  const RankDomain& domain_;
  HybridLimits limits_;
  std::vector<double> work_;                     // of the ranks, waiting for the others of a group included
  std::vector<std::vector<SampleId>> by_place_;  // [place of the size] longest first
  std::vector<RankRow> packs_;
};

}  // namespace detail

/// Packs of hybrid data parallelism (ByteScale; Ge et al., arXiv 2502.21231, sections 4 and 6): each sample runs on the
/// fewest neighbouring ranks, not only powers of two, on which it keeps the limits; those of the smallest groups are
/// packed together. Largest groups are placed first, each on the ranks that are all free soonest. Ranks may have
/// different numbers of packs, and wait for nobody but the members of a group.
/// @param domain with sizes of groups such as `hybrid_group_sizes`. @returns the packs in the order in which they run,
/// each a row of one group. @throws InvalidInput if the largest group can't hold a sample.
/// Complexity: O(samples * (ranks + packs)) and the local search.
[[nodiscard]] inline std::vector<RankRow> hybrid_rank_packs(const RankDomain& domain,
                                                            const HybridLimits& limits,
                                                            HybridBalance balance) {
  detail::require_room(domain, limits.tokens);
  return detail::HybridPacks(domain, limits)(balance);
}

}  // namespace slimpack
