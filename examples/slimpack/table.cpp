#include "table.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "layout_table.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/strategy/layouts.hpp"

namespace slimpack::command {

namespace {

/// Figures that are means over the iterations; the others follow from them.
constexpr double Row::*means[] = {&Row::step_seconds,
                                  &Row::tokens,
                                  &Row::token_delay,
                                  &Row::bubble_ratio,
                                  &Row::max_over_mean_forward,
                                  &Row::max_over_mean_backward,
                                  &Row::replica_imbalance,
                                  &Row::busiest_stage_imbalance,
                                  &Row::peak_bytes,
                                  &Row::packs,
                                  &Row::planning_seconds,
                                  &Row::gap,
                                  &Row::bound_seconds};

/// A column of the table, and a line of the page's.
struct Column {
  const char* heading;
  const char* name;  ///< on the page
  int width;
  const char* format;
  double scale;
  double Row::*figure;
};

constexpr Column columns[] = {
    {"step s", "step, seconds", 9, "%.3f", 1.0, &Row::step_seconds},
    {"tokens/s/GPU", "tokens per second and GPU", 14, "%.0f", 1.0, &Row::tokens_per_second_per_gpu},
    {"speed-up", "speed-up", 10, "%.2fx", 1.0, &Row::speedup},
    {"bubble", "idle (bubble ratio)", 8, "%.1f%%", 100.0, &Row::bubble_ratio},
    {"imbalance F", "longest pack / mean, forward", 12, "%.3f", 1.0, &Row::max_over_mean_forward},
    {"B", "longest pack / mean, backward", 7, "%.3f", 1.0, &Row::max_over_mean_backward},
    {"replicas", "busiest replica / mean", 10, "%.3f", 1.0, &Row::replica_imbalance},
    {"peak GB", "peak memory, GB per device", 9, "%.1f", 1e-9, &Row::peak_bytes},
    {"packs", "forward packs", 8, "%.0f", 1.0, &Row::packs},
    {"planning ms", "planning, milliseconds", 13, "%.2f", 1e3, &Row::planning_seconds},
    {"gap", "gap to the lower bound", 7, "%.1f%%", 100.0, &Row::gap},
    {"delay", "mean delay of a token, iterations", 7, "%.2f", 1.0, &Row::token_delay},
};

std::string value(const Column& column, const Row& row) {
  char text[64];
  std::snprintf(text, sizeof text, column.format, column.scale * row.*column.figure);
  return text;
}

/// Text in a field: on the right of it, or on the left of one of negative width.
std::string padded(const std::string& text, int width) {
  const std::size_t size = static_cast<std::size_t>(std::abs(width));
  const std::string space(size - std::min(size, text.size()), ' ');
  return width < 0 ? text + space : space + text;
}

}  // namespace

Row figures(const Plan& plan, double planning_seconds, double gpus) {
  const PlanMetrics metrics = plan_metrics(plan);
  Row row;
  row.planner = plan.planner;
  row.iterations = 1;
  row.step_seconds = plan.step.seconds;
  row.tokens = static_cast<double>(metrics.tokens);
  row.gpus = gpus;
  row.bubble_ratio = plan.step.bubble_ratio;
  row.max_over_mean_forward = metrics.max_over_mean_forward;
  row.max_over_mean_backward = metrics.max_over_mean_backward;
  row.replica_imbalance = metrics.replica_imbalance;
  row.busiest_stage_imbalance = metrics.busiest_stage_imbalance;
  row.peak_bytes = metrics.peak_bytes;
  row.packs = static_cast<double>(metrics.packs);
  row.planning_seconds = planning_seconds;
  row.gap = plan.step.gap();
  row.bound_seconds = plan.step.lower_bound_seconds;
  const auto first_phase = std::count_if(plan.pipelines.begin(), plan.pipelines.end(),
                                         [](const PipelinePlan& p) { return p.phase == 0; });
  row.layout = {.dp = static_cast<std::int32_t>(first_phase),
                .tp = plan.pipelines.front().tp,
                .cp = plan.pipelines.front().cp,
                .pp = static_cast<std::int32_t>(plan.pipelines.front().stages())};
  return row;
}

void add(Row& sums, const Row& row) {
  if (sums.iterations == 0) sums.layout = row.layout;
  sums.iterations += row.iterations;
  sums.gpus = row.gpus;
  for (double Row::*const figure : means) sums.*figure += row.*figure;
}

void finish(std::vector<Row>& rows) {
  for (Row& row : rows) {
    for (double Row::*const figure : means) row.*figure /= static_cast<double>(row.iterations);
    row.tokens_per_second_per_gpu = row.tokens / row.step_seconds / row.gpus;
    row.speedup = row.tokens_per_second_per_gpu / rows.front().tokens_per_second_per_gpu;
  }
}

std::string title(const Row& row) {
  return row.chosen.empty() ? row.planner : concat(row.planner, ": ", row.chosen);
}

std::string to_text(std::span<const Row> rows, bool with_layouts) {
  std::size_t longest = 10;
  for (const Row& row : rows) longest = std::max(longest, title(row).size());
  std::string text = padded("planner", -static_cast<int>(longest));
  for (const Column& column : columns) text += padded(column.heading, column.width);
  if (with_layouts) text += "  layout";
  for (const Row& row : rows) {
    text += '\n';
    text += padded(title(row), -static_cast<int>(longest));
    for (const Column& column : columns) text += padded(value(column, row), column.width);
    if (with_layouts) text += "  " + to_text(row.layout);
  }
  return text + "\n";
}

std::vector<PageFigure> to_figures(std::span<const Row> rows) {
  std::vector<PageFigure> figures;
  for (const Column& column : columns) {
    figures.push_back({column.name, {}});
    for (const Row& row : rows) figures.back().values.push_back(value(column, row));
  }
  return figures;
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json figures{{"planner", row.planner},
                                 {"iterations", row.iterations},
                                 {"layout", layout_json(row.layout)},
                                 {"step_seconds", row.step_seconds},
                                 {"tokens_per_second_per_gpu", row.tokens_per_second_per_gpu},
                                 {"speedup", row.speedup},
                                 {"bubble_ratio", row.bubble_ratio},
                                 {"max_over_mean_forward", row.max_over_mean_forward},
                                 {"max_over_mean_backward", row.max_over_mean_backward},
                                 {"replica_imbalance", row.replica_imbalance},
                                 {"busiest_stage_imbalance", row.busiest_stage_imbalance},
                                 {"peak_bytes", row.peak_bytes},
                                 {"packs", row.packs},
                                 {"planning_seconds", row.planning_seconds},
                                 {"gap", row.gap},
                                 {"tokens", row.tokens},
                                 {"token_delay", row.token_delay}};
  if (!row.chosen.empty()) figures["chosen"] = row.chosen;
  return figures;
}

}  // namespace slimpack::command
