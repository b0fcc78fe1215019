#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/partition/assignment.hpp"

namespace slimpack::detail {

/// Up to three items of one bin.
template <ItemWeight W>
struct ItemSubset {
  std::int64_t size = 0;
  W weight{};
  std::array<std::uint32_t, 3> items{~std::uint32_t{0}, ~std::uint32_t{0}, ~std::uint32_t{0}};
};

/// Bins of limited size and exchanges of few items for few between two of them: what is left where neither a
/// move nor a swap of two items fits, because all bins are full.
///
/// The subsets of up to two items of a bin lie sorted by size. For a subset of one bin, those of another that
/// keep both within their capacity are a range of it.
template <ItemWeight W>
class ExchangeSearch {
 public:
  ExchangeSearch(std::span<const W> weights, const SizeLimit& limit, std::size_t bins)
      : weights_(weights), limit_(limit), bins_(bins) {}

  struct Bin {
    std::vector<std::uint32_t> items;
    W load{};
    std::int64_t filled = 0;
    bool tabulated = false, weighed = false;
    std::vector<ItemSubset<W>> subsets;    // by size
    std::vector<std::uint32_t> by_weight;  // places in `subsets`
  };
  [[nodiscard]] const std::vector<Bin>& bins() const { return bins_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  [[nodiscard]] W makespan() const {
    W most{};
    for (const Bin& bin : bins_) most = std::max(most, bin.load);
    return most;
  }

  void put(std::uint32_t item, std::size_t bin) {
    bins_[bin].items.push_back(item);
    bins_[bin].load += weights_[item];
    bins_[bin].filled += limit_.sizes[item];
    bins_[bin].tabulated = false;
  }

  /// Finds room for an item: in the bin that is filled least, into which the others exchange as much of their
  /// room as they can. False if that is not enough; the items keep their bins then, or others.
  bool insert(std::uint32_t item) {
    const auto order = sorted_bins([](const Bin& a, const Bin& b) { return a.filled < b.filled; });
    const std::size_t bin = order.front();
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t other : order) {
        if (other != bin) gather_room(bin, other);
        if (bins_[bin].filled + limit_.sizes[item] <= limit_.capacity) {
          put(item, bin);
          return true;
        }
      }
    }
    return false;
  }

  /// Applies the exchange of up to two items for up to two, of the fullest bin and another, after which the
  /// larger load of both is least. Stops looking at `enough`. False if none relieves the fullest bin.
  bool improve(W enough) {
    const std::size_t from = fullest();
    Exchange best{.worse = bins_[from].load};
    const auto& given = subsets(from);
    for (const std::size_t to : sorted_bins([](const Bin&a, const Bin&b) { return a.load < b.load; })) {
      if (to == from || best.worse <= enough || level(from, to) >= best.worse) break;
      const auto& back = subsets(to);
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

  /// The same with three items for up to two; only bins of up to `most_items`.
  bool improve_by_triples(W enough, std::size_t most_items) {
    const std::size_t from = fullest();
    Exchange best{.worse = bins_[from].load};
    const auto& given = subsets(from);
    for (const std::size_t to : sorted_bins([](const Bin&a, const Bin&b) { return a.load < b.load; })) {
      if (to == from || best.to != none || level(from, to) >= best.worse) break;
      if (bins_[to].items.size() > most_items) continue;
      tabulate_triples(bins_[to]);
      std::size_t begin = 0;
      for (const auto& subset : given) {
        const auto [least, most] = partner_sizes(from, to, subset);
        while (begin < triples_.size() && triples_[begin].size < least) ++begin;
        const std::size_t end = std::min(triples_.size(), begin + 4 * few);
        for (std::size_t k = begin; k < end && triples_[k].size <= most; ++k)
          consider(from, to, subset, triples_[k], best);
        if (best.worse <= enough) break;
      }
    }
    return apply(best);
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr std::uint32_t nothing = ~std::uint32_t{0};
  static constexpr std::size_t few = 24;           ///< partners that are all looked at
  static constexpr std::size_t paired_items = 64;  ///< of a bin that stand in pairs

  static constexpr std::uint64_t sorted_item = 8;  ///< steps that its sort counts for

  struct Exchange {
    W worse{};  ///< the larger load of the two bins afterwards
    std::size_t from = none, to = none;
    ItemSubset<W> given = {}, back = {};
  };

  template <class Before>
  [[nodiscard]] std::vector<std::size_t> sorted_bins(Before&& before) const {
    std::vector<std::size_t> order(bins_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return before(bins_[a], bins_[b]); });
    return order;
  }
  [[nodiscard]] std::size_t fullest() const {
    std::size_t full = 0;
    for (std::size_t b = 1; b < bins_.size(); ++b) full = bins_[b].load > bins_[full].load ? b : full;
    return full;
  }
  /// What both bins would hold at best.
  [[nodiscard]] W level(std::size_t from, std::size_t to) const {
    return bins_[to].load + (bins_[from].load - bins_[to].load) / 2;
  }
  /// Sizes of what may come back for a subset.
  struct SizeRange {
    std::int64_t least, most;
  };
  [[nodiscard]] SizeRange partner_sizes(std::size_t from, std::size_t to, const ItemSubset<W>& subset) const {
    return {subset.size - (limit_.capacity - bins_[to].filled),
            subset.size + (limit_.capacity - bins_[from].filled)};
  }

  static bool smaller(const ItemSubset<W>& a, const ItemSubset<W>& b) {
    return a.size < b.size ||
           (a.size == b.size && (a.weight < b.weight || (a.weight == b.weight && a.items < b.items)));
  }
  void add_item(ItemSubset<W>& subset, std::size_t place, std::uint32_t item) const {
    subset.items[place] = item;
    subset.size += limit_.sizes[item];
    subset.weight += weights_[item];
  }

  /// The bin's subsets of up to two items. Of a bin with many items, some, from all sizes, stand in pairs.
  const std::vector<ItemSubset<W>>& subsets(std::size_t b) {
    Bin& bin = bins_[b];
    if (bin.tabulated) return bin.subsets;
    bin.tabulated = true;
    bin.weighed = false;
    bin.subsets.assign(1, {});
    std::vector<std::uint32_t> paired = bin.items;
    std::sort(paired.begin(), paired.end(), [&](std::uint32_t i, std::uint32_t j) {
      return limit_.sizes[i] < limit_.sizes[j] || (limit_.sizes[i] == limit_.sizes[j] && i < j);
    });
    for (const std::uint32_t item : paired) {
      bin.subsets.emplace_back();
      add_item(bin.subsets.back(), 0, item);
    }
    const std::size_t stride = (paired.size() + paired_items - 1) / paired_items;
    for (std::size_t i = 0; i < paired.size(); i += stride) {
      for (std::size_t j = 0; j < i; j += stride) {
        bin.subsets.emplace_back();
        add_item(bin.subsets.back(), 0, paired[i]);
        add_item(bin.subsets.back(), 1, paired[j]);
      }
    }
    steps_ += sorted_item * bin.subsets.size();
    std::sort(bin.subsets.begin(), bin.subsets.end(), smaller);
    return bin.subsets;
  }

  const std::vector<std::uint32_t>& subsets_by_weight(std::size_t b) {
    const auto& by_size = subsets(b);
    Bin& bin = bins_[b];
    if (bin.weighed) return bin.by_weight;
    bin.weighed = true;
    bin.by_weight.resize(by_size.size());
    std::iota(bin.by_weight.begin(), bin.by_weight.end(), 0U);
    std::sort(bin.by_weight.begin(), bin.by_weight.end(), [&](std::uint32_t i, std::uint32_t j) {
      return by_size[i].weight < by_size[j].weight || (by_size[i].weight == by_size[j].weight && i < j);
    });
    return bin.by_weight;
  }

  void tabulate_triples(const Bin& bin) {
    triples_.clear();
    for (std::size_t i = 0; i < bin.items.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        for (std::size_t k = 0; k < j; ++k) {
          triples_.emplace_back();
          add_item(triples_.back(), 0, bin.items[i]);
          add_item(triples_.back(), 1, bin.items[j]);
          add_item(triples_.back(), 2, bin.items[k]);
        }
      }
    }
    steps_ += sorted_item * triples_.size();
    std::sort(triples_.begin(), triples_.end(), smaller);
  }

  /// Takes an exchange for the best one if it is. False if partners that are further from levelling the two
  /// bins can't be better either.
  bool consider(std::size_t from, std::size_t to, const ItemSubset<W>& given, const ItemSubset<W>& back,
                Exchange& best) {
    ++steps_;
    const W worse = std::max<W>(bins_[from].load - given.weight + back.weight,
                                bins_[to].load - back.weight + given.weight);
    if (worse >= best.worse) return false;
    const auto [least, most] = partner_sizes(from, to, given);
    if (back.size >= least && back.size <= most) best = {worse, from, to, given, back};
    return true;
  }

  /// Partners of a subset from the one that levels the two bins outwards.
  void look_around(std::size_t from, std::size_t to, const ItemSubset<W>& given, Exchange& best) {
    const auto& order = subsets_by_weight(to);
    const auto& by_size = bins_[to].subsets;
    const W half = (bins_[from].load - bins_[to].load) / 2;
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
    const std::int64_t room = limit_.capacity - bins_[other].filled;
    const auto& given = subsets(bin);
    const auto& back = subsets(other);
    Exchange best{.from = bin, .to = none};
    std::int64_t gained = 0;
    std::size_t k = 0;
    for (const auto& subset : given) {
      while (k < back.size() && back[k].size < subset.size - room) ++k;
      if (k == back.size()) break;
      if (subset.size - back[k].size > gained) {
        gained = subset.size - back[k].size;
        best = {W{}, bin, other, subset, back[k]};
      }
    }
    steps_ += given.size() + back.size();
    apply(best);
  }

  bool apply(const Exchange& exchange) {
    if (exchange.to == none) return false;
    for (const std::uint32_t item : exchange.given.items) move(item, exchange.from, exchange.to);
    for (const std::uint32_t item : exchange.back.items) move(item, exchange.to, exchange.from);
    return true;
  }

  void move(std::uint32_t item, std::size_t from, std::size_t to) {
    if (item == nothing) return;
    Bin& bin = bins_[from];
    bin.items.erase(std::find(bin.items.begin(), bin.items.end(), item));
    bin.load -= weights_[item];
    bin.filled -= limit_.sizes[item];
    bin.tabulated = false;
    put(item, to);
  }

  std::span<const W> weights_;
  SizeLimit limit_;
  std::vector<Bin> bins_;
  std::vector<ItemSubset<W>> triples_;
  std::uint64_t steps_ = 0;
};

}  // namespace slimpack::detail
