#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/handover.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/pipeline_packs.hpp"

namespace slimpack::detail {

/// Makes the slowest pipeline of a strategy faster, as far as the simulation says that it becomes so.
class SlowestPipelineImprover {
 public:
  /// @param packers [kind]. All have to outlive this.
  SlowestPipelineImprover(std::span<const Tokens> lengths, std::span<PipelinePacker> packers,
                          const TwoStageOptions& options)
      : lengths_(lengths), packers_(packers), options_(options) {}

  /// Whichever pipeline is the slowest gets better packs, and exchanges samples with the fastest ones, until neither helps.
  void operator()(std::vector<PipelineRun>& runs) {
    std::size_t careful = 0;
    for (std::size_t step = 0; step < options_.refinements; ++step) {
      std::vector<std::pair<double, std::size_t>> order;
      for (std::size_t p = 0; p < runs.size(); ++p) order.emplace_back(runs[p].seconds(), p);
      std::sort(order.begin(), order.end());
      PipelineRun& slowest = runs[order.back().second];
      if (!slowest.careful && careful < options_.most_careful) {
        ++careful;
        slowest.careful = true;
        Schedule found = packer(slowest).careful(slowest.samples, slowest.seconds());
        if (found.seconds < slowest.seconds()) slowest.schedule = std::move(found);
        continue;
      }
      bool better = false;
      for (std::size_t n = 0; !better && n < most_partners && n + 1 < order.size(); ++n)
        better = exchange(slowest, runs[order[n].second]);
      if (!better) return;
    }
  }

 private:
  /// Hands a sample of a pipeline to another one, perhaps for one in return, such that both would take about as long by T(l, P).
  /// @returns whether that makes both faster than the first was.
  bool exchange(PipelineRun& from, PipelineRun& to) {
    const double before = from.seconds();
    const std::optional<Handover> found =
        closest_handover(lengths_, packer(from).side(from.samples), packer(to).side(to.samples),
                         (before - to.seconds()) / 2.0);
    if (!found) return false;
    PipelineRun less{.kind = from.kind, .samples = from.samples, .schedule = {}},
        more{.kind = to.kind, .samples = to.samples, .schedule = {}};
    hand_over(*found, less.samples, more.samples);
    for (PipelineRun* const run : {&less, &more}) {
      if (run->samples.empty()) continue;
      run->schedule = packer(*run)(run->samples, before);
      if (run->seconds() >= before) return false;
    }
    from = std::move(less);
    to = std::move(more);
    return true;
  }

  [[nodiscard]] PipelinePacker& packer(const PipelineRun& run) { return packers_[run.kind]; }

  /// Pipelines with which the slowest tries to exchange samples: the fastest ones.
  static constexpr std::size_t most_partners = 3;

  std::span<const Tokens> lengths_;
  std::span<PipelinePacker> packers_;
  const TwoStageOptions& options_;
};

}  // namespace slimpack::detail
