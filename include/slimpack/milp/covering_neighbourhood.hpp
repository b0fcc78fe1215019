#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "slimpack/milp/covering_program.hpp"

namespace slimpack::detail {

/// The covering program of some columns if all others have given values. @param columns ascending or not, each once.
[[nodiscard]] inline CoveringProgram covering_part(const CoveringProgram& program,
                                                   std::span<const std::uint32_t> columns,
                                                   std::span<const double> values) {
  constexpr std::uint32_t none = 0xffffffffU;
  std::vector<std::uint32_t> place(program.columns(), none);
  CoveringProgram made;
  for (const std::uint32_t j : columns) {
    place[j] = static_cast<std::uint32_t>(made.cost.size());
    made.cost.push_back(program.cost[j]);
    made.upper.push_back(program.upper[j]);
  }
  made.step = cost_step(made.cost);
  std::vector<CoveringRows::Entry> entries;
  for (std::size_t i = 0; i < program.rows.size(); ++i) {
    entries.clear();
    double needed = program.rows.rhs(i);
    for (const auto& entry : program.rows[i]) {
      if (place[entry.index] == none) {
        needed -= entry.coefficient * values[entry.index];
      } else {
        entries.push_back({place[entry.index], entry.coefficient});
      }
    }
    if (needed <= 0.0 || entries.empty()) continue;
    for (auto& entry : entries) entry.coefficient = std::min(entry.coefficient, needed);
    made.rows.add(entries, needed);
  }
  return made;
}

/// Draws parts of a covering program that stand close together: the rest of the columns stays as it is in a
/// solution, which leaves a small covering program. Drawn from a fixed seed.
class CoveringNeighbourhood {
 public:
  explicit CoveringNeighbourhood(const CoveringProgram& program)
      : program_(&program), drawn_(program.columns()) {}

  /// Draws columns that are connected by rows. @param count at most this many.
  void draw(std::size_t count) {
    if (by_column_.empty()) by_column_ = entries_by_column(*program_);
    std::fill(drawn_.begin(), drawn_.end(), std::uint8_t{0});
    columns_.clear();
    add(static_cast<std::uint32_t>(random_() % program_->columns()));
    for (std::size_t next = 0; next < columns_.size(); ++next) {
      for (const auto& place : by_column_[columns_[next]]) {
        for (const auto& entry : program_->rows[place.index]) {
          if (columns_.size() >= count) return;
          add(entry.index);
        }
      }
    }
  }

  [[nodiscard]] std::span<const std::uint32_t> columns() const { return columns_; }

 private:
  void add(std::uint32_t column) {
    if (drawn_[column] != 0) return;
    drawn_[column] = 1;
    columns_.push_back(column);
  }

  const CoveringProgram* program_;
  std::vector<std::vector<CoveringRows::Entry>> by_column_;  // empty until it is needed
  std::vector<std::uint32_t> columns_;
  std::vector<std::uint8_t> drawn_;  // [column]
  std::minstd_rand random_;
};

}  // namespace slimpack::detail
