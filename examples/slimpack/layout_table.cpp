#include "layout_table.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

namespace slimpack::command {

namespace {

/// Means over the steps.
struct StepFigures {
  double seconds, peak_bytes, gap;
};

StepFigures step_figures(const LayoutRow& row) {
  const LayoutFigures& all = row.figures;
  return {all.seconds / static_cast<double>(all.steps), all.peak_bytes, all.gap()};
}

/// From the fastest to those that are refused.
std::vector<const LayoutRow*> best_first(std::span<const LayoutRow> rows) {
  std::vector<const LayoutRow*> sorted;
  for (const LayoutRow& row : rows) sorted.push_back(&row);
  const auto key = [](const LayoutRow* row) {
    const bool planned = row->fate == LayoutFate::planned;
    return std::tuple(row->fate, planned ? row->figures.seconds_per_token() : row->bound);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const LayoutRow* a, const LayoutRow* b) { return key(a) < key(b); });
  return sorted;
}

template <class... Values>
std::string table_text(const char* format, Values... values) {
  char text[128];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// What the row says after the layout.
std::string outcome(const LayoutRow& row, double tokens) {
  if (row.fate == LayoutFate::refused) return "  refused: " + row.reason;
  if (row.fate == LayoutFate::pruned)
    return table_text("%9.3f                  at least, by its lower bound: not planned", row.bound * tokens);
  const StepFigures own = step_figures(row);
  return table_text("%9.3f%9.1f%8.1f%%", own.seconds, own.peak_bytes / 1e9, 100.0 * own.gap);
}

constexpr const char* fates[] = {"planned", "pruned", "refused"};

}  // namespace

std::string layouts_text(const std::string& planner, std::span<const LayoutRow> rows, double tokens) {
  std::string text = concat(planner, '\n') + table_text("%5s%5s%5s%5s%9s%9s%9s\n", "dp", "tp", "cp", "pp",
                                                        "step s", "peak GB", "gap");
  for (const LayoutRow* row : best_first(rows)) {
    const Layout& l = row->layout;
    text += table_text("%5d%5d%5d%5d", l.dp, l.tp, l.cp, l.pp) + outcome(*row, tokens) + '\n';
  }
  return text;
}

nlohmann::ordered_json layout_json(const Layout& layout) {
  return {{"dp", layout.dp}, {"tp", layout.tp}, {"cp", layout.cp}, {"pp", layout.pp}};
}

nlohmann::ordered_json layouts_json(std::span<const LayoutRow> rows, double tokens) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LayoutRow* row : best_first(rows)) {
    nlohmann::ordered_json own = layout_json(row->layout);
    own["fate"] = fates[static_cast<std::size_t>(row->fate)];
    if (row->fate == LayoutFate::refused) own["reason"] = row->reason;
    if (row->fate == LayoutFate::pruned) own["bound_seconds"] = row->bound * tokens;
    if (row->fate == LayoutFate::planned) {
      const StepFigures figures = step_figures(*row);
      own["step_seconds"] = figures.seconds;
      own["peak_bytes"] = figures.peak_bytes;
      own["gap"] = figures.gap;
    }
    list.push_back(std::move(own));
  }
  return list;
}

}  // namespace slimpack::command
