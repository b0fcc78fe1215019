#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "slimpack/milp/covering_program.hpp"

namespace slimpack::detail {

/// Draws parts of a covering program that stand close together: the rest of the columns stays as it is in a
/// solution, which leaves a small covering program. Drawn from a fixed seed.
class CoveringNeighbourhood {
 public:
  explicit CoveringNeighbourhood(const CoveringProgram& program)
      : program_(&program), by_column_(entries_by_column(program)), place_(program.columns()) {}

  /// Draws columns that are connected by rows. @param count at most this many.
  void draw(std::size_t count) {
    std::fill(place_.begin(), place_.end(), none);
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

  /// The program of the drawn columns if all others are as in the solution.
  [[nodiscard]] CoveringProgram part(std::span<const double> solution) const {
    CoveringProgram made;
    for (const std::uint32_t j : columns_) {
      made.cost.push_back(program_->cost[j]);
      made.upper.push_back(program_->upper[j]);
    }
    made.step = cost_step(made.cost);
    std::vector<CoveringRows::Entry> entries;
    for (std::size_t i = 0; i < program_->rows.size(); ++i) {
      entries.clear();
      double needed = program_->rows.rhs(i);
      for (const auto& entry : program_->rows[i]) {
        if (place_[entry.index] == none) needed -= entry.coefficient * solution[entry.index];
        if (place_[entry.index] != none) entries.push_back({place_[entry.index], entry.coefficient});
      }
      if (needed <= 0.0 || entries.empty()) continue;
      for (auto& entry : entries) entry.coefficient = std::min(entry.coefficient, needed);
      made.rows.add(entries, needed);
    }
    return made;
  }

  [[nodiscard]] std::span<const std::uint32_t> columns() const { return columns_; }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;

  void add(std::uint32_t column) {
    if (place_[column] != none) return;
    place_[column] = static_cast<std::uint32_t>(columns_.size());
    columns_.push_back(column);
  }

  const CoveringProgram* program_;
  std::vector<std::vector<CoveringRows::Entry>> by_column_;
  std::vector<std::uint32_t> columns_;  // drawn
  std::vector<std::uint32_t> place_;    // [column] among the drawn
  std::minstd_rand random_;
};

}  // namespace slimpack::detail
