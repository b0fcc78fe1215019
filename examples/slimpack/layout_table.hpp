#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "slimpack/strategy/layout_rows.hpp"

namespace slimpack::command {

/// A planner's table of layouts as text: the planned ones from the fastest on, then those that can't be the best, then those
/// that nothing can be planned on, with the reason. @param tokens of a batch.
std::string layouts_text(const std::string& planner, std::span<const LayoutRow> rows, double tokens);

/// The same as a list, in the same order.
nlohmann::ordered_json layouts_json(std::span<const LayoutRow> rows, double tokens);

/// A layout as `{"dp": …, "tp": …, "cp": …, "pp": …}`.
nlohmann::ordered_json layout_json(const Layout& layout);

}  // namespace slimpack::command
