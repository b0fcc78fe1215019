#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/partition/dispatch.hpp"

namespace slimpack::detail {

/// One or two samples of a pipeline, or none, that may leave it.
struct LeavingSamples {
  static constexpr SampleId none = ~SampleId{0};
  SampleId first = none, second = none;
  double seconds = 0.0;  ///< on their pipeline
  double rest = 0.0;     ///< of its longest other sample
};

/// The samples of every pipeline, each list by rising seconds, and what exchanges between two would change.
class DispatchLoads {
 public:
  DispatchLoads(const DispatchProblem& problem, std::span<const PipelineId> pipeline)
      : problem_(problem),
        kind_(kind_of_pipelines(problem)),
        items_(kind_.size()),
        load_(kind_.size()),
        sum_(load_) {
    for (std::size_t i = 0; i < pipeline.size(); ++i) items_[pipeline[i]].push_back(static_cast<SampleId>(i));
    for (std::size_t p = 0; p < items_.size(); ++p) {
      sort(p);
      measure(p);
    }
  }

  [[nodiscard]] std::size_t pipelines() const { return items_.size(); }
  [[nodiscard]] double load(std::size_t p) const { return load_[p]; }
  [[nodiscard]] std::size_t kind(std::size_t p) const { return kind_[p]; }
  [[nodiscard]] const std::vector<SampleId>& items(std::size_t p) const { return items_[p]; }
  [[nodiscard]] double makespan() const { return *std::max_element(load_.begin(), load_.end()); }

  [[nodiscard]] std::vector<PipelineId> pipeline_of_samples() const {
    std::vector<PipelineId> pipeline(problem_.lengths.size());
    for (std::size_t p = 0; p < items_.size(); ++p) {
      for (const SampleId i : items_[p]) pipeline[i] = static_cast<PipelineId>(p);
    }
    return pipeline;
  }

  /// Replaces the samples of a pipeline. It holds them.
  void set(std::size_t p, std::vector<SampleId> samples) {
    items_[p] = std::move(samples);
    sort(p);
    measure(p);
  }

  /// What may leave a pipeline, by rising seconds: nothing, single samples, and pairs if asked for.
  void list_leaving(std::size_t p, bool pairs, std::vector<LeavingSamples>& leaving) const {
    const std::vector<SampleId>& items = items_[p];
    const auto seconds = [&](std::size_t place) { return on(p, items[place]); };
    const auto rest = [&](std::size_t a, std::size_t b) {
      std::size_t last = items.size();
      while (last > 0 && (last - 1 == a || last - 1 == b)) --last;
      return last == 0 ? 0.0 : seconds(last - 1);
    };
    constexpr std::size_t none = ~std::size_t{0};
    leaving.assign(1, {.rest = rest(none, none)});
    for (std::size_t a = 0; a < items.size(); ++a)
      leaving.push_back({.first = items[a], .seconds = seconds(a), .rest = rest(a, none)});
    if (!pairs) return;
    for (std::size_t b = 1; b < items.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        leaving.push_back(
            {.first = items[a], .second = items[b], .seconds = seconds(a) + seconds(b), .rest = rest(a, b)});
      }
    }
    std::stable_sort(leaving.begin(), leaving.end(),
                     [](const LeavingSamples& a, const LeavingSamples& b) { return a.seconds < b.seconds; });
  }

  /// What a pipeline takes after samples left it and others came; infinite if it does not hold these.
  [[nodiscard]] double load_after(std::size_t p, const LeavingSamples& left,
                                  const LeavingSamples& come) const {
    double sum = sum_[p] - left.seconds, most = left.rest;
    for (const SampleId i : {come.first, come.second}) {
      if (i == LeavingSamples::none) break;
      if (!problem_.holds(kind_[p], i)) return std::numeric_limits<double>::infinity();
      const double s = on(p, i);
      sum += s;
      most = std::max(most, s);
    }
    return sum + most * problem_.other_stages(kind_[p]);
  }

  void exchange(std::size_t p, const LeavingSamples& given, std::size_t q, const LeavingSamples& back) {
    replace(p, given, back);
    replace(q, back, given);
  }

 private:
  static std::vector<std::uint32_t> kind_of_pipelines(const DispatchProblem& problem) {
    std::vector<std::uint32_t> kind;
    for (std::size_t k = 0; k < problem.kinds.size(); ++k)
      kind.insert(kind.end(), problem.kinds[k].pipelines, static_cast<std::uint32_t>(k));
    return kind;
  }

  [[nodiscard]] double on(std::size_t p, SampleId i) const { return problem_.seconds_on(kind_[p], i); }

  [[nodiscard]] bool before(std::size_t p, SampleId a, SampleId b) const {
    return on(p, a) < on(p, b) || (on(p, a) == on(p, b) && a < b);
  }

  void sort(std::size_t p) {
    std::sort(items_[p].begin(), items_[p].end(), [&](SampleId a, SampleId b) { return before(p, a, b); });
  }

  /// Adds up again from scratch, so that rounding errors do not accumulate.
  void measure(std::size_t p) {
    sum_[p] = 0.0;
    for (const SampleId i : items_[p]) sum_[p] += on(p, i);
    load_[p] = items_[p].empty() ? 0.0 : sum_[p] + on(p, items_[p].back()) * problem_.other_stages(kind_[p]);
  }

  void replace(std::size_t p, const LeavingSamples& left, const LeavingSamples& come) {
    std::erase_if(items_[p], [&](SampleId i) { return i == left.first || i == left.second; });
    for (const SampleId i : {come.first, come.second}) {
      if (i == LeavingSamples::none) break;
      const auto place = std::lower_bound(items_[p].begin(), items_[p].end(), i,
                                          [&](SampleId a, SampleId b) { return before(p, a, b); });
      items_[p].insert(place, i);
    }
    measure(p);
  }

  DispatchProblem problem_;
  std::vector<std::uint32_t> kind_;           // [pipeline]
  std::vector<std::vector<SampleId>> items_;  // [pipeline]
  std::vector<double> load_, sum_;            // [pipeline] Eq. 2, and its first term
};

}  // namespace slimpack::detail
