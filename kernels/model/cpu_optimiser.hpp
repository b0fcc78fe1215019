#pragma once

#include <algorithm>
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
  /// Takes memory for the moments of this rank's share of each piece of weights. @param memory counts it.
  /// @throws InvalidInput if that exceeds the limit.
  void begin(Replicas<Real> replicas, std::vector<WeightPiece> pieces, HighWater& memory) {
    std::size_t own = 0;
    replicas_ = std::move(replicas);
    pieces_ = std::move(pieces);
    for (const WeightPiece& piece : pieces_) own += own_part(piece).size();
    memory.take(2.0 * sizeof(Real) * static_cast<double>(own), " for the optimiser's moments");
    first_.resize(own);
    second_.resize(own);
  }

  /// Sums the gradients over the replicas, then makes one step. @param step from 1.
  void update(std::span<Real> weights, std::span<Real> gradients, std::int64_t step,
              const AdamWOptions& options) {
    std::size_t moments = 0;
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const auto sum = replicas_.sharded ? replicas_.reduce_scatter : replicas_.all_reduce;
      if (holders(pieces_[p]) > 1) exchange(p, gradients, sum);
      for_each_run(pieces_[p], own_part(pieces_[p]), [&](const Part& run) {
        const auto take = [&](auto& numbers) { return std::span(numbers).subspan(moments, run.size()); };
        adamw<Real>(weights.subspan(run.begin, run.size()), gradients.subspan(run.begin, run.size()),
                    take(first_), take(second_), step, options);
        moments += run.size();
      });
    }
    if (!replicas_.sharded) return;
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      if (holders(pieces_[p]) > 1) exchange(p, weights, replicas_.all_gather);
    }
  }

 private:
  [[nodiscard]] bool common(const WeightPiece& piece) const {
    return replicas_.shares > 1 && piece.share == replicas_.shares;
  }
  [[nodiscard]] std::size_t holders(const WeightPiece& piece) const {
    return common(piece) ? replicas_.common_size : replicas_.size;
  }
  [[nodiscard]] Part own_part(const WeightPiece& piece) const {
    return replicas_.own_part(piece.size(), common(piece));
  }

  /// Calls f(place in the flat buffers) for numbers `part` of a piece.
  template <class F>
  static void for_each_run(const WeightPiece& piece, const Part& part, F&& f) {
    std::size_t before = 0;
    for (const Part& run : piece.runs) {
      const std::size_t begin = std::max(part.begin, before), end = std::min(part.end, before + run.size());
      if (begin < end) f(Part{run.begin + begin - before, run.begin + end - before});
      before += run.size();
    }
  }

  /// Numbers that don't stand one after another travel in a copy, as messages do.
  void exchange(std::size_t p, std::span<Real> numbers, const typename Replicas<Real>::Operation& operation) {
    const std::vector<Part>& runs = pieces_[p].runs;
    if (runs.size() == 1) return operation(p, numbers.subspan(runs[0].begin, runs[0].size()));
    message_.resize(pieces_[p].size());
    std::size_t at = 0;
    for (const Part& run : runs) {
      std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(run.begin), run.size(), &message_[at]);
      at += run.size();
    }
    operation(p, message_);
    at = 0;
    for (const Part& run : runs) {
      std::copy_n(&message_[at], run.size(), numbers.begin() + static_cast<std::ptrdiff_t>(run.begin));
      at += run.size();
    }
  }

  Replicas<Real> replicas_;
  std::vector<WeightPiece> pieces_;
  AlignedVector<Real> first_, second_;
  std::vector<Real> message_;
};

}  // namespace slimpack::kernels
