#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/schedule/task.hpp"

namespace slimpack {

/// The order of all stages of a pipeline in one table: how many forward packs a stage has run when it begins
/// each backward pack. Packs run in index order on every stage, so these counts are the whole schedule. A
/// table whose counts fall neither with the backward pack nor towards the first stage can't deadlock.
class LeadTable {
 public:
  void reset(std::size_t stages, std::size_t backward_packs) {
    stages_ = stages;
    backward_packs_ = backward_packs;
    counts_.assign(stages * backward_packs, 0);
  }
  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] std::size_t backward_packs() const { return backward_packs_; }

  /// Forward packs that stage `s` runs before backward pack `k`.
  [[nodiscard]] std::uint32_t operator()(std::size_t k, std::size_t s) const {
    return counts_[k * stages_ + s];
  }
  [[nodiscard]] std::uint32_t& operator()(std::size_t k, std::size_t s) { return counts_[k * stages_ + s]; }

 private:
  std::size_t stages_ = 0, backward_packs_ = 0;
  std::vector<std::uint32_t> counts_;  // [backward pack][stage]
};

/// For every backward pack, how many forward packs have to be done before it may start on the last stage:
/// those that hold a part of its samples, or of the samples of an earlier backward pack (packs run in order).
/// @param ended forward pack that ends each sample, by sample id.
inline void required_forward(const Packs& backward, std::span<const std::uint32_t> ended,
                             std::vector<std::uint32_t>& required) {
  required.clear();
  std::uint32_t most = 0;
  for (std::size_t k = 0; k < backward.size(); ++k) {
    for (const Slice& slice : backward[k]) most = std::max(most, ended[slice.sample] + 1);
    required.push_back(most);
  }
}

/// The lead table of PackFlow (SlimPack, section 4.2). On the last stage the first backward pack starts as soon as its
/// samples are done; from then on forward and backward packs alternate, and where the next backward pack isn't ready,
/// extra forward packs are injected. What is ahead then stays ahead: else each long sample that takes more forward than
/// backward packs would bring a row of backward packs alone and then one of forward packs, for which others wait. A
/// stage before the last runs ahead as in 1F1B, by as many backward packs as there are stages behind it: `leads(k, s) =
/// leads(k + 1, s + 1)`. So extra packs are injected early enough to be there when the last stage needs them. Plain
/// 1F1B is the case `required[k] = k + 1`. O(backward packs * stages).
inline void packflow_leads(std::span<const std::uint32_t> required, std::size_t forward_packs,
                           std::size_t stages, LeadTable& leads) {
  leads.reset(stages, required.size());
  const auto limit = static_cast<std::uint32_t>(forward_packs);
  std::uint32_t ahead = 0;  // of the backward pack's own number, on the last stage
  for (std::size_t k = 0; k < required.size(); ++k) {
    const auto own = static_cast<std::uint32_t>(k);
    ahead = std::max(ahead, std::max(required[k], own) - own);
    for (std::size_t behind = 0; behind <= std::min(k, stages - 1); ++behind)
      leads(k - behind, stages - 1 - behind) = std::min(limit, own + ahead);
  }
  for (std::size_t k = required.size() < stages ? 0 : required.size() + 1 - stages; k < required.size();
       ++k) {
    for (std::size_t s = 0; s + required.size() < stages + k; ++s) leads(k, s) = limit;
  }
}

/// Calls `visit(Task)` for the tasks of stage `s` in their order; packs are numbered from 0 in each pass.
template <class Visit>
void for_each_task(const LeadTable& leads, std::size_t s, Visit&& visit) {
  const std::size_t packs = leads.backward_packs();
  std::uint32_t forward = 0;
  for (std::size_t k = 0; k < packs; ++k) {
    for (const std::uint32_t lead = leads(k, s); forward < lead; ++forward)
      visit(Task{Pass::forward, forward});
    visit(Task{Pass::backward, static_cast<PackId>(k)});
  }
}

/// Tokens that packs bring into a stage's memory and take out of it, as sums over the packs before each
/// index. Real numbers, because a member of a merged pack holds a part of its tokens.
struct TokenFlow {
  std::vector<double> forward;   ///< [forward packs + 1] tokens of the forward packs before
  std::vector<double> backward;  ///< [backward packs + 1] tokens of the backward packs before
  std::vector<double> started;   ///< [backward packs + 1] tokens of samples whose backward has begun before

  void clear() {
    forward.assign(1, 0.0);
    backward.assign(1, 0.0);
    started.assign(1, 0.0);
  }
  /// Tokens whose activations are held when backward pack `k` runs after `n` forward packs.
  [[nodiscard]] double live(std::size_t n, std::size_t k) const { return forward[n] - backward[k]; }
  /// Tokens whose KV gradients are held while backward pack `k` runs.
  [[nodiscard]] double kv_gradients(std::size_t k) const { return started[k + 1] - backward[k]; }
};

/// What a stage has and what it pays per token.
struct StageMemory {
  double available = 0.0;    ///< bytes left beside everything static and the largest workspace
  double activation = 0.0;   ///< bytes per live token
  double kv_gradient = 0.0;  ///< bytes per token with KV gradients
  friend bool operator==(const StageMemory&, const StageMemory&) = default;
};

/// Most forward packs that stage `s` > 0 may run before backward pack `k` if the stage before has to stay ahead of
/// it: else each pack would wait for the one before to come back.
[[nodiscard]] inline std::uint32_t most_behind(const LeadTable& leads, std::size_t k, std::size_t s,
                                               std::uint32_t forward_packs) {
  const bool all_done = leads(k, s - 1) == forward_packs && (k == 0 || leads(k - 1, s - 1) == forward_packs);
  return all_done ? forward_packs : leads(k, s - 1) - 1;
}

/// For every backward pack, how many forward packs memory lets a stage have run when it begins; -1 where not even none.
/// O(backward packs + forward packs) as a rule.
inline void fitting_leads(const TokenFlow& flow, const StageMemory& memory,
                          std::vector<std::int32_t>& fitting) {
  const auto forward_packs = static_cast<std::int32_t>(flow.forward.size() - 1);
  fitting.resize(flow.backward.size() - 1);
  std::int32_t n = forward_packs;
  for (std::size_t k = fitting.size(); k-- > 0;) {
    const double budget = memory.available - memory.kv_gradient * flow.kv_gradients(k);
    const auto fits = [&](std::int32_t lead) {
      return memory.activation * flow.live(static_cast<std::size_t>(lead), k) <= budget;
    };
    while (n < forward_packs && fits(n + 1)) ++n;
    while (n >= 0 && !fits(n)) --n;
    fitting[k] = n;
  }
}

/// Lowers the counts of stage `s` in PackFlow's table to what its memory allows and to what keeps the stage before
/// ahead, as far as backward packs don't need them. Stages have to be limited in order from the first.
/// @param fitting as of `fitting_leads`. @returns whether the stage fits at all. O(backward packs).
inline bool limit_leads(std::span<const std::int32_t> fitting, std::uint32_t forward_packs,
                        std::span<const std::uint32_t> required, std::size_t s, LeadTable& leads) {
  auto n = static_cast<std::int32_t>(forward_packs);
  bool fits = true;
  for (std::size_t k = required.size(); k-- > 0;) {
    const auto least = static_cast<std::int32_t>(required[k]);
    n = std::min({n, static_cast<std::int32_t>(leads(k, s)), fitting[k]});
    if (s > 0) n = std::min(n, static_cast<std::int32_t>(most_behind(leads, k, s, forward_packs)));
    n = std::max(n, least);
    fits = fits && n <= fitting[k];
    leads(k, s) = static_cast<std::uint32_t>(n);
  }
  return fits;
}

/// Most tokens with KV gradients; the same on all stages.
[[nodiscard]] inline double peak_kv_gradients(const TokenFlow& flow) {
  double peak = 0.0;
  for (std::size_t k = 0; k + 1 < flow.backward.size(); ++k) peak = std::max(peak, flow.kv_gradients(k));
  return peak;
}

/// Most live tokens on stage `s`.
[[nodiscard]] inline double peak_live(const TokenFlow& flow, const LeadTable& leads, std::size_t s) {
  double peak = 0.0;
  for (std::size_t k = 0; k < leads.backward_packs(); ++k) peak = std::max(peak, flow.live(leads(k, s), k));
  return peak;
}

}  // namespace slimpack
