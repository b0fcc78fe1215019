#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/milp/covering_neighbourhood.hpp"
#include "slimpack/milp/covering_program.hpp"

namespace slimpack::detail {

/// The best solution of a search, and how it is improved part by part.
/// @tparam Host as `CoveringSearch` takes it.
template <class Host>
class CoveringIncumbent {
 public:
  /// Both are kept.
  CoveringIncumbent(const CoveringProgram& program, Host& host)
      : program_(program), host_(host), neighbourhood_(program) {}

  /// Of the best solution; infinite if there is none yet.
  [[nodiscard]] double cost() const { return cost_; }
  /// Nodes with this bound or more hold nothing better.
  [[nodiscard]] double cutoff() const {
    return program_.step > 0.0 ? cost_ - 0.5 * program_.step : cost_ * (1.0 - 1e-9);
  }

  /// Takes a solution if it is better. @param open no solution in the nodes that are left costs less.
  void offer(std::span<const double> solution, double open) {
    const double cost = program_.objective(solution);
    // What a callback saw last is the result, so that nothing better may count after it has ended the search.
    if (cost >= cost_ || host_.should_stop()) return;
    cost_ = cost;
    best_.assign(solution.begin(), solution.end());
    host_.offer(solution, std::min(cost_, open));
  }

  /// Searches for a solution that is as good as the best one or better, and differs from the last one in few columns.
  /// @param strong the program, or a stronger one with the same solutions. @param solve returns a solution of the part
  /// that it is given, or nothing. @param open as `offer` takes it. @pre there is a solution.
  template <class Solve>
  void improve_part(const CoveringProgram& strong, Solve&& solve, double open) {
    if (last_good_.empty() || !is_good(last_good_)) last_good_ = best_;
    neighbourhood_.draw(part_size);
    const std::span<const std::uint32_t> columns = neighbourhood_.columns();
    const std::vector<double> part = solve(covering_part(strong, columns, last_good_));
    std::vector<double> solution = last_good_;
    for (std::size_t k = 0; k < part.size(); ++k) solution[columns[k]] = part[k];
    offer(solution, open);
    if (is_good(solution)) last_good_ = std::move(solution);
  }

 private:
  static constexpr std::size_t part_size = 24;  // columns

  [[nodiscard]] bool is_good(std::span<const double> solution) const {
    return program_.objective(solution) <= cost_ * (1.0 + 1e-9);
  }

  const CoveringProgram& program_;
  Host& host_;
  CoveringNeighbourhood neighbourhood_;
  double cost_ = std::numeric_limits<double>::infinity();
  std::vector<double> best_;       // solution
  std::vector<double> last_good_;  // one that costs as much, found in parts; or nothing
};

}  // namespace slimpack::detail
