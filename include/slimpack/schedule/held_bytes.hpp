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

/// What the rows of a pass bring to a stage, if packs recompute or offload differently.
struct RowBytes {
  std::vector<double> sums;   ///< [row + 1] activations of the rows before
  std::vector<double> moved;  ///< [row] tokens that have offloaded layers; empty if none have
};

/// Bytes that a stage of one pipeline holds, without what is always there:
/// - a forward task brings its tokens' activations, each by the layers that its backward pack recomputes;
/// - a backward task brings the KV gradients of the samples that it begins; when it ends, all that its tokens held goes;
/// - workspace, and what members exchange, is there while a task runs, and offloaded layers on their way;
/// - a pipeline counts what it holds of the packs that it shares (`MemberShare`).
///
/// A view of what it was made from.
class StageBytes {
 public:
  /// All packs recompute so many layers, and offload none.
  StageBytes(const Memory& memory, const Schedule& packs, const RowTokens& tokens, std::size_t p,
             std::size_t s, std::int32_t layers)
      : memory_(memory),
        packs_(packs),
        tokens_(tokens),
        forward_(tokens.of(p, Pass::forward)),
        backward_(tokens.of(p, Pass::backward)),
        stage_(s),
        most_layers_(layers),
        forward_sums_(forward_.sums.data()),
        backward_sums_(backward_.sums.data()),
        scale_(memory.activation_bytes(s, layers)),
        kv_gradient_(memory.kv_gradient_bytes(s)) {}

  /// Packs recompute at most so many layers. @param forward, backward of this pipeline and stage.
  StageBytes(const Memory& memory, const Schedule& packs, const RowTokens& tokens, std::size_t p,
             std::size_t s, std::int32_t most_layers, const RowBytes& forward, const RowBytes& backward)
      : StageBytes(memory, packs, tokens, p, s, most_layers) {
    forward_sums_ = forward.sums.data();
    backward_sums_ = backward.sums.data();
    scale_ = 1.0;
    forward_moved_ = forward.moved;
    backward_moved_ = backward.moved;
  }

  [[nodiscard]] const PassRowTokens& forward() const { return forward_; }
  [[nodiscard]] const PassRowTokens& backward() const { return backward_; }

  /// Activations, when `n` forward rows have begun and `k` backward rows have ended.
  [[nodiscard]] double activations(std::size_t n, std::size_t k) const {
    return scale_ * (forward_sums_[n] - backward_sums_[k]);
  }
  /// KV gradients, when `begun` backward rows have begun and `ended` of them have ended.
  [[nodiscard]] double kv_gradients(std::size_t begun, std::size_t ended) const {
    return kv_gradient_ * (backward_.started[begun] - backward_.sums[ended]);
  }

  /// While the task of a row runs, what members exchange included. @pre the pipeline runs a pack of it.
  [[nodiscard]] double forward_workspace(std::size_t row) const {
    const PackId pack = forward_.pack[row];
    return memory_.workspace_bytes(stage_, Pass::forward, forward_.own[row], tokens_.all(Pass::forward, pack),
                                   packs_.forward.sharers[pack], 0, forward_.exchange[row]);
  }
  [[nodiscard]] double backward_workspace(std::size_t row, std::int32_t layers) const {
    const PackId pack = backward_.pack[row];
    return memory_.workspace_bytes(stage_, Pass::backward, backward_.own[row],
                                   tokens_.all(Pass::backward, pack), packs_.backward.sharers[pack], layers,
                                   backward_.exchange[row]);
  }

  /// Layers on their way while the task of a row runs.
  [[nodiscard]] double forward_transit(std::size_t row) const { return transit(forward_moved_, row); }
  [[nodiscard]] double backward_transit(std::size_t row) const { return transit(backward_moved_, row); }

  /// No task of a pass needs more workspace and transit. O(packs that may need most).
  [[nodiscard]] double most_forward_task() const {
    return most_workspace(Pass::forward, forward_, 0) + most_transit(forward_moved_);
  }
  [[nodiscard]] double most_backward_task() const {
    return most_workspace(Pass::backward, backward_, most_layers_) + most_transit(backward_moved_);
  }
  /// The same of both passes.
  [[nodiscard]] double most_task() const { return std::max(most_forward_task(), most_backward_task()); }

  /// Most bytes that the stage holds at any task. Tasks are priced only where the largest workspace and transit would
  /// make a new peak. @param recompute that this was made for. O(rows).
  [[nodiscard]] double peak(const LeadTable& leads, const Recompute& recompute) const {
    const double forward_more = most_forward_task(), backward_more = most_backward_task();
    double peak = 0.0;
    std::size_t done = 0;
    for (std::size_t k = 0; k < backward_.pack.size(); ++k) {
      const std::size_t lead = leads(k, stage_);
      const double begun = kv_gradients(k, k);
      if (activations(lead, k) + begun + forward_more > peak) {
        for (std::size_t r = done; r < lead; ++r) {
          const double bytes = activations(r + 1, k) + begun;
          if (forward_.pack[r] != no_pack && bytes + forward_more > peak)
            peak = std::max(peak, bytes + forward_workspace(r) + forward_transit(r));
        }
      }
      done = std::max(done, lead);
      const double bytes = activations(lead, k) + kv_gradients(k + 1, k);
      if (backward_.pack[k] != no_pack && bytes + backward_more > peak)
        peak = std::max(
            peak, bytes + backward_workspace(k, recompute(backward_.pack[k], stage_)) + backward_transit(k));
    }
    return peak;
  }

 private:
  [[nodiscard]] double most_workspace(Pass pass, const PassRowTokens& rows, std::int32_t layers) const {
    double bytes = 0.0;
    for (const PassRowTokens::Largest& most : rows.largest)
      bytes = std::max(bytes, memory_.workspace_bytes(stage_, pass, most.own, most.all, most.sharers, layers,
                                                      most.exchange));
    return bytes;
  }

  [[nodiscard]] double transit(std::span<const double> moved, std::size_t row) const {
    return moved.empty() ? 0.0 : memory_.transit_bytes(stage_, static_cast<Tokens>(std::ceil(moved[row])));
  }
  [[nodiscard]] double most_transit(std::span<const double> moved) const {
    if (moved.empty()) return 0.0;
    return transit(moved,
                   static_cast<std::size_t>(std::max_element(moved.begin(), moved.end()) - moved.begin()));
  }

  const Memory& memory_;
  const Schedule& packs_;
  const RowTokens& tokens_;
  const PassRowTokens &forward_, &backward_;
  std::size_t stage_;
  std::int32_t most_layers_;                     // that a backward task recomputes
  const double *forward_sums_, *backward_sums_;  // [row + 1] of the rows before; activations once scaled
  double scale_, kv_gradient_;
  std::span<const double> forward_moved_, backward_moved_;  // [row] offloaded tokens; empty if none are
};

/// Bytes that the tasks of given packs hold, by pipeline and stage. Keeps its memory between calls.
class HeldBytes {
 public:
  /// @param lengths of all samples. @param memory has to outlive this. @param ranks context-parallel ranks of each pipeline.
  HeldBytes(std::span<const Tokens> lengths, const Memory& memory, std::size_t ranks)
      : memory_(memory), tokens_(lengths, ranks) {}

  /// Takes the packs that later calls are about; they have to outlive those. O(slices * members).
  void load(const Schedule& packs) {
    packs_ = &packs;
    tokens_.load(packs);
    overlaps_.clear();
  }

  [[nodiscard]] const Schedule& packs() const { return *packs_; }
  /// What the rows of the packs bring to each pipeline.
  [[nodiscard]] const RowTokens& tokens() const { return tokens_; }
  /// What the packs of both passes have in common, [pipeline]. O(1) after the first time, which is as `pack_overlaps`.
  [[nodiscard]] const std::vector<std::vector<PackOverlap>>& overlaps() {
    if (overlaps_.empty())
      overlaps_ =
          pack_overlaps(packs_->forward, {packs_->backward, packs_->backward_times.sharing, tokens_.ranks()},
                        tokens_.pipelines());
    return overlaps_;
  }

  /// Of a pipeline and stage, if all packs recompute so many layers. O(1).
  [[nodiscard]] StageBytes of(std::size_t p, std::size_t s, std::int32_t layers) const {
    return {memory_, *packs_, tokens_, p, s, layers};
  }
  /// Valid until the next call. O(1) if all packs recompute alike, otherwise O(overlaps + packs).
  [[nodiscard]] StageBytes of(std::size_t p, std::size_t s, const Recompute& recompute) {
    if (!recompute.per_pack()) return of(p, s, recompute(0, s));
    find_activations(p, s, recompute);
    forward_.moved.clear();
    backward_.moved.clear();
    if (recompute.offloads()) find_moved(p, s, recompute);
    return {memory_, *packs_, tokens_, p, s, most_layers(s, recompute), forward_, backward_};
  }

 private:
  void find_activations(std::size_t p, std::size_t s, const Recompute& recompute) {
    forward_.sums.assign(tokens_.of(p, Pass::forward).sums.size(), 0.0);
    backward_.sums.assign(tokens_.of(p, Pass::backward).sums.size(), 0.0);
    for (const PackOverlap& part : overlaps()[p]) {
      const double bytes = part.tokens * memory_.activation_bytes(s, recompute(part.backward_pack, s),
                                                                  recompute.offload(part.backward_pack, s));
      forward_.sums[part.forward_row + 1] += bytes;
      backward_.sums[part.backward_row + 1] += bytes;
    }
    for (auto* sums : {&forward_.sums, &backward_.sums}) {
      for (std::size_t r = 1; r < sums->size(); ++r) (*sums)[r] += (*sums)[r - 1];
    }
  }

  void find_moved(std::size_t p, std::size_t s, const Recompute& recompute) {
    forward_.moved.assign(tokens_.of(p, Pass::forward).pack.size(), 0.0);
    backward_.moved.assign(tokens_.of(p, Pass::backward).pack.size(), 0.0);
    for (const PackOverlap& part : overlaps()[p]) {
      if (recompute.offload(part.backward_pack, s) == 0) continue;
      forward_.moved[part.forward_row] += part.tokens;
      backward_.moved[part.backward_row] += part.tokens;
    }
  }

  [[nodiscard]] std::int32_t most_layers(std::size_t s, const Recompute& recompute) const {
    std::int32_t most = 0;
    for (std::size_t k = 0; k < packs_->backward.packs.size(); ++k) most = std::max(most, recompute(k, s));
    return most;
  }

  const Memory& memory_;
  const Schedule* packs_ = nullptr;
  RowTokens tokens_;
  std::vector<std::vector<PackOverlap>> overlaps_;  // [pipeline]; empty until they are needed
  RowBytes forward_, backward_;                     // of the pipeline and stage looked at last
};

}  // namespace slimpack
