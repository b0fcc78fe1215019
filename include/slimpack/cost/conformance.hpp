#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/conformance_findings.hpp"
#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/polynomial.hpp"

namespace slimpack {

namespace detail {

/// Checks a function of slices: durations, nothing for an empty slice, growing, and no cheaper in parts than whole.
template <class Seconds>
void check_slices(const Seconds& seconds, std::string_view what, const RandomCuts& cuts, double tolerance,
                  Findings& findings) {
  const auto [low, middle, high] = std::tuple(cuts.low, cuts.middle, cuts.high);
  const double whole = seconds(low, high), head = seconds(low, middle), tail = seconds(middle, high);
  for (const auto& [begin, end, value] :
       {std::tuple(low, high, whole), std::tuple(low, middle, head), std::tuple(middle, high, tail)}) {
    findings.expect(value >= 0.0 && std::isfinite(value), "non-negative", what, " of [", begin, ", ", end,
                    ") is ", value);
  }
  const double empty = seconds(middle, middle), again = seconds(low, high);
  findings.expect(empty == 0.0, "empty", what, " of [", middle, ", ", middle, ") is ", empty, ", not 0");
  findings.expect(again == whole, "pure", what, " of [", low, ", ", high, ") is ", whole, " and then ",
                  again);
  const double slack = tolerance * whole;
  findings.expect(head <= whole + slack, "monotone", what, " of [", low, ", ", middle, ") is ", head,
                  ", more than the ", whole, " of [", low, ", ", high, ")");
  findings.expect(tail <= whole + slack, "monotone", what, " of [", middle, ", ", high, ") is ", tail,
                  ", more than the ", whole, " of [", low, ", ", high, ")");
  findings.expect(head + tail >= whole - slack, "split", what, " of [", low, ", ", middle, ") and [", middle,
                  ", ", high, ") is ", head + tail, " together, less than the ", whole, " of the whole");
}

/// Checks coefficients against the prices that they are of.
inline void check_polynomial(const SliceCoefficients& c, double seconds, Tokens begin, Tokens end,
                             std::string_view what, double tolerance, Findings& findings) {
  findings.expect(std::abs(c.seconds(begin, end) - seconds) <= 1e3 * tolerance * seconds, "polynomial", what,
                  " of [", begin, ", ", end, ") is ", seconds, ", but its coefficients give ",
                  c.seconds(begin, end));
}

template <CostModel M>
void check_stage(const M& cost, std::size_t s, Pass pass, const RandomCuts& cuts,
                 const ConformanceOptions& options, Findings& findings) {
  const std::string what = concat("slice_seconds on stage ", s, ", ", pass_text(pass), ",");
  const double tolerance = options.tolerance;
  const auto [begin, end] = std::pair(cuts.low, cuts.high);
  const double seconds = cost.slice_seconds(s, begin, end, pass);
  check_slices([&](Tokens b, Tokens e) { return double(cost.slice_seconds(s, b, e, pass)); }, what, cuts,
               tolerance, findings);
  if constexpr (PolynomialCostModel<M>) {
    if (cost.is_polynomial())
      check_polynomial(cost.coefficients(s, pass), seconds, begin, end, what, tolerance, findings);
  }
  if constexpr (SeparableCostModel<M>) {
    const double other = cost.other_seconds(s, begin, end, pass);
    findings.expect(other >= -tolerance * seconds && other <= seconds * (1.0 + tolerance), "separable",
                    "other_seconds on stage ", s, ", ", pass_text(pass), ", of [", begin, ", ", end, ") is ",
                    other, ", outside of 0 to the ", seconds, " of the slice");
    const double one = cost.attention_seconds(s, pass, 1.0), three = cost.attention_seconds(s, pass, 3.0);
    findings.expect(one >= 0.0 && std::abs(three - 3.0 * one) <= tolerance * three, "separable",
                    "attention_seconds on stage ", s, ", ", pass_text(pass), ", is ", one, " for 1 s and ",
                    three, " for 3 s of a layer: not linear");
  }
  if constexpr (ExchangingCostModel<M>) {
    double least = -1.0;
    for (const KeyExchange e : key_exchanges) {
      if (!cost.exchanges().contains(e)) continue;
      const double way = cost.with_exchange(e).slice_seconds(s, begin, end, pass);
      if (least < 0.0 || way < least) least = way;
    }
    findings.expect(std::abs(least - seconds) <= tolerance * seconds, "exchange", what, " of [", begin, ", ",
                    end, ") is ", seconds, ", but the cheapest way to exchange takes ", least);
  }
}

/// Checks `pipeline_seconds`, `add_slice_seconds` and `add_sample_seconds`, where a model has them, against the stages'
/// own prices.
template <CostModel M>
void check_rows(const M& cost, Pass pass, const RandomCuts& cuts, const ConformanceOptions& options,
                Findings& findings) {
  const std::size_t stages = cost.stages();
  double sum = 0.0;
  for (std::size_t s = 0; s < stages; ++s) sum += cost.slice_seconds(s, cuts.low, cuts.high, pass);
  if constexpr (requires { cost.pipeline_seconds(cuts.low, cuts.high, pass); }) {
    const double all = cost.pipeline_seconds(cuts.low, cuts.high, pass);
    findings.expect(std::abs(all - sum) <= options.tolerance * sum, "rows", "pipeline_seconds, ",
                    pass_text(pass), ", of [", cuts.low, ", ", cuts.high, ") is ", all,
                    ", but its stages take ", sum);
  }
  std::vector<double> row(stages, 1.0);
  if constexpr (requires { cost.add_slice_seconds(cuts.low, cuts.high, pass, std::span<double>(row)); }) {
    cost.add_slice_seconds(cuts.low, cuts.high, pass, std::span<double>(row));
    for (std::size_t s = 0; s < stages; ++s) {
      const double own = 1.0 + cost.slice_seconds(s, cuts.low, cuts.high, pass);
      findings.expect(std::abs(row[s] - own) <= options.tolerance * own, "rows", "add_slice_seconds, ",
                      pass_text(pass), ", of [", cuts.low, ", ", cuts.high, ") gives 1 + ", row[s] - 1.0,
                      " s on stage ", s, ", which takes ", own - 1.0);
    }
  }
  const Tokens both[] = {cuts.low, cuts.high};
  if constexpr (requires {
                  cost.add_sample_seconds(std::span<const Tokens>(both), pass, std::span<double>(row));
                }) {
    row.assign(stages, 1.0);
    cost.add_sample_seconds(std::span<const Tokens>(both), pass, std::span<double>(row));
    for (std::size_t s = 0; s < stages; ++s) {
      const double own =
          1.0 + cost.slice_seconds(s, 0, both[0], pass) + cost.slice_seconds(s, 0, both[1], pass);
      findings.expect(std::abs(row[s] - own) <= options.tolerance * own, "rows", "add_sample_seconds, ",
                      pass_text(pass), ", of ", both[0], " and ", both[1], " tokens gives 1 + ", row[s] - 1.0,
                      " s on stage ", s, ", where they take ", own - 1.0);
    }
  }
}

template <CostModel M>
void check_recompute(const M& cost, std::size_t s, const RandomCuts& cuts, const ConformanceOptions& options,
                     Findings& findings) {
  if constexpr (RecomputingCostModel<M>) {
    const std::string what = concat("recompute_seconds on stage ", s);
    check_slices([&](Tokens b, Tokens e) { return double(cost.recompute_seconds(s, b, e)); }, what, cuts,
                 options.tolerance, findings);
    const double seconds = cost.recompute_seconds(s, cuts.low, cuts.high);
    if constexpr (PolynomialCostModel<M>) {
      if (cost.is_polynomial()) {
        check_polynomial(cost.recompute_coefficients(s), seconds, cuts.low, cuts.high, what,
                         options.tolerance, findings);
      }
    }
    if constexpr (SeparableCostModel<M>) {
      const double other = cost.recompute_other_seconds(s, cuts.low, cuts.high);
      findings.expect(other >= -options.tolerance * seconds && other <= seconds * (1.0 + options.tolerance),
                      "separable", "recompute_other_seconds on stage ", s, " of [", cuts.low, ", ", cuts.high,
                      ") is ", other, ", outside of 0 to the ", seconds, " of the slice");
    }
    const double constant = recompute_pack_seconds(cost, s);
    findings.expect(constant >= 0.0 && std::isfinite(constant), "non-negative",
                    "recompute_pack_seconds on stage ", s, " is ", constant);
  }
}

template <CostModel M>
void check_offload(const M& cost, std::size_t s, Pass pass, const RandomCuts& cuts,
                   const ConformanceOptions& options, Findings& findings) {
  if constexpr (OffloadingCostModel<M>)
    check_slices([&](Tokens b, Tokens e) { return double(cost.offload_seconds(s, e - b, pass)); },
                 concat("offload_seconds on stage ", s, ", ", pass_text(pass), ","), cuts, options.tolerance,
                 findings);
}

template <CostModel M>
void check_transfers(const M& cost, std::mt19937& random, const ConformanceOptions& options,
                     Findings& findings) {
  for (std::size_t s = 0; s + 1 < cost.stages(); ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const RandomCuts cuts(random, options.longest);
      const double few = cost.transfer_seconds(s, cuts.middle, pass),
                   many = cost.transfer_seconds(s, cuts.high, pass);
      findings.expect(few >= 0.0 && std::isfinite(few), "non-negative", "transfer_seconds after stage ", s,
                      ", ", pass_text(pass), ", of ", cuts.middle, " tokens is ", few);
      findings.expect(many >= few * (1.0 - options.tolerance), "transfers", "transfer_seconds after stage ",
                      s, ", ", pass_text(pass), ", of ", cuts.high, " tokens is ", many, ", less than the ",
                      few, " of ", cuts.middle);
    }
  }
}

/// Checks what a member of a group of pipelines takes for a range of tokens against what one pipeline takes alone.
/// @param priced what that is: a function of the model, and where.
inline void check_member(std::int32_t group, double alone, double member, std::string_view priced,
                         const ConformanceOptions& options, Findings& findings) {
  findings.expect(member >= 0.0 && std::isfinite(member), "non-negative", priced, " with ", group,
                  " members is ", member);
  if (group == 1) {
    findings.expect(member == alone, "merging", priced, " is ", alone, ", but ", member,
                    " with a group of one pipeline");
  } else if (!options.merging_may_save_work) {
    findings.expect(group * member >= alone * (1.0 - options.tolerance), "merging", group,
                    " members together take ", group * member, " s, one pipeline alone ", alone, ": ",
                    priced);
  }
}

/// Checks packs of `group` pipelines against those of one.
template <MergeableCostModel M>
void check_merged(const M& cost, std::int32_t group, std::mt19937& random, const ConformanceOptions& options,
                  Findings& findings) {
  const M merged = cost.with_context_parallel(group);
  findings.expect(merged.stages() == cost.stages(), "merging", group, " pipelines have ", merged.stages(),
                  " stages, one has ", cost.stages());
  if (merged.stages() != cost.stages()) return;
  for (std::size_t s = 0; s < cost.stages(); ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const RandomCuts cuts(random, options.longest);
      check_member(group, cost.slice_seconds(s, cuts.low, cuts.high, pass),
                   merged.slice_seconds(s, cuts.low, cuts.high, pass),
                   concat("slice_seconds on stage ", s, ", ", pass_text(pass), ", of [", cuts.low, ", ",
                          cuts.high, ")"),
                   options, findings);
    }
    if constexpr (RecomputingCostModel<M>) {
      const RandomCuts cuts(random, options.longest);
      check_member(group, cost.recompute_seconds(s, cuts.low, cuts.high),
                   merged.recompute_seconds(s, cuts.low, cuts.high),
                   concat("recompute_seconds on stage ", s, " of [", cuts.low, ", ", cuts.high, ")"), options,
                   findings);
    }
  }
}

/// Everything that does not depend on merging.
template <CostModel M>
void check_prices(const M& cost, std::mt19937& random, const ConformanceOptions& options,
                  Findings& findings) {
  for (const Pass pass : {Pass::forward, Pass::backward})
    check_rows(cost, pass, RandomCuts(random, options.longest), options, findings);
  for (std::size_t s = 0; s < cost.stages(); ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const double constant = cost.pack_seconds(s, pass);
      findings.expect(constant >= 0.0 && std::isfinite(constant), "non-negative", "pack_seconds on stage ", s,
                      ", ", pass_text(pass), ", is ", constant);
      check_stage(cost, s, pass, RandomCuts(random, options.longest), options, findings);
    }
    check_recompute(cost, s, RandomCuts(random, options.longest), options, findings);
    for (const Pass pass : {Pass::forward, Pass::backward})
      check_offload(cost, s, pass, RandomCuts(random, options.longest), options, findings);
  }
  check_transfers(cost, random, options, findings);
}

}  // namespace detail

/// Examines a cost model with random slices, for its author's own tests:
///
///     for (const std::string& violation : slimpack::check_cost_model(MyCost{})) FAIL(violation);
///
/// A violation begins with the property that does not hold:
/// - `stages`: there is at least one, and `layers()` has a number for each.
/// - `non-negative`: all seconds are finite and not negative.
/// - `empty`: a slice without tokens takes no time.
/// - `pure`: the same slice takes the same time twice.
/// - `monotone`: a slice takes no more than a longer one of which it is a part.
/// - `split`: the parts of a slice take no less than the whole.
/// - `transfers`: more tokens take no less.
/// - `rows`: `pipeline_seconds`, `add_slice_seconds` and `add_sample_seconds`, if there are any, are those of the stages.
/// - `polynomial`: `coefficients` and `recompute_coefficients` give the prices that they are of.
/// - `separable`: what is not attention is a part of the whole, and attention is linear in a layer's.
/// - `exchange`: a slice takes the cheapest way to exchange keys.
/// - `merging`: a group of one takes what a pipeline does alone, and larger groups no less work together (unless
///   `merging_may_save_work`).
/// All but `stages` are also checked of merged packs; what is said of slices, of recomputed layers as well.
/// @returns one sentence for each property that is violated, with the numbers; empty if all hold.
/// Complexity: O(trials * stages * groups) prices.
template <CostModel M>
[[nodiscard]] std::vector<std::string> check_cost_model(const M& cost,
                                                        const ConformanceOptions& options = {}) {
  detail::Findings findings(options.seed);
  std::mt19937 random(options.seed);
  findings.expect(cost.stages() > 0, "stages", "there are none");
  if constexpr (LayeredCostModel<M>) {
    const auto& held = cost.layers();  // which may be a list by value
    const std::span<const std::int32_t> layers(held);
    findings.expect(layers.size() == cost.stages(), "stages", "layers() has ", layers.size(), " numbers for ",
                    cost.stages(), " stages");
  }
  const double sync = sync_seconds(cost);
  findings.expect(sync >= 0.0 && std::isfinite(sync), "non-negative", "sync_seconds is ", sync);
  for (int trial = 0; trial < options.trials; ++trial) {
    detail::check_prices(cost, random, options, findings);
    if constexpr (MergeableCostModel<M>) {
      findings.expect(cost.supports_context_parallel(1), "merging",
                      "a group of one pipeline is not supported");
      detail::check_merged(cost, 1, random, options, findings);
      for (const std::int32_t group : options.groups) {
        if (!cost.supports_context_parallel(group)) continue;
        detail::check_merged(cost, group, random, options, findings);
        detail::check_prices(cost.with_context_parallel(group), random, options, findings);
      }
    }
  }
  return findings.take();
}

}  // namespace slimpack
