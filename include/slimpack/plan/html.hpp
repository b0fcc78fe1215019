#pragma once

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/plan/html_charts.hpp"
#include "slimpack/plan/html_data.hpp"
#include "slimpack/plan/html_script.hpp"
#include "slimpack/plan/html_style.hpp"
#include "slimpack/plan/markup.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/violins.hpp"

namespace slimpack {

/// A line of a page's table.
struct PageFigure {
  std::string name;
  std::vector<std::string> values;  ///< one per plan
};

struct PageOptions {
  std::string note = {};  ///< a sentence above the tables
  /// Tasks that are drawn of each plan; pipelines that end early are left out, as the page then says.
  std::size_t most_tasks = 200000;
};

namespace detail {

/// An integer with its thousands apart.
inline std::string grouped(Tokens value) {
  std::string digits = concat(value);
  for (std::size_t at = digits.size(); at > 3 && digits[at - 4] != '-'; at -= 3)
    digits.insert(at - 3, 1, ',');
  return digits;
}

inline std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// What the page knows of a plan without being told: how it shares the devices, and why stages are idle.
inline std::vector<PageFigure> plan_figures(std::span<const PlanView> views) {
  std::vector<PageFigure> figures{{"dp × tp × cp × pp", {}}, {"busiest stage, busiest replica / mean", {}},
                                  {"idle in warm-up", {}},   {"idle by dependency", {}},
                                  {"idle by imbalance", {}}, {"idle in cool-down", {}}};
  for (const PlanView& view : views) {
    const PipelinePlan& pipeline = view.plan->pipelines.front();
    figures[0].values.push_back(concat(view.plan->pipelines.size(), " × ", pipeline.tp, " × ", pipeline.cp,
                                       " × ", pipeline.stages()));
    figures[1].values.push_back(formatted("%.3f", plan_metrics(*view.plan).busiest_stage_imbalance));
    const BubbleSplit<>& time = view.timeline->bubble_sum;
    const double causes[] = {time.warm_up, time.dependency, time.imbalance, time.cool_down};
    const double all = std::accumulate(std::begin(causes), std::end(causes), time.busy);
    for (std::size_t i = 0; i < std::size(causes); ++i) {
      figures[i + 2].values.push_back(formatted("%.1f%%", all > 0 ? 100.0 * causes[i] / all : 0.0));
    }
  }
  return figures;
}

inline void write_table(std::ostream& out, std::span<const PlanView> views,
                        std::span<const PageFigure> figures) {
  out << "<div class=\"scroll\"><table><thead><tr><td></td>";
  for (const PlanView& view : views) out << "<th>" << escaped(view.title) << "</th>";
  out << "</tr></thead><tbody>\n";
  for (const PageFigure& figure : figures) {
    out << "<tr><th>" << escaped(figure.name) << "</th>";
    for (const std::string& value : figure.values) out << "<td>" << escaped(value) << "</td>";
    out << "</tr>\n";
  }
  out << "</tbody></table></div>\n";
}

/// What the planners want their users to know, and what is not drawn.
inline void write_notes(std::ostream& out, std::span<const PlanView> views,
                        std::span<const std::vector<std::size_t>> drawn) {
  out << "<ul class=\"note\">\n";
  const auto item = [&](const PlanView& view, const std::string& text) {
    out << "<li><b>" << escaped(view.title) << "</b>: " << escaped(text) << "</li>\n";
  };
  for (std::size_t i = 0; i < views.size(); ++i) {
    for (const std::string& note : views[i].plan->notes) item(views[i], note);
    const std::size_t all = views[i].plan->pipelines.size();
    if (drawn[i].size() == all) continue;
    item(views[i],
         concat("timelines and memory of ", drawn[i].size(), " of its ", all, " pipelines, the last to end"));
  }
  out << "</ul>\n";
}

/// Distributions of the plans' pack durations.
inline void write_durations(std::ostream& out, std::span<const PlanView> views) {
  std::vector<NamedPlan> plans;
  for (const PlanView& view : views) plans.push_back({view.plan, view.title});
  out << "<h2>Pack durations</h2>\n";
  for (const ViolinChart& chart : duration_charts(plans)) {
    std::string drawn;
    append_violins(drawn, chart);
    out << "<div class=\"scroll\">" << drawn << "</div>\n";
  }
  out << "<p class=\"note\">Lines inside: quartiles.</p>\n";
}

inline void require_drawable(std::span<const PlanView> views, std::span<const PageFigure> figures) {
  require(!views.empty(), "0 plans to draw; expected at least one");
  for (std::size_t i = 0; i < views.size(); ++i) {
    require(views[i].plan != nullptr && views[i].timeline != nullptr && !views[i].timeline->stages.empty(),
            "plan ", i, " to draw lacks its timeline");
  }
  for (const PageFigure& figure : figures) {
    require(figure.values.size() == views.size(), "figure '", figure.name, "' has ", figure.values.size(),
            " values; expected one for each of the ", views.size(), " plans");
  }
}

}  // namespace detail

/// Writes one self-contained page that compares plans: a table of figures, timelines on one axis (colour by
/// pass or sample, zoom, contents of a pack under the pointer), memory of each stage, distribution of pack
/// durations.
/// @throws InvalidInput if there is no plan, a view lacks its timeline, or a figure a plan's value.
/// Complexity: O(tasks + slices + packs log packs).
inline void write_html(std::ostream& out, std::span<const PlanView> views,
                       std::span<const PageFigure> figures, const PageOptions& options = {}) {
  detail::require_drawable(views, figures);
  std::string data;
  std::vector<std::vector<std::size_t>> drawn;
  detail::append_list(views.size(), data, [&](std::size_t i) {
    drawn.push_back(detail::drawn_pipelines(*views[i].timeline, options.most_tasks));
    detail::append_plan(views[i], drawn.back(), data);
  });
  const Plan& first = *views.front().plan;
  const Tokens tokens = std::accumulate(first.tokens.begin(), first.tokens.end(), Tokens{0});
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>slimpack</title>\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<style>"
      << detail::colours << detail::html_style << detail::violin_style
      << "</style></head><body>\n<h1>One training step, " << views.size()
      << (views.size() == 1 ? " plan" : " plans") << "</h1>\n<p class=\"note\">"
      << detail::grouped(static_cast<Tokens>(first.tokens.size())) << " samples, " << detail::grouped(tokens)
      << " tokens, " << detail::escaped(first.model.name) << " on " << detail::escaped(first.device.name)
      << ". " << detail::escaped(options.note) << "</p>\n";
  out << "<div class=\"figures\">\n";
  if (!figures.empty()) detail::write_table(out, views, figures);
  detail::write_table(out, views, detail::plan_figures(views));
  out << "</div>\n";
  detail::write_notes(out, views, drawn);
  out << detail::html_body;
  detail::write_durations(out, views);
  out << "<script>const DATA=" << data << ";" << detail::html_script << detail::html_charts
      << "</script></body></html>\n";
}

}  // namespace slimpack
