#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/parallel.hpp"
#include "slimpack/planners/layouts.hpp"

namespace slimpack {

/// What a layout's plans amount to, over all batches that were planned.
struct LayoutFigures {
  std::size_t steps = 1;
  double seconds = 0.0;        ///< of all steps
  double tokens = 0.0;         ///< trained in them
  double peak_bytes = 0.0;     ///< of any device
  double bound_seconds = 0.0;  ///< that these steps take at least; 0: not known

  /// What layouts are compared by.
  [[nodiscard]] double seconds_per_token() const { return seconds / tokens; }
  /// Share of the steps above the bound.
  [[nodiscard]] double gap() const { return seconds > 0.0 ? 1.0 - bound_seconds / seconds : 0.0; }
};

/// What became of a layout in a search.
enum class LayoutFate : std::uint8_t {
  planned,
  pruned,   ///< no plan on it takes less than a layout before it does
  refused,  ///< nothing can be planned on it
};

/// A row of the table of layouts.
struct LayoutRow {
  Layout layout;
  LayoutFate fate = LayoutFate::pruned;
  double bound =
      0.0;  ///< seconds per trained token that no plan on this layout takes less than; 0: not known
  LayoutFigures figures = {};  ///< of what was planned
  std::string reason = {};     ///< of a refusal: the planner's message
};

/// Plans on one layout after another: a bound of what comes out, the plans, and what they amount to. Layouts that can't
/// be planned throw InvalidInput.
template <class P>
concept LayoutPlanner = requires(const P& planner, const Layout& layout) {
  { planner.bound(layout) } -> std::convertible_to<double>;
  { planner.figures(planner.plan(layout)) } -> std::same_as<LayoutFigures>;
};

/// The best layout, what was planned on it, and a row for each layout, in the order in which they were given.
template <class Planned>
struct LayoutChoice {
  Layout layout;
  Planned planned;
  std::vector<LayoutRow> rows;
};

namespace detail {

/// Takes what was planned on layouts, in the order of their bounds, whatever the order in which it becomes ready: so
/// the outcome does not depend on threads.
template <class Planned>
class BestInOrder {
 public:
  /// @param rows of the layouts, and @param order in which they count.
  BestInOrder(std::vector<LayoutRow>& rows, std::vector<std::size_t> order)
      : rows_(rows), order_(std::move(order)), waiting_(order_.size()) {}

  /// Whether a layout has to be planned, as far as those before it are known.
  [[nodiscard]] bool worth_planning(std::size_t place) {
    const std::lock_guard lock(mutex_);
    return can_be_best(rows_[order_[place]]);
  }

  /// Takes what came of a layout: figures or a reason, or neither if it was not worth planning.
  void take(std::size_t place, LayoutRow row, std::optional<Planned> planned) {
    const std::lock_guard lock(mutex_);
    waiting_[place] = Waiting{std::move(row), std::move(planned)};
    for (; next_ < order_.size() && waiting_[next_]; ++next_) count(next_);
  }

  [[nodiscard]] const std::optional<std::size_t>& best() const { return best_; }
  [[nodiscard]] Planned take_planned() { return std::move(*planned_); }

 private:
  struct Waiting {
    LayoutRow row;
    std::optional<Planned> planned;
  };

  [[nodiscard]] bool can_be_best(const LayoutRow& row) const {
    constexpr double rounding = 1.0 - 1e-9;
    return row.bound * rounding < least_;
  }

  void count(std::size_t place) {
    Waiting own = std::move(*waiting_[place]);
    LayoutRow& row = rows_[order_[place]];
    if (!can_be_best(row)) return;  // one by one, it would not have been planned
    row = std::move(own.row);
    if (!own.planned || row.figures.seconds_per_token() >= least_) return;
    least_ = row.figures.seconds_per_token();
    best_ = order_[place];
    planned_ = std::move(own.planned);
  }

  std::vector<LayoutRow>& rows_;
  std::vector<std::size_t> order_;  // [place] row
  std::vector<std::optional<Waiting>> waiting_;
  std::size_t next_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  std::optional<std::size_t> best_;
  std::optional<Planned> planned_;
  std::mutex mutex_;
};

/// Refuses a search that has no plan, with the reason of the layout that came closest: of those whose stages hold the
/// weights, if any, the one that spreads a sample over most devices.
[[noreturn]] inline void refuse_layouts(std::span<const LayoutRow> rows,
                                        std::span<const std::size_t> bounded) {
  const auto devices = [&](std::size_t i) {
    return std::int64_t{rows[i].layout.tp} * rows[i].layout.cp * rows[i].layout.pp;
  };
  std::vector<std::size_t> all(rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::span<const std::size_t> from = bounded.empty() ? std::span<const std::size_t>(all) : bounded;
  const std::size_t closest = *std::max_element(
      from.begin(), from.end(), [&](std::size_t a, std::size_t b) { return devices(a) < devices(b); });
  throw InvalidInput(concat(rows[closest].reason, " (", to_text(rows[closest].layout), "; ",
                            rows.size() == 1 ? "no other layout is possible"
                                             : concat("none of ", rows.size(), " layouts can be planned"),
                            ")"));
}

/// Does some work for a row; if it throws InvalidInput, the layout is refused for that reason.
template <class Work>
void work_or_refuse(LayoutRow& row, const Work& work) {
  try {
    work();
  } catch (const InvalidInput& error) {
    row.fate = LayoutFate::refused;
    row.reason = error.what();
  }
}

/// Finds the bounds of all rows. @returns the rows that are not refused, in the order of their bounds.
template <LayoutPlanner P>
[[nodiscard]] std::vector<std::size_t> find_bounds(std::vector<LayoutRow>& rows, const P& planner,
                                                   std::size_t threads) {
  for_each_index(rows.size(), threads, [&](std::size_t i) {
    work_or_refuse(rows[i], [&] { rows[i].bound = planner.bound(rows[i].layout); });
  });
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].fate != LayoutFate::refused) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].bound < rows[b].bound; });
  return order;
}

}  // namespace detail

/// Plans on the layouts that can be best, and finds the one that takes the fewest seconds per trained token. Layouts are
/// planned in the order of their bounds, until a bound is no less than the best that was found; of layouts that take
/// equally long, the first in that order counts, and of equal bounds the first one given.
/// @param layouts at least one. @param threads that plan at once; the result is the same for any number.
/// @throws InvalidInput if all layouts are refused, with the reason of the one that came closest.
/// Complexity: a bound for each layout, and plans for those that can be best.
template <LayoutPlanner P>
[[nodiscard]] auto search_layouts(std::span<const Layout> layouts, const P& planner,
                                  std::size_t threads = 1) {
  using Planned = decltype(planner.plan(layouts.front()));
  require(!layouts.empty(), "there are no layouts; expected at least one");
  LayoutChoice<Planned> choice;
  std::vector<LayoutRow>& rows = choice.rows;
  for (const Layout& layout : layouts) rows.push_back({.layout = layout});
  const std::vector<std::size_t> order = detail::find_bounds(rows, planner, threads);
  detail::BestInOrder<Planned> best(rows, order);
  for_each_index(order.size(), threads, [&](std::size_t place) {
    LayoutRow row = rows[order[place]];
    std::optional<Planned> planned;
    if (best.worth_planning(place)) {
      detail::work_or_refuse(row, [&] {
        planned = planner.plan(row.layout);
        row.figures = planner.figures(*planned);
        row.fate = LayoutFate::planned;
      });
    }
    best.take(place, std::move(row), std::move(planned));
  });
  if (!best.best()) detail::refuse_layouts(rows, order);
  choice.layout = rows[*best.best()].layout;
  choice.planned = best.take_planned();
  return choice;
}

}  // namespace slimpack
