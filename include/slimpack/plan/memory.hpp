#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack {

/// Bytes that a stage holds from a moment on, until the next point.
struct MemoryPoint {
  double seconds = 0.0;
  double bytes = 0.0;
};

/// Memory of every stage over time.
struct MemoryCurves {
  std::vector<std::vector<std::vector<MemoryPoint>>> stages;  ///< [pipeline][stage], by time
  std::vector<std::vector<double>> peak_bytes;                ///< [pipeline][stage]
};

namespace detail {

/// Looks up what a plan's tasks bring into memory and take out of it.
class PackMemory {
 public:
  explicit PackMemory(const Plan& plan) : plan_(plan) {
    share(plan.forward, forward_share_);
    share(plan.backward, backward_share_);
    match_slices();
  }

  /// Tokens of a pack on each of its members.
  [[nodiscard]] double tokens(Task task) const {
    return tokens_of(plan_.of(task.pass).packs[task.pack], task.pass == Pass::forward ? forward_share_[task.pack]
                                                                                     : backward_share_[task.pack]);
  }

  /// Bytes that a pack's tokens hold from forward to backward, in either pass; each token by the recomputation of its
  /// backward pack.
  template <MemoryModel M>
  [[nodiscard]] double activations(Task task, std::size_t stage, const M& memory) const {
    const auto per_token = [&](PackId backward) {
      return memory.activation_bytes(stage, plan_.backward.recompute_layers[backward][stage]);
    };
    if (task.pass == Pass::backward) return tokens(task) * per_token(task.pack);
    double bytes = 0.0;
    for (const Overlap& part : overlaps_[task.pack]) bytes += part.tokens * per_token(part.backward);
    return bytes;
  }

  /// Tokens, on each member, of the samples whose backward pass begins with this pack.
  [[nodiscard]] double started(PackId backward) const {
    double sum = 0.0;
    for (const Slice& slice : plan_.backward.packs[backward]) {
      if (slice.end == plan_.tokens[slice.sample]) {
        sum += static_cast<double>(plan_.tokens[slice.sample]) / backward_share_[backward];
      }
    }
    return sum;
  }

 private:
  struct Overlap {
    PackId backward;
    double tokens;
  };

  static void share(const PassPlan& pass, std::vector<double>& members) {
    for (std::size_t k = 0; k < pass.packs.size(); ++k) members.push_back(static_cast<double>(pass.pipelines[k].size()));
  }
  static double tokens_of(std::span<const Slice> pack, double members) {
    return static_cast<double>(count_tokens(pack)) / members;
  }

  struct Piece {
    Slice slice;
    PackId pack;
  };
  static std::vector<Piece> pieces(const Packs& packs) {
    std::vector<Piece> all;
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) all.push_back({slice, static_cast<PackId>(k)});
    }
    std::sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) {
      return a.slice.sample != b.slice.sample ? a.slice.sample < b.slice.sample : a.slice.begin < b.slice.begin;
    });
    return all;
  }

  /// Which backward packs the tokens of each forward pack go to.
  void match_slices() {
    overlaps_.resize(plan_.forward.packs.size());
    const std::vector<Piece> forward = pieces(plan_.forward.packs), backward = pieces(plan_.backward.packs);
    std::size_t b = 0;
    for (const Piece& f : forward) {
      while (b < backward.size() && (backward[b].slice.sample < f.slice.sample ||
                                     (backward[b].slice.sample == f.slice.sample && backward[b].slice.end <= f.slice.begin))) {
        ++b;
      }
      for (std::size_t i = b; i < backward.size() && backward[i].slice.sample == f.slice.sample &&
                              backward[i].slice.begin < f.slice.end; ++i) {
        const Tokens common = std::min(f.slice.end, backward[i].slice.end) - std::max(f.slice.begin, backward[i].slice.begin);
        overlaps_[f.pack].push_back({backward[i].pack, static_cast<double>(common) / forward_share_[f.pack]});
      }
    }
  }

  const Plan& plan_;
  std::vector<double> forward_share_, backward_share_;  // [pack] members
  std::vector<std::vector<Overlap>> overlaps_;          // [forward pack]
};

}  // namespace detail

/// Memory over time, event by event (SlimPack, section 4.3.3). When a forward task starts, its pack's activations and
/// KV cache come; when a backward task starts, the KV gradients of all tokens of the samples that it begins; when it
/// ends, everything that its tokens held goes. Workspace is there while a task runs. On each of g pipelines a
/// merged pack counts the g-th part of its tokens.
/// @param memory model of every pipeline's stages.
/// @throws InvalidInput if the plan's backward packs have no `recompute_layers`.
/// Complexity: O(tasks * slices per pack).
template <MemoryModel M>
[[nodiscard]] MemoryCurves memory_over_time(const Plan& plan, const Timeline& timeline, const M& memory) {
  require(plan.backward.recompute_layers.size() == plan.backward.packs.size(),
          "the plan's backward packs lack recompute_layers");
  const detail::PackMemory packs(plan);
  MemoryCurves curves;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    auto& stages = curves.stages.emplace_back();
    auto& peaks = curves.peak_bytes.emplace_back();
    for (std::size_t s = 0; s < plan.pipelines[p].order.size(); ++s) {
      auto& curve = stages.emplace_back();
      double held = memory.static_bytes(s), peak = held;
      curve.push_back({0.0, held});
      const auto& order = plan.pipelines[p].order[s];
      for (std::size_t i = 0; i < order.size(); ++i) {
        const Task task = order[i];
        if (task.pass == Pass::weight) continue;
        const bool backward = task.pass == Pass::backward;
        const TaskTime& time = timeline.stages[p][s][i];
        const int again = backward ? plan.backward.recompute_layers[task.pack][s] : 0;
        const double tokens = packs.tokens(task), activations = packs.activations(task, s, memory);
        const double gradient = memory.kv_gradient_bytes(s);
        held += backward ? gradient * packs.started(task.pack) : activations;
        const double work = memory.workspace_bytes(s, task.pass, static_cast<Tokens>(std::ceil(tokens)), again);
        curve.push_back({time.start, held + work});
        peak = std::max(peak, held + work);
        if (backward) held -= activations + gradient * tokens;
        curve.push_back({time.finish, held});
      }
      peaks.push_back(peak);
    }
  }
  return curves;
}

}  // namespace slimpack
