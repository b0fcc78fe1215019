#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/strategy/layouts.hpp"

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
  double bound = 0.0;          ///< seconds per trained token that every plan takes at least; 0: not known
  LayoutFigures figures = {};  ///< of what was planned
  std::string reason = {};     ///< of a refusal: the planner's message
};

namespace detail {

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

}  // namespace detail

}  // namespace slimpack
