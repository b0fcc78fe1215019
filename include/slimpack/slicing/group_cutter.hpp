#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/cost/prices.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/slicing/micropack.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// Where the boundaries of backward packs are. Each way mostly holds less memory than the one before, but its packs are less
/// equal.
enum class BackwardPacks : std::uint8_t {
  own,       ///< their own (asymmetric partition)
  mirrored,  ///< those of the forward packs; a chain of packs that share samples runs backward in reverse
  mirrored_apart,  ///< the same, but samples that are cut share no pack, so that chains are short
  mirrored_rising,  ///< the same with the chains of the longest samples last, so that stages are far ahead only for these
};

/// How a group's samples are cut.
struct GroupCut {
  std::size_t packs = 0;  ///< per member and pass, merged ones included; about, unless `exact`
  Tokens tile = 128;      ///< slice boundaries are multiples of this, except at the end of a sample
  BackwardPacks backward = BackwardPacks::own;
  bool fill = true;    ///< complete short samples fill packs (`MicroPackOptions::fill`)
  bool exact = false;  ///< exactly `packs` in both passes on all members, with empty ones where samples lack
  bool one_member = false;  ///< only the member with most work of its own, standing for all

  friend bool operator==(const GroupCut&, const GroupCut&) = default;
};

/// Packs of both passes of a group. In both, the merged ones have the first numbers, and run first on all members, or last
/// (`BackwardPacks::mirrored_rising`).
struct GroupPacks {
  PackRows forward, backward;
  std::size_t merged_forward = 0, merged_backward = 0;  ///< merged packs are the first so many
};

/// Cuts the samples of a group of pipelines into MicroPacks of equal cost, forward and backward, each pass its own way
/// (SlimPack, sections 4.1.1 and 4.1.2). Keeps its memory between calls.
class GroupCutter {
 public:
  explicit GroupCutter(std::span<const Tokens> lengths) : lengths_(lengths), position_(lengths.size()) {}

  /// Prices the samples of a group, which later calls of `cut` refer to. O(samples).
  /// @param alone, merged prices of packs that one member and that all members run; have to outlive those calls.
  void load(const SampleGroup& group, const Prices& alone, const Prices& merged) {
    streams_.clear();
    streams_.emplace_back(merged);
    price(group.merged, streams_[0]);
    for (const std::vector<SampleId>& own : group.local) {
      streams_.emplace_back(alone);
      price(own, streams_.back());
    }
  }

  /// Cuts the group that was loaded last. Fewer packs come out where samples have too few tiles.
  /// O(samples + packs), each with a logarithmic factor; up to six times that for prices whose parts do not add up.
  void cut(const GroupCut& how, GroupPacks& out) {
    for (PackRows* rows : {&out.forward, &out.backward}) {
      rows->packs.clear();
      rows->members.clear();
      rows->sharers.clear();
      rows->rows.clear();
    }
    const std::size_t members = streams_.size() - 1;
    PassSeconds local;
    std::size_t busiest = 0;
    for (std::size_t i = 0; i < members; ++i) {
      if (streams_[i + 1].seconds.backward > streams_[busiest + 1].seconds.backward) busiest = i;
      local.forward += streams_[i + 1].seconds.forward / static_cast<double>(members);
      local.backward += streams_[i + 1].seconds.backward / static_cast<double>(members);
    }
    PackSize forward = pack_size(how, streams_[0].seconds.forward, local.forward);
    PackSize backward = pack_size(how, streams_[0].seconds.backward, local.backward);
    const PassSeconds sliced = cut_both(streams_[0], forward.merged_packs, backward.merged_packs, how, out);
    out.merged_forward = out.forward.packs.size();
    out.merged_backward = out.backward.packs.size();
    forward.set_merged(sliced.forward, out.merged_forward);
    backward.set_merged(sliced.backward, out.merged_backward);
    first_forward_.assign(1, out.merged_forward);
    first_backward_.assign(1, out.merged_backward);
    for (std::size_t i = how.one_member ? busiest : 0; i < (how.one_member ? busiest + 1 : members); ++i) {
      const Stream& own = streams_[i + 1];
      const auto count = [&](const PackSize& size, std::size_t merged, double seconds) {
        return how.exact ? std::max<std::size_t>(1, how.packs - std::min(how.packs, merged))
                         : size.packs_of(seconds);
      };
      cut_both(own, count(forward, out.merged_forward, own.seconds.forward),
               count(backward, out.merged_backward, own.seconds.backward), how, out);
      if (how.exact) {
        fill_up(how.packs - std::min(how.packs, out.merged_forward), first_forward_.back(),
                out.forward.packs);
        fill_up(how.packs - std::min(how.packs, out.merged_backward), first_backward_.back(),
                out.backward.packs);
      }
      first_forward_.push_back(out.forward.packs.size());
      first_backward_.push_back(out.backward.packs.size());
    }
    const bool merged_last = how.backward == BackwardPacks::mirrored_rising;
    put_in_rows(out.merged_forward, members, first_forward_, merged_last, out.forward);
    if (how.backward == BackwardPacks::own) {
      put_in_rows(out.merged_backward, members, first_backward_, false, out.backward);
    } else {
      mirror(out);
    }
  }

  /// Replaces the backward packs by packs with the boundaries of the forward packs. @pre `out` is what `cut` made last.
  void mirror(GroupPacks& out) const {
    out.backward.packs.clear();
    mirror(0, out.merged_forward, out.forward.packs, out.backward.packs);
    for (std::size_t i = 0; i + 1 < first_forward_.size(); ++i)
      mirror(first_forward_[i], first_forward_[i + 1], out.forward.packs, out.backward.packs);
    out.merged_backward = out.merged_forward;
    out.backward.members = out.forward.members;
    out.backward.sharers = out.forward.sharers;
    out.backward.rows = out.forward.rows;
  }

 private:
  struct PassSeconds {
    double forward = 0.0, backward = 0.0;
  };
  /// Samples that one member, or all together, cut one after another.
  struct Stream {
    SlicePrices forward_prices, backward_prices;
    std::vector<StreamSample> forward, backward;
    PassSeconds seconds;

    explicit Stream(const Prices& prices)
        : forward_prices(prices, Pass::forward), backward_prices(prices, Pass::backward) {}
  };
  /// Number of merged packs, and the cost that packs aim at.
  struct PackSize {
    std::size_t merged_packs = 0;
    double seconds = 0.0;

    /// Slicing can make merged samples more expensive than they are as a whole; local packs then grow with them.
    void set_merged(double merged_seconds, std::size_t packs) {
      if (packs > 0) seconds = merged_seconds / static_cast<double>(packs);
    }
    /// Packs that share `local` seconds.
    [[nodiscard]] std::size_t packs_of(double local) const {
      return std::max<std::size_t>(1,
                                   seconds > 0.0 ? static_cast<std::size_t>(std::round(local / seconds)) : 1);
    }
  };

  void price(const std::vector<SampleId>& ids, Stream& out) {
    for (const SampleId id : ids) {
      const Tokens length = lengths_[id];
      position_[id] = static_cast<std::uint32_t>(out.forward.size());
      out.forward.push_back({id, length, out.forward_prices(0, length)});
      out.backward.push_back({id, length, out.backward_prices(0, length)});
      out.seconds.forward += out.forward.back().seconds;
      out.seconds.backward += out.backward.back().seconds;
    }
  }

  /// Size of about `packs` packs such that merged and local samples both fill whole numbers of them as nearly as can
  /// be: the choice with the least ratio of largest pack to mean.
  static PackSize pack_size(const GroupCut& how, double merged, double local) {
    const double wanted = static_cast<double>(how.packs);
    if (merged == 0.0 || local == 0.0)
      return {merged == 0.0 ? 0 : how.packs, std::max(merged, local) / wanted};
    const double share = merged / (merged + local) * wanted;
    const double reach = std::max(1.0, share / 8.0);
    PackSize best;
    double least = std::numeric_limits<double>::infinity();
    const double most = std::max(1.0, std::min(share + reach + 1.0, wanted - 1.0));
    const auto first = static_cast<std::size_t>(std::clamp(std::floor(share - reach), 1.0, most));
    for (std::size_t merged_packs = first; merged_packs <= static_cast<std::size_t>(most); ++merged_packs) {
      const auto m = static_cast<double>(merged_packs);
      const double l = std::max(1.0, how.exact ? wanted - m : std::round(local / merged * m));
      const double imbalance = std::max(merged / m, local / l) * (m + l) / (merged + local);
      if (imbalance < least - 1e-3) {
        least = imbalance;
        best = {merged_packs, merged / m};
      }
    }
    return best;
  }

  /// Cuts forward packs, then backward packs if these have boundaries of their own. @returns what the packs cost.
  PassSeconds cut_both(const Stream& samples, std::size_t forward_packs, std::size_t backward_packs,
                       const GroupCut& how, GroupPacks& out) {
    PassSeconds sum;
    if (samples.forward.empty()) return sum;
    const MicroPackOptions options{
        .tile = how.tile, .fill = how.fill, .chained = how.backward < BackwardPacks::mirrored_apart};
    const std::size_t first = out.forward.packs.size();
    sum.forward = cutter_.cut({.samples = samples.forward}, forward_packs, samples.forward_prices, options,
                              out.forward.packs);
    if (how.backward == BackwardPacks::mirrored_rising) reverse_chains(first, out.forward.packs);
    if (how.backward != BackwardPacks::own) return sum;
    order_.clear();
    ready_.assign(samples.forward.size(), 0);
    for (std::size_t k = first; k < out.forward.packs.size(); ++k) {
      for (const Slice& slice : out.forward.packs[k]) {
        if (slice.begin == 0) order_.push_back(position_[slice.sample]);
        if (slice.end == lengths_[slice.sample])
          ready_[position_[slice.sample]] = static_cast<std::uint32_t>(k - first);
      }
    }
    sum.backward = cutter_.cut({.samples = samples.backward, .order = order_, .ready = ready_},
                               backward_packs, samples.backward_prices, options, out.backward.packs);
    return sum;
  }

  /// End of the chain of forward packs that begins at `begin`: packs which share samples with the next.
  [[nodiscard]] std::size_t chain_end(std::size_t begin, const Packs& forward) const {
    std::ptrdiff_t unfinished = 0;  // samples with slices on both sides of the current boundary
    std::size_t end = begin;
    do {
      for (const Slice& slice : forward[end]) {
        const bool starts = slice.begin == 0, ends = slice.end == lengths_[slice.sample];
        unfinished += static_cast<std::ptrdiff_t>(starts) - static_cast<std::ptrdiff_t>(ends);
      }
      ++end;
    } while (unfinished > 0);
    return end;
  }

  /// Backward packs with the boundaries of the forward packs `[first, last)`. Chains run backward in reverse, and keep their
  /// sequence.
  void mirror(std::size_t first, std::size_t last, const Packs& forward, Packs& backward) const {
    for (std::size_t begin = first, end = first; begin < last; begin = end) {
      end = chain_end(begin, forward);
      for (std::size_t k = end; k-- > begin;) backward.repeat_row(1, forward[k]);
    }
  }

  /// Puts the chains of the forward packs from number `first` on into reverse order; packs of a chain keep theirs.
  void reverse_chains(std::size_t first, Packs& forward) const {
    std::vector<std::size_t> begins;
    for (std::size_t begin = first; begin < forward.size(); begin = chain_end(begin, forward))
      begins.push_back(begin);
    Packs reversed;
    for (std::size_t i = begins.size(); i-- > 0;) {
      const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : forward.size();
      for (std::size_t k = begins[i]; k < end; ++k) reversed.repeat_row(1, forward[k]);
    }
    forward.truncate(first);
    forward.append(reversed);
  }

  static void fill_up(std::size_t packs, std::size_t first, Packs& out) {
    while (out.size() - first < packs) out.close();
  }

  /// Row r holds merged pack r, or the members' local packs in their places after the merged ones, or before them.
  /// @param sharers of merged packs. @param first [member] number of its first local pack, and the end.
  static void put_in_rows(std::size_t merged, std::size_t sharers, std::span<const std::size_t> first,
                          bool merged_last, PackRows& out) {
    const std::size_t members = first.size() - 1;
    for (std::size_t k = 0; k < merged; ++k) {
      for (std::uint32_t i = 0; i < members; ++i) out.members.add(i);
      out.members.close();
    }
    const auto add_merged = [&] {
      for (std::size_t k = 0; k < merged; ++k) out.rows.add_row(1, static_cast<PackId>(k));
    };
    if (!merged_last) add_merged();
    out.sharers.assign(out.packs.size(), 1);
    std::fill_n(out.sharers.begin(), merged, static_cast<std::uint32_t>(sharers));
    std::size_t most = 0;
    for (std::size_t i = 0; i < members; ++i) {
      most = std::max(most, first[i + 1] - first[i]);
      for (std::size_t k = first[i]; k < first[i + 1]; ++k)
        out.members.add_row(1, static_cast<std::uint32_t>(i));
    }
    for (std::size_t r = 0; r < most; ++r) {
      for (std::size_t i = 0; i < members; ++i) {
        if (first[i] + r < first[i + 1]) out.rows.add(static_cast<PackId>(first[i] + r));
      }
      out.rows.close();
    }
    if (merged_last) add_merged();
  }

  std::span<const Tokens> lengths_;
  MicroPackCutter cutter_;
  std::vector<Stream> streams_;                              // merged samples, then those of each member
  std::vector<std::uint32_t> position_;                      // [sample] index in its stream
  std::vector<std::uint32_t> order_, ready_;                 // of the stream that is being cut
  std::vector<std::size_t> first_forward_, first_backward_;  // [member] its first local pack
};

}  // namespace slimpack
