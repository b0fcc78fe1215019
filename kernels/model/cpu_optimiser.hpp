#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/math/adamw.hpp"
#include "kernels/math/aligned.hpp"
#include "kernels/model/replicas.hpp"
#include "slimpack/exec/budget.hpp"

namespace slimpack::kernels {

/// AdamW on a stage's weights in the host's memory, together with the stage's other replicas.
template <class Real>
class CpuOptimiser {
 public:
  /// Takes memory for the moments of this replica's share of n weights. @param memory counts it.
  /// @throws InvalidInput if that exceeds the limit.
  void begin(Replicas<Real> replicas, std::size_t n, HighWater& memory) {
    const std::size_t own = replicas.own_part(n).size();
    memory.take(2.0 * sizeof(Real) * static_cast<double>(own), " for the optimiser's moments");
    replicas_ = std::move(replicas);
    first_.resize(own);
    second_.resize(own);
  }

  /// Sums the gradients over the replicas, then makes one step. @param step from 1.
  void update(std::span<Real> weights, std::span<Real> gradients, std::int64_t step,
              const AdamWOptions& options) {
    const Part own = replicas_.own_part(weights.size());
    if (replicas_.size > 1) (replicas_.sharded ? replicas_.reduce_scatter : replicas_.all_reduce)(gradients);
    adamw<Real>(weights.subspan(own.begin, own.size()), gradients.subspan(own.begin, own.size()), first_,
                second_, step, options);
    if (replicas_.size > 1 && replicas_.sharded) replicas_.all_gather(weights);
  }

 private:
  Replicas<Real> replicas_;
  AlignedVector<Real> first_, second_;
};

}  // namespace slimpack::kernels
