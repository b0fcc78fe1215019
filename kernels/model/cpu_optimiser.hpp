#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/math/adamw.hpp"
#include "kernels/math/aligned.hpp"
#include "kernels/model/replicas.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/exec/budget.hpp"

namespace slimpack::kernels {

/// AdamW on a stage's weights in the host's memory, together with the other ranks that hold them.
template <class Real>
class CpuOptimiser {
 public:
  /// Takes memory for the moments of this rank's share of each unit of weights. @param memory counts it.
  /// @throws InvalidInput if that exceeds the limit.
  void begin(Replicas<Real> replicas, std::vector<WeightUnit> units, HighWater& memory) {
    std::size_t own = 0;
    for (const WeightUnit& unit : units) own += replicas.own_part(unit.numbers.size()).size();
    memory.take(2.0 * sizeof(Real) * static_cast<double>(own), " for the optimiser's moments");
    replicas_ = std::move(replicas);
    units_ = std::move(units);
    first_.resize(own);
    second_.resize(own);
  }

  /// Sums the gradients over the replicas, then makes one step. @param step from 1.
  void update(std::span<Real> weights, std::span<Real> gradients, std::int64_t step,
              const AdamWOptions& options) {
    std::size_t moments = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::span<Real> slopes = of(gradients, u), values = of(weights, u);
      const Part own = replicas_.own_part(values.size());
      if (replicas_.size > 1)
        (replicas_.sharded ? replicas_.reduce_scatter : replicas_.all_reduce)(u, slopes);
      const auto take = [&](auto& numbers) { return std::span(numbers).subspan(moments, own.size()); };
      adamw<Real>(values.subspan(own.begin, own.size()), slopes.subspan(own.begin, own.size()), take(first_),
                  take(second_), step, options);
      moments += own.size();
    }
    if (replicas_.size == 1 || !replicas_.sharded) return;
    for (std::size_t u = 0; u < units_.size(); ++u) replicas_.all_gather(u, of(weights, u));
  }

 private:
  [[nodiscard]] std::span<Real> of(std::span<Real> numbers, std::size_t unit) const {
    return numbers.subspan(units_[unit].numbers.begin, units_[unit].numbers.size());
  }

  Replicas<Real> replicas_;
  std::vector<WeightUnit> units_;
  AlignedVector<Real> first_, second_;
};

}  // namespace slimpack::kernels
