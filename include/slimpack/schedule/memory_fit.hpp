#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/schedule/excess_bytes.hpp"
#include "slimpack/schedule/held_bytes.hpp"
#include "slimpack/schedule/leads.hpp"

namespace slimpack {

/// Knows whether, and how far, schedules of given packs fit into memory (SlimPack, section 4.3.3), by what their tasks hold
/// (`HeldBytes`). Keeps its memory between calls.
class MemoryFit {
 public:
  /// @param lengths of all samples. @param memory has to outlive this. @param ranks context-parallel ranks of each pipeline.
  MemoryFit(std::span<const Tokens> lengths, const Memory& memory, std::size_t ranks = 1)
      : memory_(memory), held_(lengths, memory, ranks) {}

  /// Takes the packs that later calls are about; they have to outlive those. The prices of the packs say how ranks share
  /// them. O(slices * members).
  void load(const Schedule& packs) { held_.load(packs); }

  /// Whether a stage of all pipelines fits. @param recompute layers that are recomputed. O(pipelines * rows).
  [[nodiscard]] bool fits(const LeadTable& leads, std::size_t s, const Recompute& recompute) {
    for (std::size_t p = 0; p < pipelines(); ++p) {
      if (held_.of(p, s, recompute).peak(leads, recompute) > memory_.room_bytes(s)) return false;
    }
    return true;
  }

  /// Most bytes of a stage, what is always there included. O(rows).
  [[nodiscard]] double peak_bytes(std::size_t p, std::size_t s, const LeadTable& leads,
                                  const Recompute& recompute) {
    return memory_.static_bytes(s) + held_.of(p, s, recompute).peak(leads, recompute);
  }

  /// What a stage of a pipeline needs above its room. Valid until other packs are loaded. O(packs that may need most).
  [[nodiscard]] ExcessBytes excess(std::size_t p, std::size_t s, PackWorkspace workspace) const {
    const std::int32_t limit = memory_.recompute_limit(s);
    return {memory_, held_.of(p, s, 0), s, workspace, held_.of(p, s, limit).most_task()};
  }

  /// As `HeldBytes` has them.
  [[nodiscard]] const RowTokens& tokens() const { return held_.tokens(); }
  [[nodiscard]] const std::vector<std::vector<PackOverlap>>& overlaps() { return held_.overlaps(); }

  /// Fewest layers, the same for all packs, that a stage has to recompute so that it fits; -1 if all are too few.
  /// O(pipelines * rows) for each number of layers between what surely does and surely does not fit.
  [[nodiscard]] std::int32_t least_recompute(const LeadTable& leads, std::size_t s) {
    find_peaks(leads, s);
    std::vector<std::int32_t> layers(memory_.stages(), 0);
    for (; layers[s] <= memory_.recompute_limit(s); ++layers[s]) {
      const PeakBounds bounds = peak_bounds(s, layers[s]);
      if (bounds.least > memory_.room_bytes(s)) continue;
      if (bounds.most <= memory_.room_bytes(s) || fits(leads, s, Recompute(layers))) return layers[s];
    }
    return -1;
  }

  /// Lowers the leads to what memory allows. @param required from `required_rows`.
  /// @returns whether all stages fit. O(pipelines * rows * stages).
  bool limit(std::span<const std::uint32_t> required, const Recompute& recompute, LeadTable& leads) {
    for (std::size_t s = 0; s < memory_.stages(); ++s) {
      if (!limit_stage(required, recompute, s, leads)) return false;
    }
    return true;
  }

  /// Lowers the leads to what memory allows, stages recomputing as few layers as that takes, but no fewer than
  /// `layers`, which are raised. @returns whether all stages fit. O(layers * pipelines * rows * stages).
  bool limit(std::span<const std::uint32_t> required, std::vector<std::int32_t>& layers, LeadTable& leads) {
    for (std::size_t s = 0; s < memory_.stages(); ++s) {
      while (!holds_required(required, layers[s], s)) {
        if (layers[s] >= memory_.recompute_limit(s)) return false;
        ++layers[s];
      }
      (void)limit_stage(required, Recompute(layers), s, leads);
    }
    return true;
  }

 private:
  /// Bytes that a stage's peak is between.
  struct PeakBounds {
    double least = 0.0, most = 0.0;
  };
  /// Most tokens that a pipeline holds on a stage, and most that have KV gradients.
  struct PeakTokens {
    double live = 0.0, gradients = 0.0;
  };

  void find_peaks(const LeadTable& leads, std::size_t s) {
    peaks_.assign(pipelines(), {});
    for (std::size_t p = 0; p < pipelines(); ++p) {
      const PassRowTokens &forward = tokens().of(p, Pass::forward),
                          &backward = tokens().of(p, Pass::backward);
      for (std::size_t k = 0; k < backward.pack.size(); ++k) {
        peaks_[p].live = std::max(peaks_[p].live, forward.sums[leads(k, s)] - backward.sums[k]);
        peaks_[p].gradients = std::max(peaks_[p].gradients, backward.started[k + 1] - backward.sums[k]);
      }
    }
  }

  /// For the stage that `find_peaks` looked at last.
  [[nodiscard]] PeakBounds peak_bounds(std::size_t s, std::int32_t layers) const {
    PeakBounds bounds;
    for (std::size_t p = 0; p < pipelines(); ++p) {
      const double live = memory_.activation_bytes(s, layers) * peaks_[p].live,
                   gradients = memory_.kv_gradient_bytes(s) * peaks_[p].gradients;
      bounds.least = std::max(bounds.least, live);
      bounds.most = std::max(bounds.most, live + gradients + held_.of(p, s, layers).most_task());
    }
    return bounds;
  }

  /// Whether a stage holds what backward rows require, all packs recomputing so many layers: `limit_stage` then finds
  /// leads that fit.
  [[nodiscard]] bool holds_required(std::span<const std::uint32_t> required, std::int32_t layers,
                                    std::size_t s) const {
    for (std::size_t p = 0; p < pipelines(); ++p) {
      const StageBytes held = held_.of(p, s, layers);
      const double room = memory_.room_bytes(s) - held.most_task();
      for (std::size_t k = 0; k < required.size(); ++k) {
        if (held.activations(required[k], k) > room - held.kv_gradients(k + 1, k)) return false;
      }
    }
    return true;
  }

  bool limit_stage(std::span<const std::uint32_t> required, const Recompute& recompute, std::size_t s,
                   LeadTable& leads) {
    const auto forward_rows = static_cast<std::uint32_t>(held_.packs().forward.rows.size());
    fitting_.assign(held_.packs().backward.rows.size(), static_cast<std::int32_t>(forward_rows));
    for (std::size_t p = 0; p < pipelines(); ++p) lower_to_fitting(p, s, recompute);
    return limit_leads(fitting_, forward_rows, required, s, leads);
  }

  /// Lowers `fitting_` to what one pipeline's memory allows, the largest workspace at any time.
  void lower_to_fitting(std::size_t p, std::size_t s, const Recompute& recompute) {
    const StageBytes held = held_.of(p, s, recompute);
    const double room = memory_.room_bytes(s) - held.most_task();
    const auto all = static_cast<std::int32_t>(held.forward().pack.size());
    std::int32_t n = all;
    for (std::size_t k = fitting_.size(); k-- > 0;) {
      const double budget = room - held.kv_gradients(k + 1, k);
      while (n < all && held.activations(static_cast<std::size_t>(n) + 1, k) <= budget) ++n;
      while (n >= 0 && held.activations(static_cast<std::size_t>(n), k) > budget) --n;
      fitting_[k] = std::min(fitting_[k], n);
    }
  }

  [[nodiscard]] std::size_t pipelines() const { return tokens().pipelines(); }

  const Memory& memory_;
  HeldBytes held_;
  std::vector<PeakTokens> peaks_;      // [pipeline] on the stage looked at last
  std::vector<std::int32_t> fitting_;  // [backward row] of the stage that is being limited
};

}  // namespace slimpack
