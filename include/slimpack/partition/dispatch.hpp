#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// Pipelines that are alike.
struct PipelineKind {
  Tokens max_tokens = 0;  ///< of one micro-batch, and so of one sample: MaxLen(P)
  std::size_t stages = 1;
  std::size_t pipelines = 1;  ///< how many of them there are; 0 is allowed
};

/// Which pipeline runs which sample: the samples and the kinds of pipelines. The lists have to outlive it.
/// Pipelines are numbered kind after kind.
struct DispatchProblem {
  std::span<const Tokens> lengths = {};  ///< of the samples
  std::span<const PipelineKind> kinds = {};
  /// [kind][sample], flat: T(l, P), of one stage, forward plus backward. What a kind does not hold is not read.
  std::span<const double> seconds = {};

  [[nodiscard]] double seconds_on(std::size_t kind, std::size_t sample) const {
    return seconds[kind * lengths.size() + sample];
  }
  [[nodiscard]] bool holds(std::size_t kind, std::size_t sample) const {
    return kinds[kind].pipelines > 0 && lengths[sample] <= kinds[kind].max_tokens;
  }
  /// Eq. 2's PP(P) - 1.
  [[nodiscard]] double other_stages(std::size_t kind) const {
    return static_cast<double>(kinds[kind].stages - 1);
  }
  [[nodiscard]] std::size_t pipelines() const {
    std::size_t sum = 0;
    for (const PipelineKind& kind : kinds) sum += kind.pipelines;
    return sum;
  }
};

/// Samples on pipelines.
struct Dispatch {
  std::vector<PipelineId> pipeline;  ///< [sample]
  std::vector<double> seconds;       ///< [pipeline] lower bound of Eq. 2

  /// Eq. 3's objective.
  [[nodiscard]] double makespan() const {
    return seconds.empty() ? 0.0 : *std::max_element(seconds.begin(), seconds.end());
  }
};

/// T(l, P) of every kind and sample, as `DispatchProblem::seconds` wants it; 0 where the kind does not hold the
/// sample. @param price seconds of a kind's number and a length.
template <class Price>
  requires std::convertible_to < std::invoke_result_t<Price&, std::size_t, Tokens>,
double > [[nodiscard]] std::vector<double> dispatch_seconds(std::span<const Tokens> lengths,
                                                            std::span<const PipelineKind> kinds,
                                                            Price&& price) {
  std::vector<double> seconds;
  seconds.reserve(kinds.size() * lengths.size());
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    for (const Tokens length : lengths)
      seconds.push_back(length <= kinds[k].max_tokens ? static_cast<double>(price(k, length)) : 0.0);
  }
  return seconds;
}

namespace detail {

inline void check_kinds(const DispatchProblem& problem) {
  const std::size_t samples = problem.lengths.size();
  require(problem.pipelines() >= 1, "0 pipelines in ", problem.kinds.size(),
          " kinds; expected at least 1 pipeline");
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  require(samples <= most && problem.pipelines() <= most, samples, " samples and ", problem.pipelines(),
          " pipelines; expected at most ", most);
  require(problem.seconds.size() == problem.kinds.size() * samples, problem.seconds.size(), " seconds of ",
          problem.kinds.size(), " kinds and ", samples, " samples; expected one for each kind and sample");
  for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
    require(problem.kinds[k].stages >= 1, "kind ", k, " has 0 stages; expected at least 1");
    require(problem.kinds[k].max_tokens >= 0, "kind ", k, " holds ", problem.kinds[k].max_tokens,
            " tokens; expected 0 or more");
  }
}

inline void check_lengths(const DispatchProblem& problem) {
  std::size_t widest = 0;
  for (std::size_t k = 1; k < problem.kinds.size(); ++k) {
    const PipelineKind &kind = problem.kinds[k], &best = problem.kinds[widest];
    if (kind.pipelines > 0 && (best.pipelines == 0 || kind.max_tokens > best.max_tokens)) widest = k;
  }
  const PipelineKind& best = problem.kinds[widest];
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    const Tokens length = problem.lengths[i];
    require(length >= 1, "sample ", i, " has ", length, " tokens; expected at least 1");
    require(length <= best.max_tokens, "sample ", i, " has ", length,
            " tokens, and no kind of pipeline holds it: kind ", widest, " (", best.stages,
            " stages) comes closest with ", best.max_tokens, "; expected a sample shorter by ",
            length - best.max_tokens, " tokens, or a kind that holds so many more");
  }
}

/// @throws InvalidInput naming what is wrong with a problem. O(kinds samples).
inline void check_problem(const DispatchProblem& problem) {
  check_kinds(problem);
  check_lengths(problem);
  for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
    double sum = 0.0;
    for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
      if (!problem.holds(k, i)) continue;
      const double s = problem.seconds_on(k, i);
      require(s >= 0.0 && std::isfinite(s), "seconds of sample ", i, " (", problem.lengths[i],
              " tokens) on kind ", k, " are ", s, "; expected a finite number, not negative");
      sum += s;
    }
    require(std::isfinite(sum * (1.0 + problem.other_stages(k))), "the seconds on kind ", k,
            " sum to infinity; expected a finite sum");
  }
}

/// [kind] number of its first pipeline, and the number of all.
[[nodiscard]] inline std::vector<std::size_t> first_pipelines(const DispatchProblem& problem) {
  std::vector<std::size_t> first{0};
  for (const PipelineKind& kind : problem.kinds) first.push_back(first.back() + kind.pipelines);
  return first;
}

/// Eq. 2 of every pipeline. @param pipeline of each sample, one that holds it.
[[nodiscard]] inline Dispatch dispatch_of(const DispatchProblem& problem, std::vector<PipelineId> pipeline) {
  const std::vector<std::size_t> first = first_pipelines(problem);
  std::vector<std::uint32_t> kind_of(first.back());
  for (std::size_t k = 0; k < problem.kinds.size(); ++k)
    std::fill(kind_of.begin() + static_cast<std::ptrdiff_t>(first[k]),
              kind_of.begin() + static_cast<std::ptrdiff_t>(first[k + 1]), static_cast<std::uint32_t>(k));
  Dispatch made{.pipeline = std::move(pipeline), .seconds = std::vector<double>(first.back(), 0.0)};
  std::vector<double> most(first.back(), 0.0);
  for (std::size_t i = 0; i < made.pipeline.size(); ++i) {
    const PipelineId p = made.pipeline[i];
    const double s = problem.seconds_on(kind_of[p], i);
    made.seconds[p] += s;
    most[p] = std::max(most[p], s);
  }
  for (std::size_t p = 0; p < made.seconds.size(); ++p)
    made.seconds[p] += most[p] * problem.other_stages(kind_of[p]);
  return made;
}

}  // namespace detail

}  // namespace slimpack
