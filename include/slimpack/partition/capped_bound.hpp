#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/bounds.hpp"

namespace slimpack {

namespace detail {

/// Items by increasing weight per size: the least weight that fills a given room, with one item in part.
/// Items without a size fill nothing.
template <ItemWeight W>
class LightestFilling {
 public:
  LightestFilling(std::span<const W> weights, std::span<const std::int64_t> sizes) : place_(weights.size()) {
    for (std::uint32_t i = 0; i < weights.size(); ++i) {
      if (sizes[i] > 0) order_.push_back({i, static_cast<double>(sizes[i]), static_cast<double>(weights[i])});
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [](const Item& a, const Item& b) { return a.density() < b.density(); });
    for (const Item& item : order_) {
      place_[item.item] = static_cast<std::uint32_t>(filled_.size() - 1);
      filled_.push_back(filled_.back() + item.size);
      weighed_.push_back(weighed_.back() + item.weight);
    }
  }

  /// Least weight that fills `room` without item `i`, which has a size. O(log n).
  [[nodiscard]] double without(std::uint32_t i, double room) const {
    if (room <= 0.0) return 0.0;
    const Item& item = order_[place_[i]];
    // After its place in the order, the others move up.
    return room <= filled_[place_[i]] ? with_all(room) : with_all(room + item.size) - item.weight;
  }

  /// Least weight that fills `room` with items that `may_fill`. O(n).
  template <class MayFill>
  [[nodiscard]] double of(double room, const MayFill& may_fill) const {
    double weight = 0.0;
    for (std::size_t k = 0; k < order_.size() && room > 0.0; ++k) {
      if (!may_fill(order_[k].item)) continue;
      const double taken = std::min(room, order_[k].size);
      weight += order_[k].density() * taken;
      room -= taken;
    }
    return weight;
  }

 private:
  struct Item {
    std::uint32_t item;
    double size, weight;
    [[nodiscard]] double density() const { return weight / size; }
  };

  [[nodiscard]] double with_all(double room) const {
    const auto after = std::lower_bound(filled_.begin(), filled_.end(), room) - filled_.begin();
    if (after == 0) return 0.0;
    const auto k = static_cast<std::size_t>(after) - 1;
    return k == order_.size() ? weighed_.back() : weighed_[k] + (room - filled_[k]) * order_[k].density();
  }

  std::vector<Item> order_;
  std::vector<std::uint32_t> place_;                // [item] in `order_`
  std::vector<double> filled_{0.0}, weighed_{0.0};  // sums over the items before each place
};

}  // namespace detail

/// `makespan_lower_bound` for bins of limited size, never below the one without a limit. Any j bins hold at
/// least the sizes for which the other bins have no room. So the j bins with the j heaviest items also hold
/// at least the items that weigh least per size, one of them in part, and the fullest of these bins holds at
/// least a j-th of the sum. The gain is largest if the capacity is tight and a few items are heavy.
/// @param limit sizes of the items, and what every bin may hold; without sizes, there is no limit.
/// @throws InvalidInput as `makespan_lower_bound`, or if sizes do not fit the items or the capacity.
/// Complexity: O(n log n + n bins). A floating-point bound holds up to the rounding of its sums.
template <WeightRange R>
[[nodiscard]] auto makespan_lower_bound(const R& weights, std::size_t bins, const SizeLimit& limit) {
  using W = std::ranges::range_value_t<R>;
  const std::span<const W> span(weights);
  W bound = makespan_lower_bound(span, bins);
  detail::check_limit(limit, span.size());
  if (limit.sizes.empty()) return bound;
  const auto raise = [&](double share) {
    if constexpr (std::integral<W>) {
      // Subtracts what rounding may have added before the share is rounded up.
      bound = std::max(bound, static_cast<W>(std::ceil(share * (1.0 - 1e-12))));
    } else {
      bound = std::max(bound, static_cast<W>(share));
    }
  };
  double total = 0.0;
  for (const std::int64_t size : limit.sizes) total += static_cast<double>(size);
  const double capacity = static_cast<double>(limit.capacity);
  const auto least_in = [&](std::size_t j) { return total - capacity * static_cast<double>(bins - j); };
  if (total > capacity * static_cast<double>(bins)) return bound;  // there is no assignment at all

  const detail::LightestFilling<W> filling(span, limit.sizes);
  for (std::uint32_t i = 0; i < span.size(); ++i) {
    const double own = static_cast<double>(limit.sizes[i]);
    if (own > 0.0) raise(static_cast<double>(span[i]) + filling.without(i, least_in(1) - own));
  }
  std::vector<detail::WeighedItem<W>> heavy;
  detail::sort_falling(span, heavy);
  std::vector<std::uint32_t> place(span.size());  // among the heaviest
  for (std::uint32_t i = 0; i < span.size(); ++i) place[heavy[i].item] = i;
  double together = 0.0, inside = 0.0;
  for (std::size_t j = 1; j <= std::min(bins, span.size()); ++j) {
    together += static_cast<double>(heavy[j - 1].weight);
    inside += static_cast<double>(limit.sizes[heavy[j - 1].item]);
    const double companions =
        filling.of(least_in(j) - inside, [&](std::uint32_t item) { return place[item] >= j; });
    raise((together + companions) / static_cast<double>(j));
  }
  return bound;
}

}  // namespace slimpack
