#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/best_in_order.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/core/parallel.hpp"
#include "slimpack/strategy/layout_rows.hpp"

namespace slimpack {

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
  std::vector<double> bounds;
  bounds.reserve(order.size());
  for (const std::size_t i : order) bounds.push_back(rows[i].bound);
  BestInOrder<Planned> best(std::move(bounds));
  std::vector<LayoutRow> tried(order.size());
  for_each_index(order.size(), threads, [&](std::size_t place) {
    LayoutRow& row = tried[place] = rows[order[place]];
    std::optional<Planned> planned;
    double cost = std::numeric_limits<double>::infinity();
    if (best.worth_making(place)) {
      detail::work_or_refuse(row, [&] {
        planned = planner.plan(row.layout);
        row.figures = planner.figures(*planned);
        row.fate = LayoutFate::planned;
        cost = row.figures.seconds_per_token();
      });
    }
    best.take(place, cost, std::move(planned));
  });
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (best.counts(place)) rows[order[place]] = std::move(tried[place]);
  }
  if (!best.best()) detail::refuse_layouts(rows, order);
  choice.layout = rows[order[*best.best()]].layout;
  choice.planned = best.take_best();
  return choice;
}

}  // namespace slimpack
