#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "slimpack/milp/covering_neighbourhood.hpp"
#include "slimpack/milp/covering_program.hpp"

namespace slimpack::detail {

/// Strengthens a covering program by rows that say what blocks of consecutive columns cost at least. What the rows ask
/// of a block when all other columns are at their upper bounds is a small covering program; its bound, rounded up where
/// costs allow it, holds for every solution. Blocks grow, so that larger ones use the rows of smaller ones: rounding up
/// block by block is worth far more than rounding up the whole, where rows join neighbouring columns as checkpointing's
/// windows do.
class CoveringBlocks {
 public:
  explicit CoveringBlocks(const CoveringProgram& program) : strong_(program) {}

  /// The program with the rows added so far; it has the same solutions.
  [[nodiscard]] const CoveringProgram& program() const { return strong_; }

  /// Adds the rows of blocks from a few columns to all but a few.
  /// @param bound_of a proven bound of the program that it is given. @param stop whether to end here.
  template <class BoundOf, class Stop>
  void add_rows(BoundOf&& bound_of, Stop&& stop) {
    const std::size_t columns = strong_.columns();
    for (std::size_t width = least; width < columns; width += width / 2) {
      for (std::size_t first = 0; first + width / 2 < columns; first += std::max<std::size_t>(1, width / 4)) {
        if (stop()) return;
        add_row(first, std::min(columns, first + width), bound_of);
      }
    }
  }

 private:
  static constexpr std::size_t least = 4;  // columns of a block

  template <class BoundOf>
  void add_row(std::size_t first, std::size_t end, BoundOf&& bound_of) {
    columns_.resize(end - first);
    std::iota(columns_.begin(), columns_.end(), static_cast<std::uint32_t>(first));
    const CoveringProgram part = covering_part(strong_, columns_, strong_.upper);
    if (part.rows.size() == 0) return;
    const double bound = bound_of(part);
    const double largest = *std::max_element(part.cost.begin(), part.cost.end());
    if (bound <= 0.0) return;
    entries_.clear();
    for (const std::uint32_t j : columns_) entries_.push_back({j, strong_.cost[j] / largest});
    strong_.rows.add(entries_, bound / largest * (1.0 - 1e-9));
  }

  CoveringProgram strong_;
  std::vector<std::uint32_t> columns_;
  std::vector<CoveringRows::Entry> entries_;
};

}  // namespace slimpack::detail
