#include "table.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "slimpack/plan/metrics.hpp"

namespace slimpack::command {

void add(Row& row, const Plan& plan, double planning_seconds, double gpus) {
  const PlanMetrics metrics = plan_metrics(plan);
  ++row.iterations;
  row.step_seconds += plan.step.seconds;
  row.tokens_per_second_per_gpu += static_cast<double>(metrics.tokens) / plan.step.seconds / gpus;
  row.bubble_ratio += plan.step.bubble_ratio;
  row.max_over_mean_forward += metrics.max_over_mean_forward;
  row.max_over_mean_backward += metrics.max_over_mean_backward;
  row.replica_imbalance += metrics.replica_imbalance;
  row.peak_bytes += metrics.peak_bytes;
  row.packs += static_cast<double>(metrics.packs);
  row.planning_seconds += planning_seconds;
  row.gap += plan.step.gap();
}

void finish(std::vector<Row>& rows) {
  for (Row& row : rows) {
    const double n = static_cast<double>(row.iterations);
    for (double* sum : {&row.step_seconds, &row.tokens_per_second_per_gpu, &row.bubble_ratio,
                        &row.max_over_mean_forward, &row.max_over_mean_backward, &row.replica_imbalance,
                        &row.peak_bytes, &row.packs, &row.planning_seconds, &row.gap}) {
      *sum /= n;
    }
    row.speedup = rows.front().step_seconds / row.step_seconds;
  }
}

std::string to_text(std::span<const Row> rows) {
  std::string text =
      "planner      step s  tokens/s/GPU  speed-up  bubble  imbalance F      B  replicas  peak GB   packs  "
      "planning ms    gap\n";
  char line[256];
  for (const Row& row : rows) {
    std::snprintf(line, sizeof line,
                  "%-10s %8.3f %13.0f %8.2fx %6.1f%% %11.3f %6.3f %9.3f %8.1f %7.0f %12.2f %5.1f%%\n",
                  row.planner.c_str(), row.step_seconds, row.tokens_per_second_per_gpu, row.speedup,
                  100.0 * row.bubble_ratio, row.max_over_mean_forward, row.max_over_mean_backward,
                  row.replica_imbalance, row.peak_bytes / 1e9, row.packs, 1e3 * row.planning_seconds,
                  100.0 * row.gap);
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
