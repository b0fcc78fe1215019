#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/schedule/leads.hpp"
#include "slimpack/schedule/pack_overlaps.hpp"
#include "slimpack/schedule/recompute.hpp"
#include "slimpack/schedule/row_tokens.hpp"

namespace slimpack {

/// What backward packs are taken to do where their workspace counts.
enum class PackWorkspace : std::uint8_t {
  recomputing,  ///< all layers
  offloading,   ///< the same, and some layers of all packs are on their way from or to the host's memory
};

/// Knows whether, and how far, schedules of given packs fit into memory (SlimPack, section 4.3.3). Of each pipeline and
/// stage:
/// - a forward task brings its tokens' activations, each by the layers that its backward pack recomputes;
/// - a backward task brings the KV gradients of the samples that it begins; when it ends, all that its tokens held goes;
/// - workspace, and what members exchange, is there while a task runs, and offloaded layers on their way;
/// - a pipeline counts what it holds of the packs that it shares (`MemberShare`).
///
/// Keeps its memory between calls.
class MemoryFit {
 public:
  /// @param lengths of all samples. @param memory has to outlive this. @param ranks context-parallel ranks of each pipeline.
  MemoryFit(std::span<const Tokens> lengths, const Memory& memory, std::size_t ranks = 1)
      : memory_(memory), tokens_(lengths, ranks) {}

  /// Takes the packs that later calls are about; they have to outlive those. The prices of the packs say how ranks share
  /// them. O(slices * members).
  void load(const Schedule& packs) {
    packs_ = &packs;
    tokens_.load(packs);
    overlaps_.clear();
  }

  /// Whether a stage of all pipelines fits. @param recompute layers that are recomputed. O(pipelines * rows).
  [[nodiscard]] bool fits(const LeadTable& leads, std::size_t s, const Recompute& recompute) {
    for (std::size_t p = 0; p < pipelines(); ++p) {
      if (peak_tokens_bytes(p, s, leads, recompute) > memory_.room_bytes(s)) return false;
    }
    return true;
  }

  /// Most bytes of a stage, what is always there included. O(rows).
  [[nodiscard]] double peak_bytes(std::size_t p, std::size_t s, const LeadTable& leads,
                                  const Recompute& recompute) {
    return memory_.static_bytes(s) + peak_tokens_bytes(p, s, leads, recompute);
  }

  /// Bytes that a stage of a pipeline needs above its room from the end of backward row `k` - 1 to that of row `k`, if all it
  /// holds then is kept from the beginning, and nothing is recomputed; only the workspace is as `workspace` says. Not positive if
  /// that fits. O(forward rows in between).
  [[nodiscard]] double excess_bytes(std::size_t p, std::size_t s, const LeadTable& leads, std::size_t k,
                                    PackWorkspace workspace) const {
    const PassRowTokens &forward = tokens_.of(p, Pass::forward), &backward = tokens_.of(p, Pass::backward);
    const auto moved = [&](const PassRowTokens& rows, std::size_t row) {
      return workspace == PackWorkspace::offloading ? memory_.transit_bytes(s, rows.own[row]) : 0.0;
    };
    const std::size_t lead = leads(k, s);
    const double live = memory_.activation_bytes(s, 0) * (forward.sums[lead] - backward.sums[k]);
    const double gradient = memory_.kv_gradient_bytes(s);
    double peak = 0.0;
    for (std::size_t r = k == 0 ? 0 : leads(k - 1, s); r < lead; ++r) {
      if (forward.pack[r] != no_pack)
        peak = std::max(peak, live + gradient * (backward.started[k] - backward.sums[k]) +
                                  forward_workspace(p, s, r) + moved(forward, r));
    }
    if (backward.pack[k] != no_pack)
      peak = std::max(peak, live + gradient * (backward.started[k + 1] - backward.sums[k]) +
                                backward_workspace(p, s, k, memory_.recompute_limit(s)) + moved(backward, k));
    return peak - memory_.room_bytes(s);
  }

  /// What the rows of the packs bring to each pipeline.
  [[nodiscard]] const RowTokens& tokens() const { return tokens_; }

  /// What the packs of both passes have in common, [pipeline]. O(1) after the first time, which is as `pack_overlaps`.
  [[nodiscard]] const std::vector<std::vector<PackOverlap>>& overlaps() {
    if (overlaps_.empty())
      overlaps_ = pack_overlaps(
          packs_->forward, {packs_->backward, packs_->backward_times.sharing, tokens_.ranks()}, pipelines());
    return overlaps_;
  }

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
  /// Bytes of activations that rows bring and take, as sums over the rows before each index, times `scale`.
  struct Activations {
    const double* forward;
    const double* backward;
    double scale;

    [[nodiscard]] double live(std::size_t n, std::size_t k) const {
      return scale * (forward[n] - backward[k]);
    }
  };

  /// Bytes that a stage's peak is between.
  struct PeakBounds {
    double least = 0.0, most = 0.0;
  };

  /// Finds the most tokens that each pipeline holds on a stage, with and without KV gradients.
  void find_peaks(const LeadTable& leads, std::size_t s) {
    peak_live_.assign(pipelines(), 0.0);
    peak_gradients_.assign(pipelines(), 0.0);
    for (std::size_t p = 0; p < pipelines(); ++p) {
      const PassRowTokens &forward = tokens_.of(p, Pass::forward), &backward = tokens_.of(p, Pass::backward);
      for (std::size_t k = 0; k < backward.pack.size(); ++k) {
        peak_live_[p] = std::max(peak_live_[p], forward.sums[leads(k, s)] - backward.sums[k]);
        peak_gradients_[p] = std::max(peak_gradients_[p], backward.started[k + 1] - backward.sums[k]);
      }
    }
  }

  /// For the stage that `find_peaks` looked at last.
  [[nodiscard]] PeakBounds peak_bounds(std::size_t s, std::int32_t recompute) const {
    PeakBounds bounds;
    for (std::size_t p = 0; p < pipelines(); ++p) {
      const double live = memory_.activation_bytes(s, recompute) * peak_live_[p],
                   gradients = memory_.kv_gradient_bytes(s) * peak_gradients_[p];
      const double workspace =
          std::max(most_workspace(p, s, Pass::forward, 0), most_workspace(p, s, Pass::backward, recompute));
      bounds.least = std::max(bounds.least, live);
      bounds.most = std::max(bounds.most, live + gradients + workspace);
    }
    return bounds;
  }

  /// What a pipeline's packs bring and take on a stage, all recomputing so many layers.
  [[nodiscard]] Activations activations(std::size_t p, std::size_t s, std::int32_t layers) const {
    return {tokens_.of(p, Pass::forward).sums.data(), tokens_.of(p, Pass::backward).sums.data(),
            memory_.activation_bytes(s, layers)};
  }

  /// What a pipeline's packs bring and take on a stage.
  Activations activations(std::size_t p, std::size_t s, const Recompute& recompute) {
    forward_moved_.clear();
    backward_moved_.clear();
    if (!recompute.per_pack()) return activations(p, s, recompute(0, s));
    forward_bytes_.assign(tokens_.of(p, Pass::forward).sums.size(), 0.0);
    backward_bytes_.assign(tokens_.of(p, Pass::backward).sums.size(), 0.0);
    for (const PackOverlap& part : overlaps()[p]) {
      const double bytes = part.tokens * memory_.activation_bytes(s, recompute(part.backward_pack, s),
                                                                  recompute.offload(part.backward_pack, s));
      forward_bytes_[part.forward_row + 1] += bytes;
      backward_bytes_[part.backward_row + 1] += bytes;
    }
    if (recompute.offloads()) find_moved(p, s, recompute);
    for (auto* sums : {&forward_bytes_, &backward_bytes_}) {
      for (std::size_t r = 1; r < sums->size(); ++r) (*sums)[r] += (*sums)[r - 1];
    }
    return {forward_bytes_.data(), backward_bytes_.data(), 1.0};
  }

  /// Finds how many tokens of each row have offloaded layers.
  void find_moved(std::size_t p, std::size_t s, const Recompute& recompute) {
    forward_moved_.assign(tokens_.of(p, Pass::forward).pack.size(), 0.0);
    backward_moved_.assign(tokens_.of(p, Pass::backward).pack.size(), 0.0);
    for (const PackOverlap& part : overlaps()[p]) {
      if (recompute.offload(part.backward_pack, s) == 0) continue;
      forward_moved_[part.forward_row] += part.tokens;
      backward_moved_[part.backward_row] += part.tokens;
    }
  }

  /// Layers on their way while the task of a row runs. @param moved tokens of each row; none if it is empty.
  [[nodiscard]] double transit(std::size_t s, std::span<const double> moved, std::size_t row) const {
    return moved.empty() ? 0.0 : memory_.transit_bytes(s, static_cast<Tokens>(std::ceil(moved[row])));
  }
  [[nodiscard]] double most_transit(std::size_t s, std::span<const double> moved) const {
    if (moved.empty()) return 0.0;
    return transit(s, moved,
                   static_cast<std::size_t>(std::max_element(moved.begin(), moved.end()) - moved.begin()));
  }

  [[nodiscard]] double workspace(std::size_t s, Pass pass, PackId pack, Tokens own,
                                 std::int32_t recompute) const {
    const PackRows& rows = pass == Pass::forward ? packs_->forward : packs_->backward;
    return memory_.workspace_bytes(s, pass, own, tokens_.all(pass, pack), rows.sharers[pack], recompute);
  }
  [[nodiscard]] double forward_workspace(std::size_t p, std::size_t s, std::size_t row) const {
    const PassRowTokens& rows = tokens_.of(p, Pass::forward);
    return workspace(s, Pass::forward, rows.pack[row], rows.own[row], 0);
  }
  [[nodiscard]] double backward_workspace(std::size_t p, std::size_t s, std::size_t row,
                                          std::int32_t recompute) const {
    const PassRowTokens& rows = tokens_.of(p, Pass::backward);
    return workspace(s, Pass::backward, rows.pack[row], rows.own[row], recompute);
  }

  /// No task of a pass needs more. @param recompute_layers of a backward task, at most.
  [[nodiscard]] double most_workspace(std::size_t p, std::size_t s, Pass pass,
                                      std::int32_t recompute_layers) const {
    double bytes = 0.0;
    for (const PassRowTokens::Largest& most : tokens_.of(p, pass).largest)
      bytes = std::max(bytes,
                       memory_.workspace_bytes(s, pass, most.own, most.all, most.sharers, recompute_layers));
    return bytes;
  }

  [[nodiscard]] std::int32_t most_recompute(std::size_t s, const Recompute& recompute) const {
    if (!recompute.per_pack()) return recompute(0, s);
    std::int32_t most = 0;
    for (std::size_t k = 0; k < packs_->backward.packs.size(); ++k) most = std::max(most, recompute(k, s));
    return most;
  }

  /// Most bytes that tokens and workspace take. Tasks are priced only where the largest workspace would make a new peak.
  [[nodiscard]] double peak_tokens_bytes(std::size_t p, std::size_t s, const LeadTable& leads,
                                         const Recompute& recompute) {
    const PassRowTokens &forward = tokens_.of(p, Pass::forward), &backward = tokens_.of(p, Pass::backward);
    const Activations held = activations(p, s, recompute);
    const double gradient = memory_.kv_gradient_bytes(s);
    const double most_forward = most_workspace(p, s, Pass::forward, 0) + most_transit(s, forward_moved_),
                 most_backward = most_workspace(p, s, Pass::backward, most_recompute(s, recompute)) +
                                 most_transit(s, backward_moved_);
    double peak = 0.0;
    std::size_t done = 0;
    for (std::size_t k = 0; k < backward.pack.size(); ++k) {
      const std::size_t lead = leads(k, s);
      const double begun = gradient * (backward.started[k] - backward.sums[k]);
      if (held.live(lead, k) + begun + most_forward > peak) {
        for (std::size_t r = done; r < lead; ++r) {
          const double bytes = held.live(r + 1, k) + begun;
          if (forward.pack[r] != no_pack && bytes + most_forward > peak)
            peak = std::max(peak, bytes + forward_workspace(p, s, r) + transit(s, forward_moved_, r));
        }
      }
      done = std::max(done, lead);
      const double bytes = held.live(lead, k) + gradient * (backward.started[k + 1] - backward.sums[k]);
      if (backward.pack[k] != no_pack && bytes + most_backward > peak)
        peak = std::max(peak, bytes + backward_workspace(p, s, k, recompute(backward.pack[k], s)) +
                                  transit(s, backward_moved_, k));
    }
    return peak;
  }

  /// Whether a stage holds what backward rows require, all packs recomputing so many layers: `limit_stage` then finds
  /// leads that fit.
  [[nodiscard]] bool holds_required(std::span<const std::uint32_t> required, std::int32_t layers,
                                    std::size_t s) const {
    const double gradient = memory_.kv_gradient_bytes(s);
    for (std::size_t p = 0; p < pipelines(); ++p) {
      const PassRowTokens& backward = tokens_.of(p, Pass::backward);
      const Activations held = activations(p, s, layers);
      const double room = memory_.room_bytes(s) - std::max(most_workspace(p, s, Pass::forward, 0),
                                                           most_workspace(p, s, Pass::backward, layers));
      for (std::size_t k = 0; k < required.size(); ++k) {
        if (held.live(required[k], k) > room - gradient * (backward.started[k + 1] - backward.sums[k]))
          return false;
      }
    }
    return true;
  }

  bool limit_stage(std::span<const std::uint32_t> required, const Recompute& recompute, std::size_t s,
                   LeadTable& leads) {
    const auto forward_rows = static_cast<std::uint32_t>(packs_->forward.rows.size());
    fitting_.assign(packs_->backward.rows.size(), static_cast<std::int32_t>(forward_rows));
    for (std::size_t p = 0; p < pipelines(); ++p) lower_to_fitting(p, s, recompute);
    return limit_leads(fitting_, forward_rows, required, s, leads);
  }

  /// Lowers `fitting_` to what one pipeline's memory allows, the largest workspace at any time.
  void lower_to_fitting(std::size_t p, std::size_t s, const Recompute& recompute) {
    const PassRowTokens& backward = tokens_.of(p, Pass::backward);
    const Activations held = activations(p, s, recompute);
    const double room = memory_.room_bytes(s) -
                        std::max(most_workspace(p, s, Pass::forward, 0) + most_transit(s, forward_moved_),
                                 most_workspace(p, s, Pass::backward, most_recompute(s, recompute)) +
                                     most_transit(s, backward_moved_));
    const auto all = static_cast<std::int32_t>(tokens_.of(p, Pass::forward).pack.size());
    std::int32_t n = all;
    for (std::size_t k = fitting_.size(); k-- > 0;) {
      const double budget =
          room - memory_.kv_gradient_bytes(s) * (backward.started[k + 1] - backward.sums[k]);
      while (n < all && held.live(static_cast<std::size_t>(n) + 1, k) <= budget) ++n;
      while (n >= 0 && held.live(static_cast<std::size_t>(n), k) > budget) --n;
      fitting_[k] = std::min(fitting_[k], n);
    }
  }

  [[nodiscard]] std::size_t pipelines() const { return tokens_.pipelines(); }

  const Memory& memory_;
  const Schedule* packs_ = nullptr;
  RowTokens tokens_;
  std::vector<std::vector<PackOverlap>> overlaps_;      // [pipeline]; empty until they are needed
  std::vector<double> forward_bytes_, backward_bytes_;  // of the pipeline and stage looked at, by row
  std::vector<double> forward_moved_,
      backward_moved_;  // the same: tokens that have offloaded layers; empty if none
  std::vector<double> peak_live_, peak_gradients_;  // [pipeline] tokens on the stage looked at last
  std::vector<std::int32_t> fitting_;               // [backward row] of the stage that is being limited
};

}  // namespace slimpack
