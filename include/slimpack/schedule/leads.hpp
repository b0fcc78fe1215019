#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/slicing/pack_rows.hpp"

namespace slimpack {

/// The order of all stages of some pipelines in one table: how many rows of forward packs a stage has run when it begins
/// each row of backward packs. Rows run in their order on every stage, so these counts are the whole order. Pipelines
/// that share packs obey one table, so that they agree on the order of what they share. A table whose counts never
/// fall, neither from one backward row to the next nor from a stage to the one before it, can't deadlock.
class LeadTable {
 public:
  void reset(std::size_t stages, std::size_t backward_rows) {
    stages_ = stages;
    backward_rows_ = backward_rows;
    counts_.assign(stages * backward_rows, 0);
  }
  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] std::size_t backward_rows() const { return backward_rows_; }

  /// Forward rows that stage `s` runs before backward row `k`.
  [[nodiscard]] std::uint32_t operator()(std::size_t k, std::size_t s) const {
    return counts_[k * stages_ + s];
  }
  [[nodiscard]] std::uint32_t& operator()(std::size_t k, std::size_t s) { return counts_[k * stages_ + s]; }
  friend bool operator==(const LeadTable&, const LeadTable&) = default;

 private:
  std::size_t stages_ = 0, backward_rows_ = 0;
  std::vector<std::uint32_t> counts_;  // [backward row][stage]
};

/// For every backward row, how many forward rows have to be done before it may start on the last stage: those that hold
/// a part of its samples, or of the samples of an earlier row. The last backward row waits for all forward rows.
/// @param lengths of all samples. @param ended scratch, one number per sample. O(slices).
inline void required_rows(std::span<const Tokens> lengths, const PackRows& forward, const PackRows& backward,
                          std::vector<std::uint32_t>& ended, std::vector<std::uint32_t>& required) {
  ended.resize(lengths.size());
  for (std::size_t r = 0; r < forward.rows.size(); ++r) {
    for (const PackId pack : forward.rows[r]) {
      for (const Slice& slice : forward.packs[pack]) {
        if (slice.end == lengths[slice.sample]) ended[slice.sample] = static_cast<std::uint32_t>(r + 1);
      }
    }
  }
  required.clear();
  std::uint32_t most = 0;
  for (std::size_t k = 0; k < backward.rows.size(); ++k) {
    for (const PackId pack : backward.rows[k]) {
      for (const Slice& slice : backward.packs[pack]) most = std::max(most, ended[slice.sample]);
    }
    required.push_back(most);
  }
  if (!required.empty()) required.back() = static_cast<std::uint32_t>(forward.rows.size());
}

/// Rows that stages hold at their backward rows, summed over both: forward rows that have begun, less backward rows
/// that have ended. O(backward rows * stages).
[[nodiscard]] inline std::size_t held_rows(const LeadTable& leads) {
  std::size_t sum = 0;
  for (std::size_t k = 0; k < leads.backward_rows(); ++k) {
    for (std::size_t s = 0; s < leads.stages(); ++s) sum += leads(k, s) > k ? leads(k, s) - k : 0;
  }
  return sum;
}

/// GPipe: every stage runs all forward rows first. O(backward rows * stages).
inline void gpipe_leads(std::size_t forward_rows, std::size_t backward_rows, std::size_t stages,
                        LeadTable& leads) {
  leads.reset(stages, backward_rows);
  for (std::size_t k = 0; k < backward_rows; ++k) {
    for (std::size_t s = 0; s < stages; ++s) leads(k, s) = static_cast<std::uint32_t>(forward_rows);
  }
}

/// Forward rows that the last stage has to be ahead of backward row `k`'s own number.
[[nodiscard]] inline std::uint32_t wait_of(std::span<const std::uint32_t> required, std::size_t k) {
  const auto own = static_cast<std::uint32_t>(k);
  return std::max(required[k], own) - own;
}

/// PackFlow (SlimPack, section 4.2). On the last stage the first backward row starts as soon as its samples are done.
/// From then on forward and backward rows alternate; where the next backward row is not ready, extra forward rows are
/// injected. A stage that is ahead stays ahead. If it fell back, each long sample that takes more forward than backward
/// packs would bring a run of backward rows followed by a run of forward rows, for which other stages wait. A stage
/// before the last runs ahead as in 1F1B, by as many backward rows as there are stages after it: `leads(k, s) = leads(k
/// + 1, s + 1)`. Plain 1F1B is the case `required[k] = k + 1`. O(backward rows * stages).
/// @param ahead forward rows that the last stage runs at least before the first backward row.
/// @param step backward rows by which a stage runs ahead of the next one. With 2, each stage has a row in stock while
/// it waits for the next one's, so that unequal rows hold up less, for twice the memory: the order of DynaPipe's cyclic
/// schedule (Jiang et al., EuroSys 2024, section 5), in which each stage runs one backward and one forward row in each
/// cycle.
inline void packflow_leads(std::span<const std::uint32_t> required, std::size_t forward_rows,
                           std::size_t stages, LeadTable& leads, std::uint32_t ahead = 0,
                           std::size_t step = 1) {
  const auto limit = static_cast<std::uint32_t>(forward_rows);
  leads.reset(stages, required.size());
  for (std::size_t k = 0; k < required.size(); ++k) {
    const auto own = static_cast<std::uint32_t>(k);
    ahead = std::max(ahead, wait_of(required, k));
    for (std::size_t before = 0; before < stages && step * before <= k; ++before)
      leads(k - step * before, stages - 1 - before) = std::min(limit, own + ahead);
  }
  for (std::size_t before = 0; before < stages; ++before) {
    const std::size_t left = required.size() - std::min(required.size(), step * before);
    for (std::size_t k = left; k < required.size(); ++k) leads(k, stages - 1 - before) = limit;
  }
}

/// The same without injection: forward and backward rows alternate from the first backward row to the last, so stages begin
/// with as many forward rows more as the row that waits longest needs. O(backward rows * stages).
inline void steady_leads(std::span<const std::uint32_t> required, std::size_t forward_rows,
                         std::size_t stages, LeadTable& leads) {
  std::uint32_t longest = 1;
  for (std::size_t k = 0; k < required.size(); ++k) longest = std::max(longest, wait_of(required, k));
  packflow_leads(required, forward_rows, stages, leads, longest);
}

/// Orders of units that run one after another: on each stage, a unit begins when all backward rows of the one before it
/// have ended. Forward and backward rows of a unit have the same numbers. The warm-up of a unit costs the time that a
/// forward and a backward pack take to pass all stages; in return, it is ahead by no more than its own samples need
/// (InfiniPipe, section 3.3.2).
/// @param ends of the units: rows up to each, ascending; the last is the number of rows of both passes.
/// @param make_leads as `packflow_leads(required, forward_rows, stages, leads)`. O(backward rows * stages).
template <class MakeLeads>
void unit_leads(std::span<const std::uint32_t> required, std::span<const std::uint32_t> ends,
                std::size_t stages, const MakeLeads& make_leads, LeadTable& leads) {
  leads.reset(stages, required.size());
  LeadTable unit;
  std::vector<std::uint32_t> own;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    own.clear();
    for (std::uint32_t k = begin; k < end; ++k) own.push_back(required[k] - begin);
    make_leads(own, end - begin, stages, unit);
    for (std::uint32_t k = begin; k < end; ++k) {
      for (std::size_t s = 0; s < stages; ++s) leads(k, s) = begin + unit(k - begin, s);
    }
    begin = end;
  }
}

/// Most forward rows that stage `s` > 0 may run before backward row `k` if the stage before has to stay ahead of it:
/// otherwise each row would wait for the one before it to come back.
[[nodiscard]] inline std::uint32_t most_after(const LeadTable& leads, std::size_t k, std::size_t s,
                                              std::uint32_t forward_rows) {
  const bool all_done = leads(k, s - 1) == forward_rows && (k == 0 || leads(k - 1, s - 1) == forward_rows);
  return all_done ? forward_rows : leads(k, s - 1) - 1;
}

/// Lowers the counts of stage `s` to what its memory allows and to what keeps the stage before it ahead, as far as
/// backward rows do not need them. Stages have to be limited in order, from the first.
/// @param fitting [backward row] most forward rows that memory holds; -1 where not even none fit.
/// @returns whether the stage fits. O(backward rows).
inline bool limit_leads(std::span<const std::int32_t> fitting, std::uint32_t forward_rows,
                        std::span<const std::uint32_t> required, std::size_t s, LeadTable& leads) {
  auto n = static_cast<std::int32_t>(forward_rows);
  bool fits = true;
  for (std::size_t k = required.size(); k-- > 0;) {
    const auto least = static_cast<std::int32_t>(required[k]);
    n = std::min({n, static_cast<std::int32_t>(leads(k, s)), fitting[k]});
    if (s > 0) n = std::min(n, static_cast<std::int32_t>(most_after(leads, k, s, forward_rows)));
    n = std::max(n, least);
    fits = fits && n <= fitting[k];
    leads(k, s) = static_cast<std::uint32_t>(n);
  }
  return fits;
}

}  // namespace slimpack
