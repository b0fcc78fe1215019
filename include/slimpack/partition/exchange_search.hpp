#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/partition/assignment.hpp"
#include "slimpack/partition/subset_bins.hpp"

namespace slimpack::detail {

/// Exchanges of few items for few between bins of limited size: what remains possible if neither a move nor a
/// swap of two items fits because all bins are full. For a subset of one bin, the subsets of another that
/// keep both within their capacity are a range of its subsets by size.
template <ItemWeight W>
class ExchangeSearch {
 public:
  ExchangeSearch(std::span<const W> weights, const SizeLimit& limit, std::size_t bins)
      : bins_(weights, limit, bins) {}

  [[nodiscard]] const SubsetBins<W>& bins() const { return bins_; }
  [[nodiscard]] std::uint64_t steps() const { return bins_.steps(); }
  /// Counts steps that were taken elsewhere.
  void add_steps(std::uint64_t steps) { bins_.add_steps(steps); }
  [[nodiscard]] W makespan() const { return bins_.load(fullest()); }
  void put(std::uint32_t item, std::size_t bin) { bins_.put(item, bin); }

  /// Makes room for an item in the bin with the most room, into which the others exchange as much of theirs
  /// as they can. False if that is not enough; some items may have changed their bins then.
  bool insert(std::uint32_t item) {
    const auto order = bins_.by_room();
    const std::size_t bin = order.front();
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t other : order) {
        if (other != bin) gather_room(bin, other);
        if (bins_.room(bin) >= bins_.size(item)) {
          bins_.put(item, bin);
          return true;
        }
      }
    }
    return false;
  }

  /// Applies the exchange of up to two items for up to two, between the fullest bin and another, after which
  /// the larger load of both is least. Stops looking at `enough`. False if none relieves the fullest bin.
  bool improve(W enough) {
    const std::size_t from = fullest();
    Exchange best{.worse = bins_.load(from)};
    const auto& given = bins_.subsets(from);
    for (const std::size_t to : bins_.by_load()) {
      if (to == from || best.worse <= enough || level(from, to) >= best.worse) break;
      const auto& back = bins_.subsets(to);
      std::size_t begin = 0, end = 0;
      for (const auto& subset : given) {
        const auto [least, most] = partner_sizes(from, to, subset);
        while (begin < back.size() && back[begin].size < least) ++begin;
        while (end < back.size() && back[end].size <= most) ++end;
        if (end - begin <= few) {
          for (std::size_t k = begin; k < end; ++k) consider(from, to, subset, back[k], best);
        } else {
          look_around(from, to, subset, best);
        }
        if (best.worse <= enough) break;
      }
    }
    return apply(best);
  }

  /// As `improve`, with three items for up to two; only from bins of up to `most_items`.
  bool improve_by_triples(W enough, std::size_t most_items) {
    const std::size_t from = fullest();
    Exchange best{.worse = bins_.load(from)};
    const auto& given = bins_.subsets(from);
    for (const std::size_t to : bins_.by_load()) {
      if (to == from || best.to != none || level(from, to) >= best.worse) break;
      if (bins_.items(to).size() > most_items) continue;
      const auto& back = bins_.triples(to);
      std::size_t begin = 0;
      for (const auto& subset : given) {
        const auto [least, most] = partner_sizes(from, to, subset);
        while (begin < back.size() && back[begin].size < least) ++begin;
        const std::size_t end = std::min(back.size(), begin + 4 * few);
        for (std::size_t k = begin; k < end && back[k].size <= most; ++k)
          consider(from, to, subset, back[k], best);
        if (best.worse <= enough) break;
      }
    }
    return apply(best);
  }

  /// Changes what bins other than the fullest hold, in another way for every number: an item with little
  /// weight per size goes from each bin to the one with the most room, and the room that it leaves goes to
  /// the lightest bin; if there is no room, items of two bins change places. False if there is nothing to
  /// change.
  bool shake(std::size_t number) {
    const std::size_t full = fullest();
    bool changed = false;
    for (std::size_t b = 0; b < bins_.count(); ++b) changed = (b != full && eject(b, number)) || changed;
    const auto order = bins_.by_load();
    if (changed) {
      for (const std::size_t other : order) {
        if (other != order.front() && other != full) gather_room(order.front(), other);
      }
      return true;
    }
    for (std::size_t k = 1; k < order.size() && !changed; ++k)
      changed = order[k] != full && exchange_any(order.front(), order[k], number);
    return changed;
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr std::size_t few = 24;  ///< up to as many partners are all tried

  struct Exchange {
    W worse{};  ///< the larger load of the two bins afterwards
    std::size_t from = none, to = none;
    ItemSubset<W> given = {}, back = {};
  };

  [[nodiscard]] std::size_t fullest() const {
    std::size_t full = 0;
    for (std::size_t b = 1; b < bins_.count(); ++b) full = bins_.load(b) > bins_.load(full) ? b : full;
    return full;
  }
  /// What both bins would hold at best.
  [[nodiscard]] W level(std::size_t from, std::size_t to) const {
    return bins_.load(to) + (bins_.load(from) - bins_.load(to)) / 2;
  }
  [[nodiscard]] W worse_load(std::size_t from, std::size_t to, const ItemSubset<W>& given,
                             const ItemSubset<W>& back) const {
    return std::max<W>(bins_.load(from) - given.weight + back.weight,
                       bins_.load(to) - back.weight + given.weight);
  }
  /// Sizes of what may come back in exchange for a subset.
  struct SizeRange {
    std::int64_t least, most;
  };
  [[nodiscard]] SizeRange partner_sizes(std::size_t from, std::size_t to, const ItemSubset<W>& subset) const {
    return {subset.size - bins_.room(to), subset.size + bins_.room(from)};
  }

  /// Notes an exchange if it is the best so far. False if partners that are further from levelling the two
  /// bins can't be better.
  bool consider(std::size_t from, std::size_t to, const ItemSubset<W>& given, const ItemSubset<W>& back,
                Exchange& best) {
    bins_.add_steps(1);
    const W worse = worse_load(from, to, given, back);
    if (worse >= best.worse) return false;
    const auto [least, most] = partner_sizes(from, to, given);
    if (back.size >= least && back.size <= most) best = {worse, from, to, given, back};
    return true;
  }

  /// Partners of a subset, starting with the one that levels the two bins best.
  void look_around(std::size_t from, std::size_t to, const ItemSubset<W>& given, Exchange& best) {
    const auto& by_size = bins_.subsets(to);
    const auto& order = bins_.subsets_by_weight(to);
    const W half = (bins_.load(from) - bins_.load(to)) / 2;
    const auto middle = static_cast<std::size_t>(
        std::partition_point(order.begin(), order.end(),
                             [&](std::uint32_t k) { return by_size[k].weight + half < given.weight; }) -
        order.begin());
    const std::size_t end = std::min(order.size(), middle + 4 * few);
    for (std::size_t k = middle; k < end; ++k) {
      if (!consider(from, to, given, by_size[order[k]], best)) break;
    }
    const std::size_t begin = middle - std::min(middle, 4 * few);
    for (std::size_t k = middle; k-- > begin;) {
      if (!consider(from, to, given, by_size[order[k]], best)) break;
    }
  }

  /// Exchanges subsets so that as much as possible of the other bin's room becomes this one's.
  void gather_room(std::size_t bin, std::size_t other) {
    const auto& given = bins_.subsets(bin);
    const auto& back = bins_.subsets(other);
    Exchange best;
    std::int64_t gained = 0;
    std::size_t k = 0;
    for (const auto& subset : given) {
      while (k < back.size() && back[k].size < subset.size - bins_.room(other)) ++k;
      if (k == back.size()) break;
      if (subset.size - back[k].size > gained) {
        gained = subset.size - back[k].size;
        best = {W{}, bin, other, subset, back[k]};
      }
    }
    bins_.add_steps(given.size() + back.size());
    apply(best);
  }

  /// Moves an item, number `number` by weight per size, to the bin with the most room.
  bool eject(std::size_t b, std::size_t number) {
    const std::size_t to = bins_.by_room().front();
    std::vector<std::uint32_t> items(bins_.items(b).begin(), bins_.items(b).end());
    bins_.add_steps(bins_.count() + items.size());
    if (to == b || number >= items.size()) return false;
    const auto nth = items.begin() + static_cast<std::ptrdiff_t>(number);
    std::nth_element(items.begin(), nth, items.end(), [&](std::uint32_t i, std::uint32_t j) {
      const double left = static_cast<double>(bins_.weight(i)) * static_cast<double>(bins_.size(j));
      const double right = static_cast<double>(bins_.weight(j)) * static_cast<double>(bins_.size(i));
      return left < right || (left == right && i < j);
    });
    if (bins_.size(*nth) > bins_.room(to)) return false;
    bins_.move(*nth, b, to);
    return true;
  }

  /// Exchanges subsets between two bins so that neither becomes the fullest: the exchange number `number` of
  /// those found.
  bool exchange_any(std::size_t from, std::size_t to, std::size_t number) {
    const auto& given = bins_.subsets(from);
    const auto& back = bins_.subsets(to);
    const W most_load = makespan();
    std::size_t begin = 0;
    for (const auto& subset : given) {
      const auto [least, most] = partner_sizes(from, to, subset);
      while (begin < back.size() && back[begin].size < least) ++begin;
      for (std::size_t k = begin; k < back.size() && back[k].size <= most; ++k) {
        bins_.add_steps(1);
        if (subset.weight == back[k].weight || worse_load(from, to, subset, back[k]) >= most_load) continue;
        if (number-- == 0) return apply({W{}, from, to, subset, back[k]});
      }
    }
    return false;
  }

  bool apply(const Exchange& exchange) {
    if (exchange.to == none) return false;
    bins_.move(exchange.given, exchange.from, exchange.to);
    bins_.move(exchange.back, exchange.to, exchange.from);
    return true;
  }

  SubsetBins<W> bins_;
};

}  // namespace slimpack::detail
