#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// A scheme as the proposal sees it.
struct ProposalScheme {
  std::int64_t ranks = 1;       ///< devices of one pipeline: N(P)
  Tokens max_tokens = 0;        ///< of one sample: MaxLen(P)
  std::vector<double> seconds;  ///< [interval] T(x, P) of all samples in it together
};

struct ProposalOptions {
  /// Steps of devices and of pipelines in one: devices / steps is the finest part of a device, 1 / steps that of a pipeline.
  /// More than 1: continuous relaxation.
  std::int64_t steps = 10;
};

/// The best strategy for samples up to some length, whose pipelines may be parts.
struct ProposedStrategy {
  double seconds =
      std::numeric_limits<double>::infinity();  ///< t[N][L]; infinite: some sample fits no scheme
  std::vector<std::int64_t> steps;              ///< [scheme] pipelines times `ProposalOptions::steps`
};

namespace detail {

/// The dynamic program turned round: for a time T, the fewest devices with which samples up to each length take no longer. A
/// time suffices for a length if these are no more than there are, and the least such time is t[N][L]. So one table over lengths
/// answers what Eq. 4's table over devices and lengths does.
class ProposalProgram {
 public:
  ProposalProgram(std::span<const ProposalScheme> schemes, std::span<const Tokens> ends, std::int64_t devices,
                  const ProposalOptions& options)
      : schemes_(schemes),
        ends_(ends),
        most_(devices * options.steps),
        steps_(options.steps),
        sums_(schemes.size(), std::vector<double>(ends.size() + 1, 0.0)),
        devices_(ends.size() + 1, 0),
        from_(ends.size() + 1, 0),
        scheme_(ends.size() + 1, 0) {
    for (std::size_t k = 0; k < schemes.size(); ++k) {
      for (std::size_t l = 0; l < ends.size(); ++l) sums_[k][l + 1] = sums_[k][l] + schemes[k].seconds[l];
      bool needed = true;
      for (std::size_t j = 0; needed && j < schemes.size(); ++j) needed = j == k || !replaces(j, k);
      if (needed) useful_.push_back(k);
    }
  }

  /// t[N][L] and a strategy for each interval's end as L.
  [[nodiscard]] std::vector<ProposedStrategy> run() {
    std::vector<ProposedStrategy> out;
    double low = 0.0, step = 0.0;
    for (std::size_t l = 1; l <= ends_.size(); ++l) {
      out.push_back(least(l, low, step));
      step = out.back().seconds - low;
      low = out.back().seconds;
    }
    return out;
  }

 private:
  /// The least time for the first `l` intervals, none below `low`, which is that for fewer. @param step above that, about.
  [[nodiscard]] ProposedStrategy least(std::size_t l, double low, double step) {
    ProposedStrategy best;
    const double all = sum_at_most(l);
    if (low == infinite || !held(l)) return best;
    if (all == 0.0) return without_work(l);
    double high = low > 0.0 ? low : all / static_cast<double>(most_);
    for (double wider = std::max(2.0 * step, high * 1e-6); !needs(high, l); high = low + wider, wider *= 4.0)
      low = std::max(low, high);
    best = taken(l);
    while (best.seconds > low * (1.0 + precision)) {
      const double middle = low + (best.seconds - low) / 2.0;
      if (middle <= low || middle >= best.seconds) break;
      if (needs(middle, l)) {
        ProposedStrategy found = taken(l);
        if (found.seconds >= best.seconds) break;
        best = std::move(found);
      } else {
        low = middle;
      }
    }
    return best;
  }

  [[nodiscard]] bool holds(std::size_t k, std::size_t l) const {
    return schemes_[k].max_tokens >= ends_[l - 1] && schemes_[k].ranks <= most_;
  }
  [[nodiscard]] bool held(std::size_t l) const {
    return std::any_of(useful_.begin(), useful_.end(), [&](std::size_t k) { return holds(k, l); });
  }
  /// A step of any scheme that holds the intervals, which have no samples.
  [[nodiscard]] ProposedStrategy without_work(std::size_t l) const {
    ProposedStrategy out{.seconds = 0.0, .steps = std::vector<std::int64_t>(schemes_.size(), 0)};
    const auto any = std::find_if(useful_.begin(), useful_.end(), [&](std::size_t k) { return holds(k, l); });
    out.steps[*any] = 1;
    return out;
  }

  /// Whether scheme `j` replaces scheme `k`: a whole number of its pipelines takes the devices of one of the other's,
  /// holds as long samples, and together takes no longer for any of them.
  [[nodiscard]] bool replaces(std::size_t j, std::size_t k) const {
    const ProposalScheme &own = schemes_[j], &other = schemes_[k];
    if (other.ranks % own.ranks != 0 || own.max_tokens < other.max_tokens) return false;
    const std::int64_t pipelines = other.ranks / own.ranks;
    const auto times = static_cast<double>(pipelines);
    bool same = times == 1.0 && own.max_tokens == other.max_tokens;
    for (std::size_t l = 0; l < ends_.size(); ++l) {
      const double mine = own.seconds[l], theirs = times * other.seconds[l];
      if (ends_[l] <= other.max_tokens && mine > theirs) return false;
      same = same && mine == theirs;
    }
    return !same || j < k;
  }
  [[nodiscard]] double sum_at_most(std::size_t l) const {
    double most = 0.0;
    for (const std::vector<double>& sums : sums_) most = std::max(most, sums[l]);
    return most;
  }

  /// Fewest steps of devices with which the first intervals take at most `seconds`, for all of them up to `l`.
  /// @returns whether there are so many.
  [[nodiscard]] bool needs(double seconds, std::size_t l) {
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    if (seconds <= 0.0) return false;
    // Rounding must not ask for a step more than seconds that are a latency themselves.
    const double per_second = static_cast<double>(steps_) / seconds * (1.0 - 1e-14);
    const auto most = static_cast<double>(most_);
    for (std::size_t end = 1; end <= l; ++end) {
      std::int64_t& fewest = devices_[end];
      fewest = never;
      for (const std::size_t k : useful_) {
        const std::int64_t ranks = schemes_[k].ranks;
        if (schemes_[k].max_tokens < ends_[end - 1]) continue;
        const double* const sums = sums_[k].data();
        for (std::size_t begin = end; begin-- > 0;) {
          const double exact = (sums[end] - sums[begin]) * per_second;
          if (exact > most) break;
          auto pipelines = static_cast<std::int64_t>(exact);
          pipelines = std::max<std::int64_t>(1, pipelines + (static_cast<double>(pipelines) < exact ? 1 : 0));
          const std::int64_t own = pipelines * ranks;
          if (own >= fewest) break;  // longer intervals need no fewer
          if (devices_[begin] + own >= fewest) continue;
          fewest = devices_[begin] + own;
          from_[end] = begin;
          scheme_[end] = k;
        }
      }
      if (fewest > most_) return false;  // nor do more intervals
    }
    return true;
  }

  [[nodiscard]] double latency(double work, std::int64_t d) const {
    return work / (static_cast<double>(d) / static_cast<double>(steps_));
  }

  /// What the last call of `needs` found for the first `l` intervals.
  [[nodiscard]] ProposedStrategy taken(std::size_t l) const {
    ProposedStrategy out{.seconds = 0.0, .steps = std::vector<std::int64_t>(schemes_.size(), 0)};
    for (std::size_t end = l; end > 0; end = from_[end]) {
      const std::size_t k = scheme_[end];
      const double work = sums_[k][end] - sums_[k][from_[end]];
      const std::int64_t d = (devices_[end] - devices_[from_[end]]) / schemes_[k].ranks;
      out.steps[k] += d;
      out.seconds = std::max(out.seconds, latency(work, d));
    }
    return out;
  }

  static constexpr double infinite = std::numeric_limits<double>::infinity();
  static constexpr double precision = 1e-12;

  std::span<const ProposalScheme> schemes_;
  std::span<const Tokens> ends_;
  std::int64_t most_, steps_;              // steps of devices; steps of one
  std::vector<std::size_t> useful_;        // schemes that no other one replaces
  std::vector<std::vector<double>> sums_;  // [scheme][interval] seconds before it
  std::vector<std::int64_t> devices_;      // [intervals] steps
  std::vector<std::size_t> from_, scheme_;
};

}  // namespace detail

/// The strategies that Hydraulis' dynamic program finds, one for each length up to which samples may be sampled:
/// t[N][L] of Eq. 4 and S[N][L] for all L, with parts of pipelines where `steps` is more than 1.
/// @param ends ascending, of intervals of lengths, each of which begins after the one before.
/// @throws InvalidInput if there is no scheme or no device, intervals are empty, or seconds are missing or not finite.
/// Source: Hydraulis, section 7. O(log(precision) * intervals³ * schemes) at most; memory O(intervals * schemes).
[[nodiscard]] inline std::vector<ProposedStrategy> propose_strategies(std::span<const ProposalScheme> schemes,
                                                                      std::span<const Tokens> ends,
                                                                      std::int64_t devices,
                                                                      const ProposalOptions& options = {}) {
  require(!schemes.empty(), "there are no schemes; expected at least one");
  require(devices > 0, "the number of devices is ", devices, "; expected a positive number");
  require(options.steps > 0 && devices <= (std::int64_t{1} << 40) / options.steps, "steps is ", options.steps,
          "; expected a positive number, below 2^40 over the devices");
  for (std::size_t l = 0; l < ends.size(); ++l) {
    const Tokens begin = l == 0 ? 0 : ends[l - 1];
    require(ends[l] > begin, "interval ", l, " ends at ", ends[l], " tokens; expected more than the ", begin,
            " where it begins");
  }
  for (std::size_t k = 0; k < schemes.size(); ++k) {
    require(schemes[k].ranks > 0, "scheme ", k, " has ", schemes[k].ranks, " ranks; expected at least one");
    require(schemes[k].seconds.size() == ends.size(), "scheme ", k, " has seconds of ",
            schemes[k].seconds.size(), " intervals; expected ", ends.size());
    for (std::size_t l = 0; l < ends.size(); ++l) {
      const double s = schemes[k].seconds[l];
      require(s >= 0.0 && std::isfinite(s), "scheme ", k, " takes ", s, " seconds for interval ", l,
              "; expected zero or a positive number");
    }
  }
  return detail::ProposalProgram(schemes, ends, devices, options).run();
}

}  // namespace slimpack
