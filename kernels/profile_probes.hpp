#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "slimpack/core/packs.hpp"
#include "slimpack/cost/measured_task.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::kernels {

/// Layers of the stages on which probes run: a first, a shorter middle, a middle and a last one. Several, because a
/// layer alone would find its weights in the processor's cache.
/// @param several layers of all but the shorter one; 0 = half of the model's, 2 to 4.
[[nodiscard]] std::vector<std::int32_t> probe_layers(const Transformer& model, std::int32_t several);

/// The model with as many layers as these stages hold together.
[[nodiscard]] Transformer probe_model(const Transformer& model, std::span<const std::int32_t> layers);

/// Samples that are cut and packed in some way, as a plan that stages can run.
class Probe {
 public:
  /// @param forward, backward in the order in which they run. @param recompute [backward pack][stage]
  Probe(std::size_t number, const Transformer& model, std::span<const std::int32_t> layers,
        std::vector<Tokens> lengths, const Packs& forward, const Packs& backward,
        const Ragged<std::int32_t>& recompute, bool held_out);

  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] std::size_t stages() const { return programs_.size(); }
  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] const StageProgram& program(std::size_t stage) const { return programs_[stage]; }
  [[nodiscard]] const Ragged<std::int32_t>& ids() const { return ids_; }
  /// Whether its tasks are to be predicted, not fitted.
  [[nodiscard]] bool held_out() const { return held_out_; }

 private:
  std::size_t number_;
  bool held_out_;
  std::unique_ptr<const Plan> plan_;
  std::vector<StageProgram> programs_;
  Ragged<std::int32_t> ids_;
};

/// Probes of regular shapes, with packs of up to `tokens` tokens and prefixes of three times as many; and of random
/// ones, held out.
[[nodiscard]] std::vector<Probe> make_probes(const Transformer& model, std::span<const std::int32_t> layers,
                                             Tokens tokens, std::uint64_t seed);

/// What a stage's task consists of, without its seconds.
[[nodiscard]] MeasuredTask measured_task(const StageProgram& program, const StageTask& task);

/// What the tasks of some probes took, again and again.
class ProbeTimes {
 public:
  explicit ProbeTimes(std::span<const Probe> probes);

  void add(std::size_t probe, std::size_t stage, std::size_t task, double seconds) {
    seconds_[probe][stage][task].push_back(seconds);
  }

  /// Tasks with the median of their times, appended.
  void medians(std::span<const Probe> probes, std::vector<MeasuredTask>& fitted,
               std::vector<MeasuredTask>& held_out) const;

 private:
  std::vector<std::vector<std::vector<std::vector<double>>>> seconds_;  ///< [probe][stage][task]
};

}  // namespace slimpack::kernels
