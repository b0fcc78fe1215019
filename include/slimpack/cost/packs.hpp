#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/inverse.hpp"

namespace slimpack {

/// A cost model that prices a slice on all stages at once, for less than one stage after another:
/// `add_slice_seconds` adds `slice_seconds` of stage s to `seconds[s]`.
template <class M>
concept RowCostModel = CostModel<M> &&
    requires(const M& m, Tokens begin, Tokens end, Pass pass, std::span<double> seconds) {
  m.add_slice_seconds(begin, end, pass, seconds);
};

namespace detail {

/// Adds a slice's time on every stage to `seconds`, for any model.
template <CostModel M>
void add_slice_seconds(const M& cost, Tokens begin, Tokens end, Pass pass, std::span<double> seconds) {
  if constexpr (RowCostModel<M>) {
    cost.add_slice_seconds(begin, end, pass, seconds);
  } else {
    for (std::size_t s = 0; s < seconds.size(); ++s) seconds[s] += cost.slice_seconds(s, begin, end, pass);
  }
}

/// The stages' rates of a quadratic model, side by side.
struct StageRates {
  std::vector<double> pack, per_token, per_twice_pair;

  template <CostModel M>
  StageRates(const M& cost, Pass pass) {
    for (std::size_t s = 0; s < cost.stages(); ++s) {
      const SliceCoefficients c = cost.coefficients(s, pass);
      pack.push_back(cost.pack_seconds(s, pass));
      per_token.push_back(c.per_token);
      per_twice_pair.push_back(c.per_twice_pair);
    }
  }

  /// Fills `row`, one number per stage.
  void price(std::span<const Slice> slices, Tokens tokens, double* row) const {
    double pairs = 0.0;
    for (const Slice& slice : slices) pairs += twice_causal_pairs(slice.begin, slice.end);
    const auto n = static_cast<double>(tokens);
    for (std::size_t s = 0; s < pack.size(); ++s)
      row[s] = pack[s] + per_token[s] * n + per_twice_pair[s] * pairs;
  }
};

}  // namespace detail

/// Durations of packs on every stage: the sum over the slices plus the constant of a pack.
/// @param[out] seconds appended, `cost.stages()` numbers per pack. @param[out] transfer appended, one per
/// pack. O(slices + packs * stages) for a quadratic model, else O((slices + packs) * stages).
template <CostModel M>
void append_pack_times(const Packs& packs, const M& cost, Pass pass, std::vector<double>& seconds,
                       std::vector<double>& transfer) {
  const std::size_t stages = cost.stages();
  seconds.resize(seconds.size() + packs.size() * stages);
  transfer.resize(transfer.size() + packs.size());
  double* row = seconds.data() + seconds.size() - packs.size() * stages;
  double* until_next = transfer.data() + transfer.size() - packs.size();
  const auto for_each_pack = [&](const auto& price) {
    for (std::size_t k = 0; k < packs.size(); ++k, row += stages) {
      const std::span<const Slice> slices = packs[k];
      const Tokens tokens = count_tokens(slices);
      *until_next++ = cost.transfer_seconds(tokens, pass);
      price(slices, tokens);
    }
  };
  if constexpr (QuadraticCostModel<M>) {
    if (cost.is_quadratic()) {
      const detail::StageRates rates(cost, pass);
      for_each_pack([&](std::span<const Slice> slices, Tokens tokens) { rates.price(slices, tokens, row); });
      return;
    }
  }
  for_each_pack([&](std::span<const Slice> slices, Tokens) {
    for (std::size_t s = 0; s < stages; ++s) row[s] = cost.pack_seconds(s, pass);
    for (const Slice& slice : slices)
      detail::add_slice_seconds(cost, slice.begin, slice.end, pass, {row, stages});
  });
}

/// Adds the work of whole samples, both passes, to `seconds`, one number per stage; no pack's constants.
/// O(samples + stages) for a quadratic model, else O(samples * stages).
template <CostModel M>
void add_sample_seconds(const M& cost, std::span<const Tokens> lengths, std::span<double> seconds) {
  if constexpr (QuadraticCostModel<M>) {
    if (cost.is_quadratic()) {
      Tokens tokens = 0;
      double twice_pairs = 0.0;
      for (const Tokens length : lengths) {
        tokens += length;
        twice_pairs += twice_causal_pairs(0, length);
      }
      for (std::size_t s = 0; s < seconds.size(); ++s) {
        for (const Pass pass : {Pass::forward, Pass::backward})
          seconds[s] += cost.coefficients(s, pass).seconds_of_sums(tokens, twice_pairs);
      }
      return;
    }
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const Tokens length : lengths) detail::add_slice_seconds(cost, 0, length, pass, seconds);
  }
}

}  // namespace slimpack
