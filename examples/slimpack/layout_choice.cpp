#include "layout_choice.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "document_models.hpp"
#include "slimpack/planners/best_layout.hpp"
#include "slimpack/planners/layout_search.hpp"
#include "slimpack/planners/rivals.hpp"

namespace slimpack::command {

namespace {

/// Seconds that a planner's steps take at least for all these samples in one batch.
double samples_bound(const JobOptions& o, std::span<const Tokens> tokens) {
  return with_models(o, [&](const auto& cost, const auto& memory, const auto& attention) {
    return layout_bound(tokens, o.job, cost, memory, attention);
  });
}

Layout used_layout(const Planner& planner, const Layout& layout) {
  return planner.plans_on != nullptr ? planner.plans_on(layout) : layout;
}

/// Layouts that a planner can plan on, without those in whose place it takes another one of them.
std::vector<Layout> distinct_layouts(const Planner& planner, std::vector<Layout> all) {
  const auto refused = [&](const Layout& layout) {
    return planner.takes != nullptr && !planner.takes(layout);
  };
  const Layout first = all.front();
  if (planner.chooses_pipelines) return {first};
  std::erase_if(all, refused);
  require(!all.empty(), "planner ", planner.name, " plans on none of the layouts, such as ", to_text(first),
          "; expected no other tp and pp than 1");
  const auto sizes = [](const Layout& l) { return std::array{l.dp, l.tp, l.cp, l.pp}; };
  std::set<std::array<std::int32_t, 4>> known;
  for (const Layout& layout : all) known.insert(sizes(layout));
  std::erase_if(all, [&](const Layout& layout) {
    const auto used = sizes(used_layout(planner, layout));
    return used != sizes(layout) && known.contains(used);
  });
  return all;
}

double tokens_in(std::span<const Tokens> tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

/// Seconds per trained token that all batches take at least. Documents that may be trained with another batch are bounded
/// as those of one large batch. 0 where it is not known what is trained, what prices a planner has of a profile, or which pipelines.
double series_bound(const Planner& planner, const JobOptions& given, const Series& series) {
  if (given.profile || planner.chooses_pipelines || (planner.defers && !given.documents.drain)) return 0.0;
  JobOptions o = on_layout(given, used_layout(planner, given.job.layout));
  if (planner.with_own_models != nullptr) o = planner.with_own_models(o);
  double seconds = 0.0, tokens = 0.0;
  std::vector<Tokens> all;
  for (std::size_t i = 0; i < series.iterations; ++i) {
    const std::vector<Tokens> own = batch(o, series.lengths, i);
    tokens += tokens_in(own);
    if (planner.start != nullptr) all.insert(all.end(), own.begin(), own.end());
    if (planner.start == nullptr) seconds += samples_bound(o, own);
  }
  if (planner.start != nullptr) seconds = samples_bound(o, all);
  return seconds / tokens;
}

/// Plans all batches on one layout after another. A LayoutPlanner.
struct SeriesPlanner {
  const Planner& planner;
  const JobOptions& options;
  const Series& series;

  [[nodiscard]] double bound(const Layout& layout) const {
    return series_bound(planner, on_layout(options, layout), series);
  }
  [[nodiscard]] Planned plan(const Layout& layout) const {
    const Series alone{series.lengths, series.iterations, 1, series.progress};
    return plan_series(planner, on_layout(options, layout), alone);
  }
  [[nodiscard]] static LayoutFigures figures(const Planned& planned) {
    const Row& sums = planned.sums;
    return {.steps = sums.iterations,
            .seconds = sums.step_seconds,
            .tokens = sums.tokens,
            .peak_bytes = sums.peak_bytes / static_cast<double>(sums.iterations),
            .bound_seconds = sums.bound_seconds};
  }
};

/// Of one planner.
Chosen plan_on_best_layout(const Planner& planner, const JobOptions& o, const Series& series) {
  const auto start = std::chrono::steady_clock::now();
  Chosen chosen{.planner = planner.name, .planned = {}, .layout = o.job.layout, .rows = {}};
  if (!o.space) {
    chosen.planned = plan_series(planner, o, series);
    return chosen;
  }
  const std::vector<Layout> all = distinct_layouts(planner, layouts(o.job.model, o.job.device, *o.space));
  const SeriesPlanner on{planner, o, series};
  if (planner.chooses_pipelines) {
    // A search's refusals name a layout, and those of this planner have nothing to do with one.
    chosen.layout = all.front();
    chosen.planned = on.plan(chosen.layout);
    chosen.rows = {{.layout = chosen.layout,
                    .fate = LayoutFate::planned,
                    .figures = SeriesPlanner::figures(chosen.planned)}};
  } else {
    auto choice = search_layouts(all, on, series.threads);
    chosen.planned = std::move(choice.planned);
    chosen.layout = choice.layout;
    chosen.rows = std::move(choice.rows);
  }
  chosen.planned.sums.planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return chosen;
}

/// Whether the number of devices is all that is given of the layout.
bool any_layout(const JobOptions& o) {
  const auto given = [&](std::int32_t Layout::*size) { return o.space->given.*size != 0; };
  return o.space && !given(&Layout::dp) && !given(&Layout::tp) && !given(&Layout::cp) && !given(&Layout::pp);
}

/// Of all planners, the best one. Those that choose their pipelines themselves keep no given layout.
Chosen plan_with_all(const JobOptions& o, const Series& series, Comparison comparison) {
  std::vector<const Planner*> all;
  std::vector<std::string> names;
  for (const Planner& planner : planners()) {
    if (planner.is_best_of_all() || (planner.chooses_pipelines && !any_layout(o))) continue;
    all.push_back(&planner);
    names.push_back(planner.name);
  }
  double planning = 0.0;
  auto best = best_of_rivals(names, [&](std::size_t i) {
    require(comparison == Comparison::drained || !all[i]->defers, "it leaves documents for later iterations");
    Chosen chosen = plan_on_best_layout(*all[i], o, series);
    planning += chosen.planned.sums.planning_seconds;
    const double seconds_per_token = SeriesPlanner::figures(chosen.planned).seconds_per_token();
    std::string where = o.space ? to_text(chosen.layout) : "";
    return RivalPlan<Chosen>{std::move(chosen), seconds_per_token, std::move(where)};
  });
  best.planned.planned.first.notes.push_back(std::move(best.why));
  best.planned.planned.sums.planning_seconds = planning;
  return std::move(best.planned);
}

}  // namespace

JobOptions on_layout(const JobOptions& options, const Layout& layout) {
  JobOptions own = options;
  own.job.layout = layout;
  return own;
}

std::size_t plans_of(const Planner& planner, const JobOptions& o) {
  const std::size_t rivals = planner.is_best_of_all() ? planners().size() - 1 : 1;
  return rivals * (o.space ? layouts(o.job.model, o.job.device, *o.space).size() : 1);
}

Chosen plan_best(const Planner& planner, const JobOptions& options, const Series& series,
                 Comparison comparison) {
  if (!planner.is_best_of_all()) return plan_on_best_layout(planner, options, series);
  JobOptions own = options;
  own.documents.drain = comparison == Comparison::drained;
  Chosen chosen = plan_with_all(own, series, comparison);
  chosen.planned.sums.planner = planner.name;
  chosen.planned.sums.chosen = chosen.planner;
  return chosen;
}

}  // namespace slimpack::command
