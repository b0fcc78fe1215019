#pragma once

#include <limits>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/high_water.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/plan/memory.hpp"

namespace slimpack {

/// Counts what a stage holds while it runs, by a memory model's bytes per token:
/// - static bytes, always;
/// - from the start of a forward task, the activations of the tokens that this member holds, by the layers
///   that their backward packs recompute and offload; what is offloaded counts apart, as the host's;
/// - from the start of a sample's first backward task, the KV gradients of all its tokens that this member
///   holds;
/// - both of a token until the task that releases its activations ends;
/// - workspace while a task runs, and what members of a merged pack exchange.
///
/// That is what `memory_over_time` simulates, except that the simulator lets weight tasks need nothing, and shares merged
/// packs equally that the plan does not share by position. Compared with bytes that a trainer measures, it tells how true
/// the memory model is; walked ahead of a step, whether the stage will fit.
template <MemoryModel M>
class TokenBudget {
 public:
  /// The program and the model have to outlive the budget. @param limit_bytes most that the stage may use.
  /// @throws InvalidInput if static bytes alone exceed it.
  TokenBudget(const StageProgram& program, const M& memory,
              double limit_bytes = std::numeric_limits<double>::infinity())
      : program_(program),
        memory_(memory),
        bytes_(limit_bytes, concat("stage ", program.stage(), " of pipeline ", program.pipeline())) {
    bytes_.take(memory.static_bytes(program.stage()), " before its first task");
  }

  /// Call when a task starts. @throws InvalidInput naming stage and task if the limit would be exceeded.
  void start(const StageTask& task) {
    if (task.pass == Pass::weight) return;
    const double held = task.pass == Pass::forward ? activations(task) : begun_gradients(task);
    bytes_.take(held + workspace(task), " at ", pass_letter(task.pass), task.pack);
    if (task.pass == Pass::forward) host_.take(host(task));
  }

  /// Call when a task and its releases are done.
  void finish(const StageTask& task) {
    double bytes = task.pass == Pass::weight ? 0.0 : workspace(task), host = 0.0;
    for (const Release& release : task.releases) {
      if (!release.holds(Store::activations)) continue;
      const Tokens tokens = owned(task, {release.sample, release.begin, release.end});
      bytes += static_cast<double>(tokens) *
               (activation_bytes(memory_, program_.stage(), task.recompute_layers, task.offload_layers) +
                gradient_bytes());
      host += static_cast<double>(tokens) *
              host_bytes(memory_, program_.stage(), task.recompute_layers, task.offload_layers);
    }
    bytes_.give_back(bytes);
    host_.give_back(host);
  }

  [[nodiscard]] double in_use() const { return bytes_.in_use(); }
  [[nodiscard]] double peak() const { return bytes_.peak(); }
  /// The same in the host's memory.
  [[nodiscard]] double host_in_use() const { return host_.in_use(); }
  [[nodiscard]] double host_peak() const { return host_.peak(); }

 private:
  [[nodiscard]] Tokens owned(const StageTask& task, const Slice& tokens) const {
    return program_.owners().owned_tokens(tokens, task.member);
  }

  [[nodiscard]] double gradient_bytes() const { return memory_.kv_gradient_bytes(program_.stage()); }

  /// Sum of f(range) over the tokens of a forward task.
  template <class F>
  [[nodiscard]] double sum(const StageTask& task, F&& f) const {
    double total = 0.0;
    for (const RecomputeRange& range : task.recompute)
      total += static_cast<double>(owned(task, {range.sample, range.begin, range.end})) * f(range);
    return total;
  }

  [[nodiscard]] double activations(const StageTask& task) const {
    return sum(task, [&](const RecomputeRange& range) {
      return activation_bytes(memory_, program_.stage(), range.layers, range.offload_layers);
    });
  }

  [[nodiscard]] double host(const StageTask& task) const {
    return sum(task, [&](const RecomputeRange& range) {
      return host_bytes(memory_, program_.stage(), range.layers, range.offload_layers);
    });
  }

  /// Layers of a task's tokens on their way to the host's memory or back.
  [[nodiscard]] double transit(const StageTask& task) const {
    double tokens = task.offload_layers > 0 ? static_cast<double>(task.owned_tokens) : 0.0;
    if (task.pass == Pass::forward)
      tokens = sum(task, [](const RecomputeRange& range) { return range.offload_layers > 0 ? 1.0 : 0.0; });
    return transit_bytes(memory_, program_.stage(), static_cast<Tokens>(tokens));
  }

  /// KV gradients of the samples that a backward task begins: a sample's last token comes first.
  [[nodiscard]] double begun_gradients(const StageTask& task) const {
    Tokens tokens = 0;
    for (const Slice& slice : task.slices) {
      const Tokens length = program_.plan().tokens[slice.sample];
      if (slice.end == length) tokens += owned(task, {slice.sample, 0, length});
    }
    return static_cast<double>(tokens) * gradient_bytes();
  }

  [[nodiscard]] double workspace(const StageTask& task) const {
    return memory_.workspace_bytes(program_.stage(), task.pass, task.owned_tokens, task.recompute_layers) +
           exchange_bytes(memory_, program_.stage(), task.pass, task.tokens, task.members.size(),
                          task.exchange) +
           transit(task);
  }

  const StageProgram& program_;
  const M& memory_;
  HighWater bytes_, host_;
};

/// Most bytes that a stage will hold in a step, by the model. @throws InvalidInput naming the first task that
/// exceeds the limit. Complexity: O(tasks + slices of the stage).
template <MemoryModel M>
[[nodiscard]] double predicted_high_water(const StageProgram& program, const M& memory,
                                          double limit_bytes = std::numeric_limits<double>::infinity()) {
  TokenBudget<M> budget(program, memory, limit_bytes);
  for (const StageTask& task : program.tasks()) {
    budget.start(task);
    budget.finish(task);
  }
  return budget.peak();
}

}  // namespace slimpack
