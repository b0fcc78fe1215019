#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/shards.hpp"
#include "slimpack/schedule/task.hpp"
#include "slimpack/sharding/sample_owners.hpp"

namespace slimpack {

namespace detail {

/// Finds who holds the tokens of the samples in some tasks' packs, by the packs' shardings.
class StageOwners {
 public:
  StageOwners(const Plan& plan, std::span<const Task> tasks, Tokens block)
      : plan_(plan), tasks_(tasks), owners_(plan.tokens.size(), block) {}

  [[nodiscard]] SampleOwners find() {
    for (const Task task : tasks_) begin(task);
    if (listed_.empty()) return std::move(owners_);
    collect(Pass::forward, forward_);
    collect(Pass::backward, backward_);
    check_same();
    for (std::size_t i = 0; i < forward_.size();) i = deal(i);
    return std::move(owners_);
  }

 private:
  /// A range of a sample that one member holds by a pack's sharding.
  struct Held {
    SampleId sample;
    OwnedRange range;

    friend bool operator==(const Held&, const Held&) = default;
  };

  /// How members share a pack. One that several run and that says nothing is shared by position.
  [[nodiscard]] Sharding sharding(Task task) const {
    const PassPlan& pass = plan_.of(task.pass);
    const bool stated = task.pack < pass.sharding.size() && pass.sharding[task.pack] != Sharding::none;
    return stated && pass.pipelines[task.pack].size() > 1 ? pass.sharding[task.pack] : Sharding::by_position;
  }

  /// Deals a pack's samples by position. Marks them if the pack is shared in another way: these are dealt again.
  void begin(Task task) {
    if (task.pass == Pass::weight) return;  // as in its backward task
    const PassPlan& pass = plan_.of(task.pass);
    const std::size_t members = pass.pipelines[task.pack].size();
    if (members == 1) return;
    const bool listed = sharding(task) != Sharding::by_position;
    if (listed && listed_.empty()) listed_.resize(plan_.tokens.size(), 0);
    for (const Slice& slice : pass.packs[task.pack]) {
      owners_.deal_by_position(slice.sample, members);
      if (listed) listed_[slice.sample] = 1;
    }
  }

  /// The ranges of all marked samples in a pass, by sample and token.
  void collect(Pass pass, std::vector<Held>& held) const {
    for (const Task task : tasks_) {
      if (task.pass == pass) add_pack(task, held);
    }
    std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) {
      return std::tuple(a.sample, a.range.begin) < std::tuple(b.sample, b.range.begin);
    });
    std::size_t size = 0;
    for (const Held& next : held) {
      Held* const last = size == 0 ? nullptr : &held[size - 1];
      if (last != nullptr && last->sample == next.sample && last->range.member == next.range.member &&
          last->range.end == next.range.begin) {
        last->range.end = next.range.end;
      } else {
        held[size++] = next;
      }
    }
    held.resize(size);
  }

  void add_pack(Task task, std::vector<Held>& held) const {
    const std::span<const Slice> pack = plan_.of(task.pass).packs[task.pack];
    const auto marked = [&](const Slice& slice) { return listed_[slice.sample] != 0; };
    if (std::none_of(pack.begin(), pack.end(), marked)) return;
    const auto members = plan_.of(task.pass).pipelines[task.pack];
    const bool by_position = sharding(task) == Sharding::by_position;
    const ContextShards shards =
        by_position ? position_shards(pack, static_cast<std::int32_t>(members.size()), owners_.block())
                    : shards_of(task);
    std::size_t rank = 0;
    for (std::size_t member = 0; member < members.size(); ++member) {
      const auto ranks = by_position ? 1 : static_cast<std::size_t>(plan_.pipelines[members[member]].cp);
      for (const std::size_t end = rank + ranks; rank < end; ++rank) {
        for (const Slice& chunk : shards.ranks[rank]) {
          const SampleId sample = pack[chunk.sample].sample;
          if (listed_[sample] != 0) held.push_back({sample, {chunk.begin, chunk.end, member}});
        }
      }
    }
  }

  [[nodiscard]] ContextShards shards_of(Task task) const {
    const Tokens tokens = count_tokens(plan_.of(task.pass).packs[task.pack]);
    const std::int32_t ranks = context_ranks(plan_, task);
    require(tokens >= ranks, to_string(task), ", of ", tokens, " tokens, is shared '",
            sharding_name(sharding(task)), "' by ", ranks,
            " ranks; expected a token for each, or 'by_position'");
    return pack_shards(plan_, task);
  }

  /// A token's activations, keys and values stay on one member.
  void check_same() const {
    const auto [f, b] = std::mismatch(forward_.begin(), forward_.end(), backward_.begin(), backward_.end());
    if (f == forward_.end() && b == backward_.end()) return;
    // What comes before is the same in both, so these are the first ranges of which one has a token that the other lacks.
    const Held& first = b == backward_.end() || (f != forward_.end() && f->sample <= b->sample) ? *f : *b;
    const bool both = f != forward_.end() && b != backward_.end() && f->sample == b->sample;
    Tokens token = first.range.begin;
    if (both && f->range.begin == b->range.begin && f->range.member == b->range.member)
      token = std::min(f->range.end, b->range.end);
    else if (both)
      token = std::min(f->range.begin, b->range.begin);
    const std::string forward = pack_of(Pass::forward, first.sample, token),
                      backward = pack_of(Pass::backward, first.sample, token);
    throw InvalidInput(concat("token ", token, " of sample ", first.sample,
                              " is on one member by the sharding of ", forward, " and on another by that of ",
                              backward,
                              "; expected the same in both passes, as where both run the same packs of whole "
                              "samples, or 'by_position'"));
  }

  /// Name and sharding of the pack that holds a token. @throws InvalidInput if there is none.
  [[nodiscard]] std::string pack_of(Pass pass, SampleId sample, Tokens token) const {
    for (const Task task : tasks_) {
      if (task.pass != pass) continue;
      for (const Slice& slice : plan_.of(pass).packs[task.pack]) {
        if (slice.sample == sample && slice.begin <= token && token < slice.end)
          return concat(to_string(task), " ('", sharding_name(sharding(task)), "')");
      }
    }
    throw InvalidInput(concat("sample ", sample, " has no ", pass_name(pass), " pack for its token ", token,
                              "; expected each of its tokens in one"));
  }

  /// Deals the sample whose ranges begin at place i. @returns where those of the next one begin.
  std::size_t deal(std::size_t i) {
    const SampleId sample = forward_[i].sample;
    ranges_.clear();
    for (; i < forward_.size() && forward_[i].sample == sample; ++i) ranges_.push_back(forward_[i].range);
    owners_.deal(sample, owners_.members(sample), ranges_);
    return i;
  }

  const Plan& plan_;
  std::span<const Task> tasks_;
  SampleOwners owners_;
  std::vector<std::uint8_t>
      listed_;  ///< [sample] not all of whose packs are shared by position; empty if none
  std::vector<Held> forward_, backward_;  ///< ranges of these samples
  std::vector<OwnedRange> ranges_;        ///< of the sample that is being dealt
};

}  // namespace detail

/// Who holds the tokens of the samples that a stage runs, as the plan says: the ranges of `pack_shards`. The ranks of a
/// pipeline with context parallelism count as one member. Packs that several pipelines run and that name no sharding are shared
/// by position. Samples of other stages' packs have one member.
/// @param tasks of the stage; packs and pipelines exist, and all packs of a sample are of the same pipelines.
/// @param block tokens of a chunk of samples that are dealt by position.
/// @throws InvalidInput naming sample, token and packs if a token is on different members in the two passes, or naming a pack
/// that has fewer tokens than ranks and is not shared by position; or as `pack_shards`.
/// Complexity: O(samples + slices), and where packs are shared otherwise, of `pack_shards` for them and a sort of their chunks.
[[nodiscard]] inline SampleOwners stage_owners(const Plan& plan, std::span<const Task> tasks, Tokens block) {
  return detail::StageOwners(plan, tasks, block).find();
}

}  // namespace slimpack
