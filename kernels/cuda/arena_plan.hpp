#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/unit_space.hpp"
#include "kernels/model/fragments.hpp"
#include "kernels/model/layout.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/exec/ownership.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels::cuda {

/// Numbers of a token's log-sum-exps among the stage's activations: floats, in rows of 16 bytes.
[[nodiscard]] inline std::size_t kept_lse_width(const HeadShape& heads) {
  return (2 * heads.heads + 7) / 8 * 8;
}

/// What a stage keeps of a token, in bf16 numbers.
[[nodiscard]] inline ActivationLayout kept_layout(const StagePart& part) {
  return {part, kept_lse_width(part.heads())};
}

/// Bf16 numbers of a unit of the arena: a token's keys and values of all layers of the stage.
[[nodiscard]] inline std::size_t unit_numbers(const StagePart& part) {
  constexpr std::size_t without_layers = 2048;
  const std::size_t numbers = part.layer_count() * 2 * part.heads().kv_width();
  return numbers > 0 ? numbers : without_layers;
}

/// Bytes of what the host tells the GPU of a task, at most: rows of `TaskData`.
[[nodiscard]] inline std::size_t task_data_bytes(const StageTask& task, std::size_t pieces,
                                                 std::size_t pages);

/// Where everything that a step stores stands in a stage's arena. The program says what comes when and what
/// goes when, so all of it is found before the first task runs: nothing is allocated during a step, and
/// nothing can then be missing.
///
/// The arena is cut into units. A sample's keys and values are as many units as it has tokens, one behind
/// another, since attention's kernels want its rows so: a row is a unit, of all layers, and its sample's rows
/// are reserved from its first slice's forward on, given back slice by slice. Their gradients are rows of two
/// units. A fragment's activations are units anywhere, as pages. The arena is the least in which all of it
/// finds a place, but for 1 part in 256.
class ArenaPlan {
 public:
  /// The pages of a fragment.
  using Pages = std::vector<UnitRun>;

  /// Rows of a sample: of its keys and values, and of their gradients. Of a sample that members share by
  /// heads, rows are as many parts of a unit as there are members; of one that they share by tokens, a member
  /// has rows of its own tokens.
  struct SampleRows {
    std::size_t keys = 0, gradients = 0;
    std::size_t members = 1;               ///< by heads
    std::size_t ring = 1, ring_place = 0;  ///< members by tokens, and which of them this one is
    bool has_keys = false, has_gradients = false;
  };

  ArenaPlan(const StagePart& part, const StageOptions& options) : part_(part), options_(options) {}

  /// @param program has to outlive the step.
  /// @throws InvalidInput if a row's number would exceed 2^31 - 1. O(n log n) in slices and tasks, some times
  /// over.
  void begin_step(const StageProgram& program);

  [[nodiscard]] std::size_t units() const { return units_; }
  /// Most units that are in use at a time: a bound for any arena.
  [[nodiscard]] std::size_t used_units() const { return used_units_; }
  [[nodiscard]] std::size_t most_tokens() const { return most_tokens_; }
  [[nodiscard]] std::size_t data_bytes() const { return data_bytes_; }
  /// What the host tells of all tasks of a step, at most.
  [[nodiscard]] std::size_t step_data_bytes() const { return step_data_bytes_; }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

  [[nodiscard]] const FragmentTable<Pages>& fragments() const { return fragments_; }
  [[nodiscard]] const SampleRows& rows(SampleId sample) const { return samples_[sample]; }
  /// Rows of a sample's tokens below `end`: of all of them, or of this member's.
  [[nodiscard]] std::size_t rows_below(SampleId sample, Tokens end) const {
    const SampleRows& rows = samples_[sample];
    if (rows.ring == 1) return static_cast<std::size_t>(end);
    return static_cast<std::size_t>(
        owned_tokens({sample, 0, end}, rows.ring, rows.ring_place, program_->block()));
  }
  /// Where the factors of a backward pack begin that wait for its weight task.
  [[nodiscard]] std::size_t pending(PackId pack) const { return pending_.at(pack).begin; }

 private:
  template <class Space>
  [[nodiscard]] bool walk(const StageProgram& program, Space& space);
  void share(SampleRows& sample, const StageTask& task) const;
  template <class Space>
  [[nodiscard]] bool place_forward(const StageTask& task, Space& space);
  template <class Space>
  [[nodiscard]] bool place_backward(const StageTask& task, Space& space);
  template <class Space>
  void free_behind(const StageTask& task, Space& space);
  template <class Space>
  void free_activations(const StageTask& task, Space& space);
  [[nodiscard]] std::pair<std::size_t, std::size_t> least_units(const StageProgram& program,
                                                                bool gradients_apart);
  void find_sizes(const StageProgram& program);
  /// Units of a sample's keys and values below a token.
  [[nodiscard]] std::size_t key_units(SampleId sample, Tokens end) const {
    const std::size_t members = samples_[sample].members;
    return (rows_below(sample, end) + members - 1) / members;
  }
  [[nodiscard]] std::size_t units_of(std::size_t numbers) const {
    const std::size_t unit = unit_numbers(part_);
    return (numbers + unit - 1) / unit;
  }

  StagePart part_;
  StageOptions options_;
  const StageProgram* program_ = nullptr;
  const Plan* plan_ = nullptr;
  FragmentTable<Pages> fragments_;
  std::vector<SampleRows> samples_;
  std::vector<std::uint8_t> split_;              ///< [backward pack]
  std::unordered_map<PackId, UnitRun> pending_;  ///< of split backward packs
  std::size_t units_ = 0, used_units_ = 0, most_tokens_ = 0, data_bytes_ = 0, workspace_bytes_ = 0;
  std::size_t step_data_bytes_ = 0;
};

/// Bf16 numbers of the factors of a token's matrix gradients that wait for a weight task: inputs and
/// gradients of the outputs of each layer's four matrices.
[[nodiscard]] inline std::size_t pending_width(const StagePart& part);

}  // namespace slimpack::kernels::cuda
