#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/cost/prices.hpp"
#include "slimpack/partition/groups.hpp"
#include "slimpack/slicing/group_cut.hpp"
#include "slimpack/slicing/micropack.hpp"
#include "slimpack/slicing/pack_chains.hpp"
#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

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
    out.forward.clear();
    out.backward.clear();
    const std::size_t members = streams_.size() - 1;
    PassSeconds local;
    std::size_t busiest = 0;
    for (std::size_t i = 0; i < members; ++i) {
      if (streams_[i + 1].seconds.backward > streams_[busiest + 1].seconds.backward) busiest = i;
      local.forward += streams_[i + 1].seconds.forward / static_cast<double>(members);
      local.backward += streams_[i + 1].seconds.backward / static_cast<double>(members);
    }
    GroupPackSize forward = group_pack_size(how, streams_[0].seconds.forward, local.forward);
    GroupPackSize backward = group_pack_size(how, streams_[0].seconds.backward, local.backward);
    const PassSeconds sliced = cut_both(streams_[0], forward.merged_packs, backward.merged_packs, how, out);
    out.merged_forward = out.forward.packs.size();
    out.merged_backward = out.backward.packs.size();
    forward.set_merged(sliced.forward, out.merged_forward);
    backward.set_merged(sliced.backward, out.merged_backward);
    first_forward_.assign(1, out.merged_forward);
    first_backward_.assign(1, out.merged_backward);
    for (std::size_t i = how.one_member ? busiest : 0; i < (how.one_member ? busiest + 1 : members); ++i) {
      const Stream& own = streams_[i + 1];
      const auto count = [&](const GroupPackSize& size, std::size_t merged, double seconds) {
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
    put_group_in_rows(out.merged_forward, members, first_forward_, merged_last, out.forward);
    if (how.backward == BackwardPacks::own) {
      put_group_in_rows(out.merged_backward, members, first_backward_, false, out.backward);
    } else {
      mirror(out);
    }
  }

  /// Replaces the backward packs by packs with the boundaries of the forward packs. @pre `out` is what `cut` made last.
  void mirror(GroupPacks& out) const {
    out.backward.packs.clear();
    append_mirrored(lengths_, out.forward.packs, 0, out.merged_forward, out.backward.packs);
    for (std::size_t i = 0; i + 1 < first_forward_.size(); ++i)
      append_mirrored(lengths_, out.forward.packs, first_forward_[i], first_forward_[i + 1],
                      out.backward.packs);
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
    if (how.backward == BackwardPacks::mirrored_rising) reverse_chains(lengths_, first, out.forward.packs);
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

  static void fill_up(std::size_t packs, std::size_t first, Packs& out) {
    while (out.size() - first < packs) out.close();
  }

  std::span<const Tokens> lengths_;
  MicroPackCutter cutter_;
  std::vector<Stream> streams_;                              // merged samples, then those of each member
  std::vector<std::uint32_t> position_;                      // [sample] index in its stream
  std::vector<std::uint32_t> order_, ready_;                 // of the stream that is being cut
  std::vector<std::size_t> first_forward_, first_backward_;  // [member] its first local pack
};

}  // namespace slimpack
