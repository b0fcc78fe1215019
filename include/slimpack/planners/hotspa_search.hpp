#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/batch.hpp"
#include "slimpack/plan/assemble.hpp"
#include "slimpack/planners/phase_search.hpp"
#include "slimpack/schedule/lower_bound.hpp"

namespace slimpack::detail {

/// Hands strategies to a search. @throws InvalidInput if one is not homogeneous.
inline void add_strategies(std::span<const Strategy> strategies, const Transformer& model,
                           const MakeKindModels& make, PhaseSearch& search) {
  require(!strategies.empty(), "there are no strategies; expected at least one");
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    validate(strategies[i], model);
    require(strategies[i].kinds() == 1, "strategy ", i, " has ", strategies[i].kinds(),
            " kinds of pipelines; expected 1, as hotspa's strategies are homogeneous");
    search.add(strategies[i], make);
  }
}

/// The schedules of a phase, on pipelines after those that have some already.
inline void place_phase(PhaseSearch& search, const Phase& phase, std::size_t number,
                        std::vector<PlacedSchedule>& placed) {
  HomogeneousStrategy& own = search.strategy(phase.strategy);
  const std::vector<SampleId> ids = search.classes().samples(phase.begin, phase.end);
  const std::vector<Tokens> lengths = search.classes().lengths_of(ids);
  Scheduler scheduler(lengths, own.prices(), own.memory());
  for (Schedule& schedule : search.plan(phase.strategy, scheduler, lengths).schedules) {
    PlacedSchedule& next =
        placed.emplace_back(placed_from(placed.size(), scheduler.with_peaks(std::move(schedule))));
    rename_samples(ids, next.schedule);
    next.phase = number;
  }
}

/// Which samples run on which pipelines in a phase, for notes.
[[nodiscard]] inline std::string phase_text(PhaseSearch& search, const Phase& phase) {
  const HomogeneousStrategy& own = search.strategy(phase.strategy);
  return concat(phase.end - phase.begin, " samples of up to ", search.classes().length(phase.end - 1),
                " tokens on ", own.pipelines(), " x (", to_text(own.strategy().pipelines.front()), ")");
}

/// What all samples take at least if each runs in the phase that is fastest for it; nothing if a phase has no bound.
[[nodiscard]] inline std::optional<double> phases_bound(std::span<const Tokens> lengths, PhaseSearch& search,
                                                        std::span<const Phase> phases) {
  double sum = 0.0;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    double least = std::numeric_limits<double>::infinity();
    for (const Phase& phase : phases) least = std::min(least, search.strategy(phase.strategy).seconds(id));
    sum += least;
  }
  for (const Phase& phase : phases) {
    HomogeneousStrategy& own = search.strategy(phase.strategy);
    if (!step_lower_bound(lengths, own.pipelines(), own.prices()).exists) return std::nullopt;
  }
  return sum;
}

/// `plan_hotspa` among given strategies.
[[nodiscard]] inline Plan search_hotspa(std::span<const Tokens> lengths, const Transformer& model,
                                        const Device& device, std::span<const Strategy> strategies,
                                        const MakeKindModels& make, const HotSpaOptions& options) {
  validate_batch(lengths);
  static_cast<void>(pack_context(lengths, options.context));
  require(options.most_classes > 0, "most_classes is 0; expected at least 1");
  require(options.thresholds > 0, "thresholds is 0; expected at least 1");
  require(options.rivals > 0, "rivals is 0; expected at least 1");
  PhaseSearch search(lengths, model, device, options);
  add_strategies(strategies, model, make, search);
  const std::vector<Phase> phases = search();
  require(!phases.empty(), "a sample of ", *std::max_element(lengths.begin(), lengths.end()),
          " tokens fits none of ", strategies.size(),
          " homogeneous strategies; expected shorter samples, more devices or more memory",
          search.reason().empty() ? "" : concat(" (", search.reason(), ")"));
  std::vector<PipelineSpec> pipelines;
  std::vector<PlacedSchedule> placed;
  std::vector<double> switches;
  std::string text;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Strategy& own = search.strategy(phases[i].strategy).strategy();
    pipelines.insert(pipelines.end(), own.pipelines.begin(), own.pipelines.end());
    place_phase(search, phases[i], i, placed);
    if (i > 0) switches.push_back(search.seconds_between(phases[i - 1].strategy, phases[i].strategy));
    text += concat(i == 0 ? "" : ", then ", phase_text(search, phases[i]));
  }
  const double all_switches = std::accumulate(switches.begin(), switches.end(), 0.0);
  Plan plan =
      assemble_plan("hotspa", lengths, model, device, strategy_of(std::move(pipelines)), std::move(placed),
                    search.strategy(phases.back().strategy).sync_seconds(), std::move(switches));
  const std::optional<double> least = phases_bound(lengths, search, phases);
  state_lower_bound(least ? *least + all_switches : 0.0, least.has_value(), plan);
  plan.notes.push_back(concat("phases: ", text));
  const std::vector<std::string>& missing = search.strategy(phases.front().strategy).missing();
  plan.notes.insert(plan.notes.end(), missing.begin(), missing.end());
  return plan;
}

}  // namespace slimpack::detail
