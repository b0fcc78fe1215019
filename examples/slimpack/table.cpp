#include "table.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "slimpack/plan/metrics.hpp"

namespace slimpack::command {

namespace {

/// Figures that are means over the iterations; the speed-up follows from them.
constexpr double Row::*means[] = {&Row::step_seconds,
                                  &Row::tokens_per_second_per_gpu,
                                  &Row::bubble_ratio,
                                  &Row::max_over_mean_forward,
                                  &Row::max_over_mean_backward,
                                  &Row::replica_imbalance,
                                  &Row::peak_bytes,
                                  &Row::packs,
                                  &Row::planning_seconds,
                                  &Row::gap};

}  // namespace

Row figures(const Plan& plan, double planning_seconds, double gpus) {
  const PlanMetrics metrics = plan_metrics(plan);
  Row row;
  row.planner = plan.planner;
  row.iterations = 1;
  row.step_seconds = plan.step.seconds;
  row.tokens_per_second_per_gpu = static_cast<double>(metrics.tokens) / plan.step.seconds / gpus;
  row.bubble_ratio = plan.step.bubble_ratio;
  row.max_over_mean_forward = metrics.max_over_mean_forward;
  row.max_over_mean_backward = metrics.max_over_mean_backward;
  row.replica_imbalance = metrics.replica_imbalance;
  row.peak_bytes = metrics.peak_bytes;
  row.packs = static_cast<double>(metrics.packs);
  row.planning_seconds = planning_seconds;
  row.gap = plan.step.gap();
  return row;
}

void add(Row& sums, const Row& row) {
  sums.iterations += row.iterations;
  for (double Row::*const figure : means) sums.*figure += row.*figure;
}

void finish(std::vector<Row>& rows) {
  for (Row& row : rows) {
    for (double Row::*const figure : means) row.*figure /= static_cast<double>(row.iterations);
    row.speedup = rows.front().step_seconds / row.step_seconds;
  }
}

std::string to_text(std::span<const Row> rows) {
  std::size_t longest = 10;
  for (const Row& row : rows) longest = std::max(longest, row.planner.size());
  const int width = static_cast<int>(longest);
  char line[512];
  std::snprintf(line, sizeof line, "%-*s %8s %13s %9s %7s %11s %6s %9s %8s %7s %12s %6s\n", width, "planner",
                "step s", "tokens/s/GPU", "speed-up", "bubble", "imbalance F", "B", "replicas", "peak GB",
                "packs", "planning ms", "gap");
  std::string text = line;
  for (const Row& row : rows) {
    std::snprintf(
        line, sizeof line, "%-*s %8.3f %13.0f %8.2fx %6.1f%% %11.3f %6.3f %9.3f %8.1f %7.0f %12.2f %5.1f%%\n",
        width, row.planner.c_str(), row.step_seconds, row.tokens_per_second_per_gpu, row.speedup,
        100.0 * row.bubble_ratio, row.max_over_mean_forward, row.max_over_mean_backward,
        row.replica_imbalance, row.peak_bytes / 1e9, row.packs, 1e3 * row.planning_seconds, 100.0 * row.gap);
    text += line;
  }
  return text;
}

std::string to_json_text(std::span<const Row> rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"planner", row.planner},
                    {"iterations", row.iterations},
                    {"step_seconds", row.step_seconds},
                    {"tokens_per_second_per_gpu", row.tokens_per_second_per_gpu},
                    {"speedup", row.speedup},
                    {"bubble_ratio", row.bubble_ratio},
                    {"max_over_mean_forward", row.max_over_mean_forward},
                    {"max_over_mean_backward", row.max_over_mean_backward},
                    {"replica_imbalance", row.replica_imbalance},
                    {"peak_bytes", row.peak_bytes},
                    {"packs", row.packs},
                    {"planning_seconds", row.planning_seconds},
                    {"gap", row.gap}});
  }
  nlohmann::ordered_json document;
  document["rows"] = std::move(list);
  return document.dump(2) + "\n";
}

}  // namespace slimpack::command
