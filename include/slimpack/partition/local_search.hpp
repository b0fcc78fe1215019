#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/partition/assignment.hpp"

namespace slimpack {

struct LocalSearchOptions {
  std::size_t max_rounds = 10000;  ///< one move or swap each
  bool keep_counts = false;        ///< swaps only: every bin keeps its number of items
  SizeLimit limit = {};            ///< which the assignment keeps at first and afterwards
  /// The search ends once the fullest bin exceeds the mean load by no more than this share of it.
  double close = 0.0;
};

/// What a local search did to an assignment.
template <ItemWeight W>
struct LocalSearchResult {
  W before;               ///< makespan
  W after;                ///< makespan, not above `before`
  std::size_t moves = 0;  ///< of one item into another bin
  std::size_t swaps = 0;  ///< of two items
  /// Whether no move or swap relieves the fullest bin any further. False if the rounds ran out, or the loads were close enough.
  bool local_optimum = false;
};

namespace detail {

template <ItemWeight W>
class LocalSearch {
 public:
  LocalSearch(std::span<const W> weights, BasicAssignment<W>& assignment, const LocalSearchOptions& options)
      : options_(options),
        assignment_(assignment),
        members_(assignment.load.size()),
        size_(members_.size(), 0) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      members_[assignment.bin[i]].push_back({weights[i], static_cast<std::uint32_t>(i)});
      size_[assignment.bin[i]] += size_of(static_cast<std::uint32_t>(i));
    }
    for (auto& members : members_) std::sort(members.begin(), members.end(), lighter);
    const SizeLimit& limit = options.limit;
    for (std::size_t b = 0; b < size_.size() && !limit.sizes.empty(); ++b) {
      require(size_[b] <= limit.capacity, "bin ", b, " holds ", size_[b],
              "; expected at most the capacity of ", limit.capacity);
    }
    order_.resize(members_.size());
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::sort(order_.begin(), order_.end(), [&](auto a, auto b) { return emptier(a, b); });
  }

  LocalSearchResult<W> run() {
    LocalSearchResult<W> result{.before = assignment_.makespan(), .after = {}};
    const double enough = options_.close > 0.0 ? enough_load() : -std::numeric_limits<double>::infinity();
    for (std::size_t round = 0;; ++round) {
      if (static_cast<double>(load(order_.back())) <= enough) break;
      const Exchange best = best_exchange();
      result.local_optimum = best.from == none;
      if (result.local_optimum || round == options_.max_rounds) break;
      ++(best.back == none ? result.moves : result.swaps);
      apply(best);
    }
    result.after = assignment_.makespan();
    return result;
  }

 private:
  using Item = WeighedItem<W>;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// Item `item` of bin `from` for item `back`, or for nothing, of bin `to`.
  struct Exchange {
    W worse{};  ///< the larger load of the two bins afterwards
    std::uint32_t from = none, to = none, item = none, back = none;
  };

  static bool lighter(const Item& a, const Item& b) {
    return a.weight < b.weight || (a.weight == b.weight && a.item < b.item);
  }
  [[nodiscard]] bool emptier(std::uint32_t a, std::uint32_t b) const {
    return load(a) < load(b) || (load(a) == load(b) && a < b);
  }
  [[nodiscard]] W& load(std::uint32_t bin) const { return assignment_.load[bin]; }
  [[nodiscard]] std::int64_t size_of(std::uint32_t item) const {
    return options_.limit.sizes.empty() || item == none ? 0 : options_.limit.sizes[item];
  }

  /// The load of the fullest bin that is close enough to the mean.
  [[nodiscard]] double enough_load() const {
    double sum = 0.0;
    for (const W& each : assignment_.load) sum += static_cast<double>(each);
    return (1.0 + options_.close) * sum / static_cast<double>(assignment_.load.size());
  }

  /// The exchange that lowers the fullest bin most without filling another as much; `from` is none if there
  /// is none.
  [[nodiscard]] Exchange best_exchange() const {
    const std::uint32_t from = order_.back();
    Exchange best{.worse = load(from)};
    if constexpr (std::floating_point<W>) best.worse *= W{1} - W{16} * std::numeric_limits<W>::epsilon();
    for (const std::uint32_t to : order_) {
      // At best the two bins end up level, and later bins are fuller.
      if (load(to) + (load(from) - load(to)) / 2 >= best.worse) break;
      const auto& members = members_[from];
      for (std::size_t i = members.size(); i-- > 0;) {
        const bool repeated = i + 1 < members.size() && members[i + 1].weight == members[i].weight;
        if (!repeated || !options_.limit.sizes.empty()) look_for_partner(from, to, members[i], best);
      }
    }
    return best;
  }

  /// Partners of one item, starting with the one that levels the two bins best, until none can be better.
  void look_for_partner(std::uint32_t from, std::uint32_t to, const Item& item, Exchange& best) const {
    const auto& others = members_[to];
    const W gap = load(from) - load(to);
    const auto level = std::partition_point(others.begin(), others.end(), [&](const Item& other) {
      return other.weight < item.weight && item.weight - other.weight > gap / 2;
    });
    for (auto other = level; other != others.end() && other->weight < item.weight; ++other) {
      if (!improves(from, to, item, *other, best)) break;
      if (take(from, to, item, *other, best)) break;
    }
    for (auto other = level; other != others.begin();) {
      --other;
      if (!improves(from, to, item, *other, best)) return;
      if (take(from, to, item, *other, best)) return;
    }
    const Item nothing{W{}, none};
    if (!options_.keep_counts && item.weight > W{} && improves(from, to, item, nothing, best))
      take(from, to, item, nothing, best);
  }

  [[nodiscard]] W worse_load(std::uint32_t from, std::uint32_t to, const Item& item, const Item& back) const {
    const W shift = item.weight - back.weight;
    return std::max<W>(load(from) - shift, load(to) + shift);
  }
  [[nodiscard]] bool improves(std::uint32_t from, std::uint32_t to, const Item& item, const Item& back,
                              const Exchange& best) const {
    return worse_load(from, to, item, back) < best.worse;
  }

  /// Makes an exchange the best one if the sizes allow it.
  bool take(std::uint32_t from, std::uint32_t to, const Item& item, const Item& back, Exchange& best) const {
    const std::int64_t shift = size_of(item.item) - size_of(back.item);
    if (!options_.limit.sizes.empty() &&
        (size_[from] - shift > options_.limit.capacity || size_[to] + shift > options_.limit.capacity)) {
      return false;
    }
    best = {worse_load(from, to, item, back), from, to, item.item, back.item};
    return true;
  }

  void apply(const Exchange& exchange) {
    hand_over(exchange.item, exchange.from, exchange.to);
    if (exchange.back != none) hand_over(exchange.back, exchange.to, exchange.from);
    // Only the two bins have to find their places again; the others did not change.
    const auto moved = [&](std::uint32_t b) { return b == exchange.from || b == exchange.to; };
    order_.erase(std::remove_if(order_.begin(), order_.end(), moved), order_.end());
    for (const std::uint32_t bin : {exchange.from, exchange.to}) {
      const auto place = std::partition_point(order_.begin(), order_.end(),
                                              [&](std::uint32_t other) { return emptier(other, bin); });
      order_.insert(place, bin);
    }
  }

  void hand_over(std::uint32_t item, std::uint32_t from, std::uint32_t to) {
    auto& giver = members_[from];
    const auto given =
        std::find_if(giver.begin(), giver.end(), [&](const Item& member) { return member.item == item; });
    const Item moved = *given;
    giver.erase(given);
    auto& taker = members_[to];
    taker.insert(std::lower_bound(taker.begin(), taker.end(), moved, lighter), moved);
    load(from) -= moved.weight;
    load(to) += moved.weight;
    size_[from] -= size_of(item);
    size_[to] += size_of(item);
    assignment_.bin[item] = to;
  }

  LocalSearchOptions options_;
  BasicAssignment<W>& assignment_;
  std::vector<std::vector<Item>> members_;  // [bin] by increasing weight
  std::vector<std::int64_t> size_;          // [bin]
  std::vector<std::uint32_t> order_;        // bins by increasing load
};

}  // namespace detail

/// Lowers the makespan of an assignment by moves of one item out of the fullest bin and swaps of two items,
/// each time the one after which the larger load of the two bins is least, until none lowers the fullest bin.
/// Loads may include what bins held before the items.
/// @param weights of the items. @param assignment with a bin for each; improved in place.
/// @throws InvalidInput if the assignment does not fit the weights, or does not keep the size limit.
/// Complexity: O(n log n), then per round O(m log n) for each bin that may take part (without sizes, mostly
/// one), m being the number of items in the fullest bin. Floating-point gains of a few units in the last
/// place are ignored.
template <WeightRange R, ItemWeight W = std::ranges::range_value_t<R>>
LocalSearchResult<W> improve_assignment(const R& weights, BasicAssignment<W>& assignment,
                                        const LocalSearchOptions& options = {}) {
  const std::span<const W> span(weights);
  detail::check_counts(span.size(), assignment.load.size());
  static_cast<void>(detail::checked_sum(span));
  detail::check_limit(options.limit, span.size());
  require(options.close >= 0.0, "close is ", options.close, "; expected a share of the mean load, 0 or more");
  require(assignment.bin.size() == span.size(), "assignment has bins for ", assignment.bin.size(), " of ",
          span.size(), " items; expected one for each");
  for (std::size_t i = 0; i < span.size(); ++i) {
    require(assignment.bin[i] < assignment.load.size(), "bin of item ", i, " is ", assignment.bin[i],
            "; expected less than the ", assignment.load.size(), " bins");
  }
  return detail::LocalSearch<W>(span, assignment, options).run();
}

}  // namespace slimpack
