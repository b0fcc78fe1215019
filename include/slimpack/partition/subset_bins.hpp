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
  static constexpr std::uint32_t nothing = ~std::uint32_t{0};
  std::int64_t size = 0;
  W weight{};
  std::array<std::uint32_t, 3> items{nothing, nothing, nothing};
};

/// Bins with the small subsets of items that each holds, by size and by weight; made on demand.
template <ItemWeight W>
class SubsetBins {
 public:
  SubsetBins(std::span<const W> weights, const SizeLimit& limit, std::size_t bins)
      : weights_(weights), limit_(limit), bins_(bins) {}

  [[nodiscard]] std::size_t count() const { return bins_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> items(std::size_t b) const { return bins_[b].items; }
  [[nodiscard]] W load(std::size_t b) const { return bins_[b].load; }
  [[nodiscard]] std::int64_t room(std::size_t b) const { return limit_.capacity - bins_[b].filled; }
  [[nodiscard]] W weight(std::uint32_t item) const { return weights_[item]; }
  [[nodiscard]] std::int64_t size(std::uint32_t item) const { return limit_.sizes[item]; }
  /// Entries that were sorted or looked at.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  void add_steps(std::uint64_t steps) { steps_ += steps; }

  void put(std::uint32_t item, std::size_t b) {
    Bin& bin = bins_[b];
    bin.items.push_back(item);
    bin.load += weights_[item];
    bin.filled += limit_.sizes[item];
    bin.tabulated = false;
  }
  void move(std::uint32_t item, std::size_t from, std::size_t to) {
    Bin& bin = bins_[from];
    bin.items.erase(std::find(bin.items.begin(), bin.items.end(), item));
    bin.load -= weights_[item];
    bin.filled -= limit_.sizes[item];
    bin.tabulated = false;
    put(item, to);
  }
  void move(const ItemSubset<W>& subset, std::size_t from, std::size_t to) {
    for (const std::uint32_t item : subset.items) {
      if (item != ItemSubset<W>::nothing) move(item, from, to);
    }
  }

  [[nodiscard]] std::vector<std::size_t> by_load() const {
    return ordered([](const Bin& a, const Bin& b) { return a.load < b.load; });
  }
  [[nodiscard]] std::vector<std::size_t> by_room() const {
    return ordered([](const Bin& a, const Bin& b) { return a.filled < b.filled; });
  }

  /// The bin's subsets of up to two items by size. If a bin has many items, only some of them, of all sizes,
  /// are in pairs.
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
    for (const std::uint32_t item : paired) add({item}, bin.subsets);
    const std::size_t stride = (paired.size() + paired_items - 1) / paired_items;
    for (std::size_t i = 0; i < paired.size(); i += stride) {
      for (std::size_t j = 0; j < i; j += stride) add({paired[i], paired[j]}, bin.subsets);
    }
    sort_by_size(bin.subsets);
    return bin.subsets;
  }

  /// Their places there by weight.
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

  /// The bin's subsets of three items by size.
  const std::vector<ItemSubset<W>>& triples(std::size_t b) {
    const auto& items = bins_[b].items;
    triples_.clear();
    for (std::size_t i = 0; i < items.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        for (std::size_t k = 0; k < j; ++k) add({items[i], items[j], items[k]}, triples_);
      }
    }
    sort_by_size(triples_);
    return triples_;
  }

 private:
  static constexpr std::size_t paired_items = 64;  ///< about how many of a bin's items are in pairs

  struct Bin {
    std::vector<std::uint32_t> items;
    W load{};
    std::int64_t filled = 0;
    bool tabulated = false, weighed = false;
    std::vector<ItemSubset<W>> subsets;
    std::vector<std::uint32_t> by_weight;
  };

  template <class Before>
  [[nodiscard]] std::vector<std::size_t> ordered(Before&& before) const {
    std::vector<std::size_t> order(bins_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return before(bins_[a], bins_[b]); });
    return order;
  }

  template <std::size_t n>
  void add(const std::uint32_t (&items)[n], std::vector<ItemSubset<W>>& subsets) const {
    ItemSubset<W>& subset = subsets.emplace_back();
    for (std::size_t k = 0; k < n; ++k) {
      subset.items[k] = items[k];
      subset.size += limit_.sizes[items[k]];
      subset.weight += weights_[items[k]];
    }
  }

  void sort_by_size(std::vector<ItemSubset<W>>& subsets) {
    std::sort(subsets.begin(), subsets.end(), [](const ItemSubset<W>& a, const ItemSubset<W>& b) {
      if (a.size != b.size) return a.size < b.size;
      return a.weight < b.weight || (a.weight == b.weight && a.items < b.items);
    });
    constexpr std::uint64_t sorted_entry = 8;  // steps that sorting an entry counts as
    steps_ += sorted_entry * subsets.size();
  }

  std::span<const W> weights_;
  SizeLimit limit_;
  std::vector<Bin> bins_;
  std::vector<ItemSubset<W>> triples_;
  std::uint64_t steps_ = 0;
};

}  // namespace slimpack::detail
