#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/ragged.hpp"
#include "slimpack/milp/back_end.hpp"
#include "slimpack/schedule/checkpoint_windows.hpp"
#include "slimpack/schedule/recompute.hpp"

namespace slimpack {

/// What each diagonal of backward rows and stages recomputes: stage `s` of row `k` and stage `s` + 1 of row `k` + 1 recompute
/// as many layers, because a stage that recomputes delays its neighbours, which can then recompute at no cost (InfiniPipe,
/// section 3.3.3, Eq. 15 and 16).
struct CheckpointDiagonals {
  std::size_t rows = 0, stages = 0;

  [[nodiscard]] std::size_t count() const { return rows == 0 ? 0 : rows + stages - 1; }
  [[nodiscard]] std::size_t of(std::size_t k, std::size_t s) const { return k + stages - 1 - s; }
};

/// The checkpointing program (InfiniPipe, Algorithm 2 and Eq. 20): how many layers each diagonal recomputes, so that
/// all windows fit and the weighted sum is least. A pure covering program, with a variable for each of `diagonals`.
/// @param windows [pipeline * stages + stage]. @param cost of a recomputed layer of each diagonal; the paper takes them
/// to be equal.
/// @returns nothing if recomputing all layers is too little.
/// O(sum of windows).
[[nodiscard]] inline std::optional<MilpModel> checkpointing_program(
    std::span<const CheckpointWindows> windows, const CheckpointDiagonals& diagonals, const Memory& memory,
    std::span<const double> cost) {
  constexpr double tolerance = 1e-5;  // tokens: more than a solver's
  std::int32_t most = 0;
  for (std::size_t s = 0; s < diagonals.stages; ++s) most = std::max(most, memory.recompute_limit(s));
  MilpModel model;
  std::vector<Term> terms;
  for (std::size_t j = 0; j < diagonals.count(); ++j) {
    model.add_variable({}, 0.0, most, VariableKind::integer);
    terms.push_back({static_cast<VariableId>(j), cost[j]});
  }
  model.set_objective(Direction::minimise, terms);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::size_t s = i % diagonals.stages;
    // A stage with fewer layers than others recomputes all of them when a diagonal does; before that it is taken to lag.
    const double share = most == 0 ? 0.0 : double(memory.recompute_limit(s)) / most;
    for (std::size_t k = 0; k < windows[i].needed.size(); ++k) {
      if (windows[i].needed[k] <= 0.0) continue;
      terms.clear();
      double all = 0.0;
      for (const HeldTokens& held : windows[i].held[k]) {
        if (share == 0.0) break;
        terms.push_back({static_cast<VariableId>(diagonals.of(held.backward_row, s)), share * held.tokens});
        all += share * held.tokens * most;
      }
      const double needed = windows[i].needed[k] + tolerance;
      if (all < needed) return std::nullopt;
      model.add_row({}, needed, no_bound, terms);
    }
  }
  return model;
}

/// Takes back recomputation that no window of a stage needs, from the last backward row to the first.
/// @param windows of the stage, [pipeline]. @param layers of the stage that each backward row recomputes; lowered.
/// O(sum of windows).
inline void strip_recompute(std::span<const CheckpointWindows* const> windows,
                            std::span<std::int32_t> layers) {
  struct Window {
    double slack;                      // tokens times layers above what is needed
    std::span<const HeldTokens> held;  // without the rows after the one that is looked at
  };
  const std::size_t rows = layers.size();
  std::vector<Window> all;                                      // [pipeline * rows + backward row]
  std::vector<std::size_t> first(windows.size() * rows, rows);  // the same; window that holds it first
  for (std::size_t p = 0; p < windows.size(); ++p) {
    for (std::size_t k = 0; k < rows; ++k) {
      Window& own = all.emplace_back(Window{-windows[p]->needed[k], windows[p]->held[k]});
      for (const HeldTokens& held : own.held) {
        own.slack += held.tokens * layers[held.backward_row];
        std::size_t& known = first[p * rows + held.backward_row];
        known = std::min(known, k);
      }
    }
  }
  const auto tokens_of = [](std::size_t b, Window& window) {
    while (!window.held.empty() && window.held.back().backward_row > b)
      window.held = window.held.first(window.held.size() - 1);
    return window.held.empty() || window.held.back().backward_row < b ? 0.0 : window.held.back().tokens;
  };
  for (std::size_t b = rows; b-- > 0;) {
    auto spare = static_cast<double>(layers[b]);
    for (std::size_t p = 0; p < windows.size(); ++p) {
      for (std::size_t k = first[p * rows + b]; k <= b && spare >= 1.0; ++k) {
        Window& window = all[p * rows + k];
        const double tokens = tokens_of(b, window);
        if (tokens > 0.0) spare = std::min(spare, std::max(0.0, window.slack) / tokens);
      }
    }
    const auto taken = static_cast<std::int32_t>(std::floor(spare));
    if (taken == 0) continue;
    layers[b] -= taken;
    for (std::size_t p = 0; p < windows.size(); ++p) {
      for (std::size_t k = first[p * rows + b]; k <= b; ++k)
        all[p * rows + k].slack -= tokens_of(b, all[p * rows + k]) * taken;
    }
  }
}

/// What each backward pack recomputes, and how good that is.
struct Checkpoints {
  Recompute recompute;
  double cost = 0.0;   ///< of all diagonals, as the program counts it
  double bound = 0.0;  ///< no choice by diagonals costs less
};

/// What each backward pack recomputes if diagonals recompute so many layers, less what single stages do not need.
/// @param backward the packs of the windows. @param layers [diagonal]. O(sum of windows).
[[nodiscard]] inline Recompute recompute_by_diagonals(const PackRows& backward,
                                                      std::span<const CheckpointWindows> windows,
                                                      const Memory& memory,
                                                      std::span<const std::int32_t> layers) {
  const CheckpointDiagonals diagonals{backward.rows.size(), memory.stages()};
  std::vector<std::int32_t> of_pack(backward.packs.size() * diagonals.stages), of_row(diagonals.rows);
  for (std::size_t s = 0; s < diagonals.stages; ++s) {
    for (std::size_t k = 0; k < diagonals.rows; ++k)
      of_row[k] = std::min(memory.recompute_limit(s), layers[diagonals.of(k, s)]);
    std::vector<const CheckpointWindows*> of_stage;
    for (std::size_t i = s; i < windows.size(); i += diagonals.stages) of_stage.push_back(&windows[i]);
    strip_recompute(of_stage, of_row);
    for (std::size_t k = 0; k < diagonals.rows; ++k) {
      for (const PackId pack : backward.rows[k]) of_pack[pack * diagonals.stages + s] = of_row[k];
    }
  }
  return {diagonals.stages, std::move(of_pack)};
}

/// Stage-aware checkpointing of chunks (InfiniPipe, section 3.3.3): solves the program of given windows, and takes back
/// what single stages do not need. @param backward the packs of the windows. @param cost of a recomputed layer,
/// [diagonal].
/// @param solve as `MilpSolver`. @returns nothing if recomputing all layers is too little, or the solver has no
/// solution.
template <MilpSolver S>
[[nodiscard]] std::optional<Checkpoints> choose_checkpoints(const PackRows& backward,
                                                            std::span<const CheckpointWindows> windows,
                                                            const Memory& memory,
                                                            std::span<const double> cost, S&& solve,
                                                            const MilpOptions& options = {}) {
  const CheckpointDiagonals diagonals{backward.rows.size(), memory.stages()};
  const std::optional<MilpModel> model = checkpointing_program(windows, diagonals, memory, cost);
  if (!model) return std::nullopt;
  const MilpResult result = solve(*model, options);
  if (!result.has_solution()) return std::nullopt;
  std::vector<std::int32_t> layers;
  for (const double value : result.values) layers.push_back(static_cast<std::int32_t>(std::lround(value)));
  return Checkpoints{recompute_by_diagonals(backward, windows, memory, layers), result.objective,
                     result.bound};
}

/// A quick choice without a solver: windows in the order of their last diagonals, each of which recomputes what it
/// still needs on its last diagonals, which later windows share. With equal chunks, no choice of diagonals has fewer
/// layers.
/// @returns nothing if recomputing all layers is too little. O(sum of windows), and to sort them.
[[nodiscard]] inline std::optional<Recompute> quick_checkpoints(const PackRows& backward,
                                                                std::span<const CheckpointWindows> windows,
                                                                const Memory& memory) {
  struct Window {
    std::size_t last, index, row;
  };
  const CheckpointDiagonals diagonals{backward.rows.size(), memory.stages()};
  std::vector<Window> order;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    for (std::size_t k = 0; k < windows[i].needed.size(); ++k) {
      if (windows[i].needed[k] <= 0.0) continue;
      if (windows[i].held[k].empty()) return std::nullopt;
      order.push_back({diagonals.of(windows[i].held[k].back().backward_row, i % diagonals.stages), i, k});
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Window& a, const Window& b) { return a.last < b.last; });
  std::vector<std::int32_t> layers(diagonals.count(), 0);
  for (const Window& window : order) {
    const std::size_t s = window.index % diagonals.stages;
    const std::int32_t most = memory.recompute_limit(s);
    const auto held = windows[window.index].held[window.row];
    double needed = windows[window.index].needed[window.row];
    for (std::size_t i = 0; i < held.size() && needed > 0.0; ++i)
      needed -= held[i].tokens * std::min(most, layers[diagonals.of(held[i].backward_row, s)]);
    for (std::size_t i = held.size(); i-- > 0 && needed > 0.0;) {
      std::int32_t& own = layers[diagonals.of(held[i].backward_row, s)];
      const double more = std::min(std::ceil(needed / held[i].tokens), double(most) - own);
      if (more <= 0.0) continue;
      own += static_cast<std::int32_t>(more);
      needed -= more * held[i].tokens;
    }
    if (needed > 0.0) return std::nullopt;
  }
  return recompute_by_diagonals(backward, windows, memory, layers);
}

/// What recomputing a layer on each diagonal costs: the seconds of the slowest of its packs and stages.
/// @param seconds [backward pack * stages + stage] of recomputing a layer; empty if no layer may be. O(packs * stages).
[[nodiscard]] inline std::vector<double> diagonal_costs(const PackRows& backward, std::size_t stages,
                                                        std::span<const double> seconds) {
  const CheckpointDiagonals diagonals{backward.rows.size(), stages};
  std::vector<double> cost(diagonals.count(), 0.0);
  if (seconds.empty()) return cost;
  for (std::size_t k = 0; k < diagonals.rows; ++k) {
    for (const PackId pack : backward.rows[k]) {
      for (std::size_t s = 0; s < stages; ++s) {
        double& own = cost[diagonals.of(k, s)];
        own = std::max(own, seconds[pack * stages + s]);
      }
    }
  }
  return cost;
}

}  // namespace slimpack
