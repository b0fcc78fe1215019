#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/partition/rank_rows.hpp"

namespace slimpack::detail {

/// Tries the distributions of few samples over given groups depth first, to a limit of steps.
class FewSamplesOnGroups {
 public:
  using Group = OpenRow::Group;
  static constexpr std::size_t most_samples = 12;

  /// @param domain has to outlive this. @param limit tokens of each rank.
  FewSamplesOnGroups(const RankDomain& domain, double limit) : domain_(&domain), limit_(limit) {}

  /// Replaces the samples of groups by a distribution whose busiest group has less work, if it finds one.
  /// @param samples of the groups, longest first. @returns whether it did. O(steps * groups).
  bool improve(std::span<const SampleId> samples, std::vector<Group>& groups) {
    samples_ = samples;
    groups_ = &groups;
    work_.assign(groups.size(), 0.0);
    tokens_.assign(groups.size(), 0.0);
    at_.assign(samples.size(), 0);
    least_ = 0.0;
    for (const Group& group : groups) least_ = std::max(least_, group.work);
    least_ *= 1.0 - 1e-9;
    steps_ = 0;
    best_.clear();
    place(0, 0.0);
    if (best_.empty()) return false;
    for (Group& group : groups) {
      group.work = group.tokens = 0.0;
      group.samples.clear();
    }
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Group& own = groups[best_[i]];
      own.work += domain_->work(samples[i], own.place);
      own.tokens += domain_->tokens_per_rank(samples[i], own.place);
      own.samples.push_back(samples[i]);
    }
    return true;
  }

 private:
  static constexpr int most_steps = 3000;

  /// Distributes the samples from number `i` on. @param busiest work of any group so far.
  void place(std::size_t i, double busiest) {
    if (i == samples_.size()) {
      least_ = busiest * (1.0 - 1e-9);
      best_ = at_;
      return;
    }
    for (std::size_t g = 0; g < groups_->size() && steps_ < most_steps; ++g) {
      const std::size_t size = (*groups_)[g].place;
      const double work = domain_->work(samples_[i], size),
                   tokens = domain_->tokens_per_rank(samples_[i], size);
      if (work_[g] + work >= least_ || tokens_[g] + tokens > limit_ || is_like_one_before(g)) continue;
      ++steps_;
      const double work_before = work_[g], tokens_before = tokens_[g];
      work_[g] += work;
      tokens_[g] += tokens;
      at_[i] = static_cast<std::uint32_t>(g);
      place(i + 1, std::max(busiest, work_[g]));
      work_[g] = work_before;
      tokens_[g] = tokens_before;
    }
  }

  [[nodiscard]] bool is_like_one_before(std::size_t g) const {
    for (std::size_t other = 0; other < g; ++other) {
      if ((*groups_)[other].place == (*groups_)[g].place && work_[other] == work_[g] &&
          tokens_[other] == tokens_[g])
        return true;
    }
    return false;
  }

  const RankDomain* domain_;
  double limit_;
  std::span<const SampleId> samples_;
  const std::vector<Group>* groups_ = nullptr;
  std::vector<double> work_, tokens_;     // [group] so far
  std::vector<std::uint32_t> at_, best_;  // [sample] its group
  double least_ = 0.0;                    // what the busiest group has to stay below
  int steps_ = 0;
};

}  // namespace slimpack::detail
