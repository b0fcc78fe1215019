#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "slimpack/model/parallel.hpp"
#include "slimpack/plan/html.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::command {

/// Figures of one planner, each the mean over the iterations.
struct Row {
  std::string planner;
  std::string chosen;  ///< planner that `auto` chose; else empty
  std::size_t iterations = 0;
  double step_seconds = 0.0;
  double tokens_per_second_per_gpu = 0.0;
  double speedup = 0.0;  ///< of tokens per second, over the first planner
  double bubble_ratio = 0.0;
  double max_over_mean_forward = 0.0;
  double max_over_mean_backward = 0.0;
  double replica_imbalance = 0.0;
  double busiest_stage_imbalance = 0.0;
  double peak_bytes = 0.0;
  double packs = 0.0;
  double planning_seconds = 0.0;
  double gap = 0.0;
  double bound_seconds = 0.0;  ///< that the step takes at least
  double tokens = 0.0;         ///< trained in an iteration
  double token_delay = 0.0;    ///< iterations by which a token is late, on average
  double gpus = 1.0;           ///< devices of the layout
  Layout layout;               ///< of the first plan
};

/// One iteration's figures. @param gpus devices of the layout.
Row figures(const Plan& plan, double planning_seconds, double gpus);

/// Adds an iteration's figures to a row's sums.
void add(Row& sums, const Row& row);

/// Turns sums into means, and says how much faster each planner is than the first.
void finish(std::vector<Row>& rows);

/// The name of a row's planner, with what it chose.
std::string title(const Row& row);

/// A text table, one line per planner. @param with_layouts whether it says on which layouts.
std::string to_text(std::span<const Row> rows, bool with_layouts = false);

/// The same for the page, one line per figure.
std::vector<PageFigure> to_figures(std::span<const Row> rows);

/// A planner's figures as JSON.
nlohmann::ordered_json to_json(const Row& row);

}  // namespace slimpack::command
