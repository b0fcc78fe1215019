#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/cost/packs.hpp"
#include "slimpack/planners/group_schedule.hpp"
#include "slimpack/slicing/micropack.hpp"

namespace slimpack {

namespace detail {

/// Tokens that each pack of `packs` brings to one of `share` members, appended as running sums. Returns the
/// largest.
inline double append_token_sums(const Packs& packs, double share, std::vector<double>& sums) {
  double largest = 0.0, sum = sums.back();
  sums.resize(sums.size() + packs.size());
  double* out = sums.data() + sums.size() - packs.size();
  for (std::size_t k = 0; k < packs.size(); ++k) {
    const double tokens = static_cast<double>(count_tokens(packs[k])) / share;
    largest = std::max(largest, tokens);
    *out++ = sum += tokens;
  }
  return largest;
}

/// Running sums of the lengths of samples whose last slice, the first to run backward, is in each pack.
inline void append_started_sums(const Packs& backward, std::span<const Tokens> lengths, double share,
                                std::vector<double>& sums) {
  double sum = sums.back();
  sums.resize(sums.size() + backward.size());
  double* out = sums.data() + sums.size() - backward.size();
  for (std::size_t k = 0; k < backward.size(); ++k) {
    Tokens tokens = 0;
    for (const Slice& slice : backward[k]) {
      if (slice.end == lengths[slice.sample]) tokens += slice.end;
    }
    *out++ = sum += static_cast<double>(tokens) / share;
  }
}

}  // namespace detail

/// Builds schedules of groups: cuts forward and backward packs (each pass its own way), times them and orders
/// them by PackFlow. Keeps its memory between calls.
template <CostModel C>
class GroupScheduler {
 public:
  GroupScheduler(std::span<const Tokens> lengths, MicroPackOptions options)
      : lengths_(lengths), options_(options), ended_(lengths.size()), position_(lengths.size()) {}

  /// How a group is cut.
  struct Cut {
    std::size_t packs = 0;  ///< per member and pass, merged ones included
    std::size_t members = std::numeric_limits<std::size_t>::max();  ///< only the first so many are scheduled
    bool asymmetric = true;  ///< false: the backward pass reuses the forward packs' boundaries
    bool accurate = false;   ///< packs of a group as equal as can be, for more rounds of cutting
    bool once = true;        ///< merged samples, unless accurate, are cut as of MicroPackOptions::once
    bool exact = false;      ///< exactly `packs` in both passes on all members; empty ones where samples lack
    SlicingWaste waste = {};  ///< to be expected
  };

  /// Fills `out` but for its `seconds` and `recompute`, with the unlimited lead tables.
  /// @param cost local packs, and merged ones, in this order; recomputation already in both.
  void build(const SampleGroup& group, const Cut& cut, const C& cost, const C& merged_cost,
             GroupSchedule& out) {
    const std::size_t members = std::min(cut.members, group.size());
    resize(members, out);
    const PassSeconds merged = load(group.merged, merged_cost, merged_samples_);
    merged_samples_.waste = cut.waste;
    merged_samples_.once = out.cut_once = cut.once && !cut.accurate;
    if (local_samples_.size() < group.size()) local_samples_.resize(group.size());
    local_seconds_.clear();
    PassSeconds local;
    for (std::size_t i = 0; i < group.size(); ++i) {
      local_seconds_.push_back(load(group.local[i], cost, local_samples_[i]));
      local.forward += local_seconds_[i].forward / static_cast<double>(group.size());
      local.backward += local_seconds_[i].backward / static_cast<double>(group.size());
    }
    PackSize forward = pack_size(cut, merged.forward, local.forward);
    PackSize backward = pack_size(cut, merged.backward, local.backward);
    const PassSeconds sliced = cut_both(merged_samples_, forward.merged_packs, backward.merged_packs, 0,
                                        merged_cost, cut, out.merged_forward, out.merged_backward);
    out.waste = {waste(sliced.forward, merged.forward, out.merged_forward.size()),
                 waste(sliced.backward, merged.backward, out.merged_backward.size())};
    forward.set_merged(sliced.forward, out.merged_forward.size());
    backward.set_merged(sliced.backward, out.merged_backward.size());
    time_packs(out.merged_forward, merged_cost, Pass::forward, out.times.merged_forward);
    time_packs(out.merged_backward, merged_cost, Pass::backward, out.times.merged_backward);
    follow_merged(out, group.size());
    for (std::size_t i = 0; i < members; ++i) {
      const auto local_packs = [&](const PackSize& size, const Packs& merged_packs, double seconds) {
        return cut.exact ? std::max<std::size_t>(1, cut.packs - std::min(cut.packs, merged_packs.size()))
                         : size.packs_of(seconds, cut.accurate);
      };
      cut_both(local_samples_[i], local_packs(forward, out.merged_forward, local_seconds_[i].forward),
               local_packs(backward, out.merged_backward, local_seconds_[i].backward),
               out.merged_forward.size(), cost, cut, out.forward[i], out.backward[i]);
      if (cut.exact) {
        while (out.merged_forward.size() + out.forward[i].size() < cut.packs) out.forward[i].close();
        while (out.merged_backward.size() + out.backward[i].size() < cut.packs) out.backward[i].close();
      }
      time_member(out, i, cost);
    }
  }

  /// For each backward pack of a member, the forward packs that come before; as of the latest `build`.
  [[nodiscard]] std::span<const std::uint32_t> required(std::size_t member) const {
    return required_[member];
  }

 private:
  struct Streams {
    std::vector<StreamSample> forward, backward;
    SlicingWaste waste;  ///< to be expected
    bool once = false;   ///< as of MicroPackOptions
  };
  struct PassSeconds {
    double forward = 0.0, backward = 0.0;
  };
  /// What merged packs bring to each member, and what they wait for.
  struct MergedPacks {
    TokenFlow flow;
    double largest_forward = 0.0, largest_backward = 0.0;
    std::vector<std::uint32_t> required;
  };
  /// Number of merged packs, and the cost that packs aim at.
  struct PackSize {
    std::size_t merged_packs = 0;
    double seconds = 0.0;

    /// Slicing can make merged samples dearer than they are as a whole; local packs then grow with them.
    void set_merged(double merged_seconds, std::size_t packs) {
      if (packs > 0) seconds = merged_seconds / static_cast<double>(packs);
    }

    /// Packs that share `local` seconds; if `equal`, such that none takes more than `seconds`, but for a hundredth.
    [[nodiscard]] std::size_t packs_of(double local, bool equal) const {
      const double packs = seconds > 0.0 ? local / seconds : 1.0;
      return std::max<std::size_t>(
          1, static_cast<std::size_t>(equal ? std::ceil(packs / 1.01) : std::round(packs)));
    }
  };

  /// Accuracy of the packs of `Cut::accurate`.
  static constexpr double accurate = 0.01;

  void resize(std::size_t members, GroupSchedule& out) {
    out.merged_forward.clear();
    out.merged_backward.clear();
    for (auto* packs : {&out.forward, &out.backward}) {
      packs->resize(members);
      for (Packs& p : *packs) p.clear();
    }
    out.times.members.resize(members);
    out.flow.resize(members);
    out.largest_forward.assign(members, 0.0);
    out.largest_backward.assign(members, 0.0);
    if (required_.size() < members) required_.resize(members);
  }

  [[nodiscard]] static double waste(double sliced, double whole, std::size_t packs) {
    return packs > 0 && whole > 0.0 ? std::max(0.0, sliced / whole - 1.0) / static_cast<double>(packs) : 0.0;
  }
  [[nodiscard]] static double expected(double waste, std::size_t packs) {
    return 1.0 + waste * static_cast<double>(packs);
  }

  /// Prices the samples (longest first) in both passes. Returns the sums.
  PassSeconds load(const std::vector<SampleId>& ids, const C& cost, Streams& out) {
    out.forward.clear();
    out.backward.clear();
    PassSeconds sum;
    for (const SampleId id : ids) {
      const Tokens length = lengths_[id];
      position_[id] = static_cast<std::uint32_t>(out.forward.size());
      out.forward.push_back({id, length, pipeline_seconds(cost, 0, length, Pass::forward)});
      out.backward.push_back({id, length, pipeline_seconds(cost, 0, length, Pass::backward)});
      sum.forward += out.forward.back().seconds;
      sum.backward += out.backward.back().seconds;
    }
    return sum;
  }

  /// Size of about `packs` packs such that merged and local samples both fill whole numbers of them as nearly
  /// as can be: the choice with the least ratio of largest pack to mean.
  static PackSize pack_size(const Cut& cut, double merged, double local) {
    const std::size_t packs = cut.packs;
    const double wanted = static_cast<double>(packs);
    if (merged == 0.0 || local == 0.0) return {merged == 0.0 ? 0 : packs, std::max(merged, local) / wanted};
    const double share = merged / (merged + local) * wanted;
    const double reach = std::max(1.0, share / 8.0);
    PackSize best;
    double least = std::numeric_limits<double>::infinity();
    const double most = std::max(1.0, std::min(share + reach + 1.0, wanted - 1.0));
    const auto first = static_cast<std::size_t>(std::clamp(std::floor(share - reach), 1.0, most));
    for (std::size_t merged_packs = first; merged_packs <= static_cast<std::size_t>(most); ++merged_packs) {
      const auto m = static_cast<double>(merged_packs);
      const double l = std::max(1.0, cut.exact ? wanted - m : std::round(local / merged * m));
      const double imbalance = std::max(merged / m, local / l) * (m + l) / (merged + local);
      if (imbalance < least - 1e-3) {
        least = imbalance;
        best = {merged_packs, merged / m};
      }
    }
    return best;
  }

  /// Cuts forward, then backward. Returns what the packs cost.
  PassSeconds cut_both(const Streams& samples, std::size_t forward_packs, std::size_t backward_packs,
                       std::size_t first_pack, const C& cost, const Cut& how, Packs& forward,
                       Packs& backward) {
    PassSeconds sum;
    if (samples.forward.empty()) return sum;
    MicroPackOptions options = options_;
    if (how.accurate) options.accuracy = accurate;
    options.once = samples.once;
    sum.forward =
        cutter_.cut({.samples = samples.forward, .expected = expected(samples.waste.forward, forward_packs)},
                    forward_packs, cost, Pass::forward, options, forward);
    order_.clear();
    ready_.assign(samples.forward.size(), 0);
    for (std::size_t k = 0; k < forward.size(); ++k) {
      for (const Slice& slice : forward[k]) {
        if (slice.begin == 0) order_.push_back(position_[slice.sample]);
        if (slice.end != lengths_[slice.sample]) continue;
        ended_[slice.sample] = static_cast<std::uint32_t>(first_pack + k);
        ready_[position_[slice.sample]] = static_cast<std::uint32_t>(k);
      }
    }
    if (how.asymmetric) {
      sum.backward = cutter_.cut({.samples = samples.backward,
                                  .order = order_,
                                  .ready = ready_,
                                  .expected = expected(samples.waste.backward, backward_packs)},
                                 backward_packs, cost, Pass::backward, options, backward);
    } else {
      mirror(forward, backward);
    }
    return sum;
  }

  /// Backward packs with the forward packs' boundaries and membership. Packs that share samples run backward
  /// in reverse; chains of such packs keep their sequence.
  void mirror(const Packs& forward, Packs& backward) const {
    std::ptrdiff_t unfinished = 0;  // samples with slices on both sides of the current boundary
    for (std::size_t begin = 0, end = 0; begin < forward.size(); begin = end) {
      do {
        for (const Slice& slice : forward[end]) {
          const bool starts = slice.begin == 0, ends = slice.end == lengths_[slice.sample];
          unfinished += static_cast<std::ptrdiff_t>(starts) - static_cast<std::ptrdiff_t>(ends);
        }
        ++end;
      } while (unfinished > 0);
      for (std::size_t k = end; k-- > begin;) {
        for (const Slice& slice : forward[k]) backward.add(slice);
        backward.close();
      }
    }
  }

  static void time_packs(const Packs& packs, const C& cost, Pass pass, PassTimes& times) {
    times.clear();
    append_pack_times(packs, cost, pass, times.seconds, times.transfer);
  }

  /// Finds out what merged packs are to each member; it is the same for all.
  void follow_merged(const GroupSchedule& out, std::size_t members) {
    const double share = static_cast<double>(members);
    merged_.flow.clear();
    merged_.largest_forward = detail::append_token_sums(out.merged_forward, share, merged_.flow.forward);
    merged_.largest_backward = detail::append_token_sums(out.merged_backward, share, merged_.flow.backward);
    detail::append_started_sums(out.merged_backward, lengths_, share, merged_.flow.started);
    required_forward(out.merged_backward, ended_, merged_.required);
  }

  void time_member(GroupSchedule& out, std::size_t i, const C& cost) {
    PipelineTimes& times = out.times.members[i];
    time_packs(out.forward[i], cost, Pass::forward, times.forward);
    time_packs(out.backward[i], cost, Pass::backward, times.backward);

    TokenFlow& flow = out.flow[i];
    flow = merged_.flow;
    out.largest_forward[i] =
        std::max(merged_.largest_forward, detail::append_token_sums(out.forward[i], 1.0, flow.forward));
    out.largest_backward[i] =
        std::max(merged_.largest_backward, detail::append_token_sums(out.backward[i], 1.0, flow.backward));
    detail::append_started_sums(out.backward[i], lengths_, 1.0, flow.started);

    auto& required = required_[i];
    required = merged_.required;
    const std::uint32_t most = required.empty() ? 0 : required.back();
    required_forward(out.backward[i], ended_, local_required_);
    for (const std::uint32_t r : local_required_) required.push_back(std::max(most, r));
    const std::size_t forward_packs = out.merged_forward.size() + out.forward[i].size();
    if (!required.empty()) required.back() = static_cast<std::uint32_t>(forward_packs);
    packflow_leads(required, forward_packs, cost.stages(), times.leads);
  }

  std::span<const Tokens> lengths_;
  MicroPackOptions options_;
  MicroPackCutter cutter_;
  std::vector<std::uint32_t> ended_;  // [sample] forward pack that ends it, counted from the member's first
  std::vector<std::uint32_t> position_;  // [sample] index in its stream
  std::vector<std::uint32_t> order_, ready_;
  std::vector<std::vector<std::uint32_t>> required_;  // [member]
  std::vector<std::uint32_t> local_required_;
  MergedPacks merged_;  // of the group that is being built
  Streams merged_samples_;
  std::vector<Streams> local_samples_;
  std::vector<PassSeconds> local_seconds_;
};

}  // namespace slimpack
