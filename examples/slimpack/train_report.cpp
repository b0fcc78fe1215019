#include "train_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// In per cent, with its sign.
double excess(double measured, double predicted) { return 100.0 * (measured - predicted) / predicted; }

template <class... Values>
std::string line(const char* format, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

constexpr const char* name(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

}  // namespace

TaskErrors task_errors(const TrainReport& report, Pass pass) {
  TaskErrors errors;
  std::vector<double> relative;
  for (const TrainedTask& task : report.tasks) {
    if (task.pass != pass) continue;
    ++errors.tasks;
    errors.seconds += task.seconds;
    errors.predicted_seconds += task.predicted_seconds;
    if (task.seconds > 0.0)
      relative.push_back(std::abs(task.predicted_seconds - task.seconds) / task.seconds);
  }
  errors.median_error = median(std::move(relative));
  return errors;
}

std::string step_heading() { return line("%6s %12s %12s %12s\n", "step", "loss", "seconds", "predicted"); }

std::string step_text(std::size_t number, const TrainedStep& step) {
  return line("%6zu %12.6f %12.6f %12.6f\n", number, step.loss, step.seconds, step.predicted_seconds);
}

std::string evaluation_text(const Evaluation& evaluation) {
  return line("%6s %12.6f\n", "unseen", evaluation.loss);
}

std::string summary_text(const TrainReport& report) {
  std::string text = line("\nno model can bring the loss below %.6f\n\n", report.entropy);
  text += line("%-10s %10s %12s %12s %14s\n", "tasks", "number", "seconds", "predicted", "median error");
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const TaskErrors e = task_errors(report, pass);
    text += line("%-10s %10zu %12.6f %12.6f %12.1f %%\n", name(pass), e.tasks, e.seconds, e.predicted_seconds,
                 100.0 * e.median_error);
  }
  text += line("\n%-10s %10s %12s %12s %14s\n", "memory", "stage", "MB", "predicted", "difference");
  const bool shared = std::any_of(report.memory.begin(), report.memory.end(),
                                  [](const TrainedMemory& m) { return m.place.tensor > 0; });
  for (const TrainedMemory& m : report.memory) {
    const std::string stage = shared ? concat(m.place.stage, " tp ", m.place.tensor) : concat(m.place.stage);
    text += line("pipeline %-3u %8s %12.3f %12.3f %+12.2f %%\n", unsigned{m.place.pipeline}, stage.c_str(),
                 m.peak_bytes / 1e6, m.predicted_bytes / 1e6, excess(m.peak_bytes, m.predicted_bytes));
  }
  return text;
}

std::string to_json_text(const TrainReport& report) {
  using Json = nlohmann::ordered_json;
  Json document;
  document["entropy"] = report.entropy;
  document["steps"] = Json::array();
  for (const TrainedStep& s : report.steps) {
    document["steps"].push_back({{"tokens", s.tokens},
                                 {"loss", s.loss},
                                 {"seconds", s.seconds},
                                 {"predicted_seconds", s.predicted_seconds},
                                 {"pipeline_seconds", s.pipeline_seconds},
                                 {"predicted_pipeline_seconds", s.predicted_pipeline_seconds}});
  }
  for (const Evaluation& e : report.evaluations)
    document["evaluations"].push_back({{"steps", e.steps}, {"unseen_loss", e.loss}});
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const TaskErrors e = task_errors(report, pass);
    document["tasks"][name(pass)] = {{"tasks", e.tasks},
                                     {"seconds", e.seconds},
                                     {"predicted_seconds", e.predicted_seconds},
                                     {"median_error", e.median_error}};
  }
  document["memory"] = Json::array();
  for (const TrainedMemory& m : report.memory) {
    document["memory"].push_back({{"pipeline", m.place.pipeline},
                                  {"stage", m.place.stage},
                                  {"tensor_rank", m.place.tensor},
                                  {"peak_bytes", m.peak_bytes},
                                  {"predicted_bytes", m.predicted_bytes}});
  }
  return document.dump(2) + "\n";
}

}  // namespace slimpack::command
