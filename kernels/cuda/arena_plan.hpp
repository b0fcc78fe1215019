#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/idle_units.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/model/fragments.hpp"
#include "kernels/model/layout.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
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

/// The place in a stage's arena of everything that a step stores. The program says what is stored when, so
/// all places are found before the first task runs: nothing is allocated during a step, and memory can't run
/// out then.
///
/// The arena is divided into units. A sample's keys and values are as many consecutive units as it has
/// tokens, because attention's kernels need consecutive rows: a row is a unit, of all layers. Their gradients
/// are rows of two units, in pieces of `gradient_piece_rows`. A fragment's activations are units anywhere, as
/// pages.
///
/// A task's workspace is in the first units, as many as it needs. Keys are placed next, in the order in which
/// they come, each sample's at the lowest place after the largest workspace where they fit. Then it is known
/// which units these leave free, and for how long. Gradients and pages get the units that stay idle for the
/// shortest time beyond theirs, including those of larger workspaces and of keys that have not come yet, or
/// units after all others if none are idle. So an arena is little larger than what is in use at a time.
class ArenaPlan {
 public:
  /// The pages of a fragment.
  using Pages = std::vector<UnitRun>;

  /// Rows of a sample. Of a sample that members share by heads, rows are as many parts of a unit as there are
  /// members; of one that they share by tokens, a member has rows of its own tokens.
  struct SampleRows {
    std::size_t keys = 0;                  ///< first row of keys and values
    std::size_t gradient_piece = 0;        ///< first of their gradients' `gradient_pieces()`
    std::size_t members = 1;               ///< by heads
    std::size_t ring = 1, ring_place = 0;  ///< members by tokens, and which of them this one is
    bool has_keys = false, has_gradients = false;
  };

  ArenaPlan(const StagePart& part, const StageOptions& options) : part_(part), options_(options) {}

  /// @param program has to outlive the step.
  /// @throws InvalidInput if a row's number would exceed 2^31 - 1. O(n log n) in slices, tasks and pieces,
  /// and in what is idle next to a place that another piece would fit into.
  void begin_step(const StageProgram& program);

  [[nodiscard]] std::size_t units() const { return units_; }
  /// Most units that are in use at a time, each from its token's task on: a bound for any arena.
  [[nodiscard]] std::size_t used_units() const { return used_units_; }
  [[nodiscard]] std::size_t most_tokens() const { return most_tokens_; }
  [[nodiscard]] std::size_t data_bytes() const { return data_bytes_; }
  /// What the host tells of all tasks of a step, at most.
  [[nodiscard]] std::size_t step_data_bytes() const { return step_data_bytes_; }
  /// Bytes of the arena: units, and two tasks' rows with what the host tells of them.
  /// @param list_bytes of a task's lists, in addition to `data_bytes()`
  [[nodiscard]] std::size_t bytes(std::size_t list_bytes = 0) const {
    return arena_bytes<Bf16>(units_ * unit_numbers(part_)) +
           2 * (arena_bytes<Bf16>(most_tokens_ * part_.hidden()) +
                arena_bytes<std::byte>(data_bytes_ + list_bytes));
  }

  [[nodiscard]] const FragmentTable<Pages>& fragments() const { return fragments_; }
  [[nodiscard]] const SampleRows& rows(SampleId sample) const { return samples_[sample]; }
  /// Rows in which the pieces of all samples' gradients begin, as `attention_work` takes them.
  [[nodiscard]] std::span<const std::int32_t> gradient_pieces() const { return gradient_pieces_; }
  /// Row of the gradients of a sample's row.
  [[nodiscard]] std::size_t gradient_row(SampleId sample, std::size_t row) const {
    const std::size_t piece = samples_[sample].gradient_piece + row / piece_rows;
    return static_cast<std::size_t>(gradient_pieces_[piece]) + row % piece_rows;
  }
  /// Calls f(row of the gradients, rows) for rows of a sample from `first` on, once for each run of consecutive
  /// rows. O(pieces).
  template <class F>
  void for_each_gradient_run(SampleId sample, std::size_t first, std::size_t rows, F&& f) const {
    std::size_t begin = 0, count = 0;
    for (std::size_t at = first; at < first + rows;) {
      const std::size_t size = std::min(piece_rows - at % piece_rows, first + rows - at),
                        row = gradient_row(sample, at);
      if (count > 0 && row != begin + count) f(begin, std::exchange(count, 0));
      if (count == 0) begin = row;
      count += size;
      at += size;
    }
    if (count > 0) f(begin, count);
  }
  /// Rows of a sample's tokens below `end`: of all of them, or of this member's.
  [[nodiscard]] std::size_t rows_below(SampleId sample, Tokens end) const {
    const SampleRows& rows = samples_[sample];
    if (rows.ring == 1) return static_cast<std::size_t>(end);
    return static_cast<std::size_t>(program_->owners().owned_tokens({sample, 0, end}, rows.ring_place));
  }
  /// Where the factors of a backward pack begin that wait for its weight task.
  [[nodiscard]] std::size_t pending(PackId pack) const { return pending_.at(pack).begin; }

 private:
  static constexpr std::size_t piece_rows = gradient_piece_rows;

  /// Rows of a sample that go at a time.
  struct Going {
    SampleId sample;
    std::size_t first_row, time;
  };
  class Uses;

  void share(SampleRows& sample, const StageTask& task) const;
  [[nodiscard]] std::vector<IdleUnits> place_runs();
  void place_keys(const StageTask& task, std::size_t time, Uses& uses);
  void place_factors(const StageTask& task, std::size_t time, Uses& uses);
  void free_behind(const StageTask& task, std::size_t time, Uses& uses);
  void place_pages(IdleSpace& space);
  void place_gradients(const StageTask& task, IdleSpace& space);
  void find_sizes();
  [[nodiscard]] std::size_t fragment_units(const FragmentRange& fragment) const;
  /// Units of a sample's keys and values below a token.
  [[nodiscard]] std::size_t key_units(SampleId sample, Tokens end) const {
    return row_units(sample, rows_below(sample, end));
  }
  [[nodiscard]] std::size_t row_units(SampleId sample, std::size_t rows) const {
    const std::size_t members = samples_[sample].members;
    return (rows + members - 1) / members;
  }
  [[nodiscard]] std::size_t workspace_units(const StageTask& task) const;
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
  std::vector<std::int32_t> gradient_pieces_;    ///< rows
  std::vector<std::uint8_t> split_;              ///< [backward pack]
  std::unordered_map<PackId, UnitRun> pending_;  ///< of split backward packs
  std::vector<std::size_t> fragments_go_;        ///< [fragment] time
  std::vector<Going> going_;                     ///< of keys and their gradients, by sample and row
  std::size_t units_ = 0, used_units_ = 0, most_tokens_ = 0, data_bytes_ = 0, step_data_bytes_ = 0;
};

/// Bf16 numbers of the factors of a token's matrix gradients that wait for a weight task: inputs and
/// gradients of the outputs of each layer's four matrices.
[[nodiscard]] inline std::size_t pending_width(const StagePart& part);

}  // namespace slimpack::kernels::cuda
