#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/math/cross_entropy.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/math/positions.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/plan/indices.hpp"

namespace slimpack::kernels {

/// @throws InvalidInput naming the option, or the model's size, that no back end can run.
inline void require_stage(const StagePart& part, const StageOptions& options) {
  require(options.norm_epsilon > 0, "norm_epsilon is ", options.norm_epsilon, "; expected a positive number");
  require(options.head_chunk_tokens > 0, "head_chunk_tokens is 0; expected a positive number");
  require(part.model.head_dim % 2 == 0, "head_dim is ", part.model.head_dim,
          "; expected an even number for the rotary embedding");
}

/// @param merged how members share the attention of packs for which the plan says nothing.
/// @throws InvalidInput naming a task whose members can't have equal shares of the heads, or that shares a sample in
/// another way than its other tasks do (both passes read the same keys and values), or in one that there is not.
inline void require_shared_attention(const StagePart& part, const StageProgram& program,
                                     MergedAttention merged) {
  constexpr std::uint8_t unknown = 0, ring = 1, heads = 2;
  std::vector<std::uint8_t> ways(program.plan().tokens.size(), unknown);
  for (const StageTask& task : program.tasks()) {
    if (!task.merged() || task.pass == Pass::weight) continue;
    const auto way = merged_attention(task, merged) == MergedAttention::heads ? heads : ring;
    require(way == ring || part.heads().kv_heads % task.members.size() == 0, to_string(task),
            " is merged of ", task.members.size(), " members that share heads; expected a divisor of the ",
            part.heads().kv_heads, " key/value heads");
    for (const Slice& slice : task.slices) {
      std::uint8_t& known = ways[slice.sample];
      require(known == unknown || known == way, to_string(task), " exchanges keys of sample ", slice.sample,
              " by ", way == ring ? "ring" : "all_to_all", ", and another of its packs does by ",
              way == ring ? "all_to_all" : "ring", "; expected one way for all packs of a sample");
      known = way;
    }
  }
}

/// What every back end has to know of the step that it runs: who comes when, the tokens' ids and labels. Rows are those of
/// `task.owned`, in its order.
class StageStep {
 public:
  /// @param program of the stage. @param ids token ids, one row per sample. Both have to outlive the step.
  /// @throws InvalidInput if the program is for a stage with other layers, or ids are not those of its samples.
  void begin(const StagePart& part, const StageProgram& program, const Ragged<std::int32_t>& ids) {
    require(program.layers() == part.layers && program.first() == part.first && program.last() == part.last,
            "the program is for stage ", program.stage(), " of ", program.stages(), " with ",
            program.layers(), " layers; expected this stage's ", part.layers);
    require(program.tensor() == part.tensor, "the program is for tensor-parallel rank ",
            program.tensor().rank, " of ", program.tensor().size, "; expected this stage's rank ",
            part.tensor.rank, " of ", part.tensor.size);
    const Plan& plan = program.plan();
    require_ids(part, plan, ids);
    program_ = &program;
    ids_ = &ids;
    const Tokens labels = label_tokens(plan);
    label_weight_ = labels > 0 ? 1.0 / static_cast<double>(labels) : 0.0;
    split_.assign(plan.backward.packs.size(), 0);
    for (const StageTask& task : program.tasks()) {
      if (task.pass == Pass::weight) split_[task.pack] = 1;
    }
  }

  /// @throws InvalidInput if no step was begun.
  void require_begun(const StageTask& task) const {
    require(program_ != nullptr, to_string(task), " comes before begin_step; expected the step to be begun");
  }

  [[nodiscard]] const StageProgram& program() const { return *program_; }

  /// What a token's loss counts: one by the labels of the whole batch.
  [[nodiscard]] double label_weight() const { return label_weight_; }

  /// Whether a weight task follows a backward task.
  [[nodiscard]] bool is_split(const StageTask& task) const { return split_[task.pack] != 0; }

  /// Calls f(row, id) for each of a task's tokens.
  template <class F>
  void for_each_id(const StageTask& task, F&& f) const {
    for_each_token(task, [&](SampleId sample, std::size_t position, std::size_t row) {
      f(row, (*ids_)[sample][position]);
    });
  }

  /// Calls f(row, label) for each of a task's tokens: the next token of its sample, or `no_label` after the last.
  template <class F>
  void for_each_label(const StageTask& task, F&& f) const {
    for_each_token(task, [&](SampleId sample, std::size_t position, std::size_t row) {
      const auto ids = (*ids_)[sample];
      f(row, position + 1 < ids.size() ? ids[position + 1] : no_label);
    });
  }

 private:
  template <class F>
  static void for_each_token(const StageTask& task, F&& f) {
    std::size_t row = 0;
    for (const Slice& slice : task.owned) {
      for (Tokens t = slice.begin; t < slice.end; ++t) f(slice.sample, static_cast<std::size_t>(t), row++);
    }
  }

  static void require_ids(const StagePart& part, const Plan& plan, const Ragged<std::int32_t>& ids) {
    require(ids.size() == plan.tokens.size(), "there are ids of ", ids.size(),
            " samples; expected the plan's ", plan.tokens.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      require(static_cast<Tokens>(ids[i].size()) == plan.tokens[i], "sample ", i, " has ", ids[i].size(),
              " ids; expected the plan's ", plan.tokens[i]);
    }
    for (const std::int32_t id : ids.values()) {
      require(id >= 0 && id < part.model.vocab, "a token's id is ", id, "; expected below the vocabulary of ",
              part.model.vocab);
    }
  }

  const StageProgram* program_ = nullptr;
  const Ragged<std::int32_t>* ids_ = nullptr;
  double label_weight_ = 0.0;
  std::vector<std::uint8_t> split_;  ///< [backward pack]
};

/// @throws InvalidInput unless rows are those of a task's tokens.
template <class T>
void require_rows(const StagePart& part, const StageTask& task, const MatrixView<T>& rows) {
  require(rows.rows == static_cast<std::size_t>(task.rows) && rows.cols == part.hidden(), to_string(task),
          " is given [", rows.rows, " x ", rows.cols, "]; expected [", task.rows, " x ", part.hidden(), "]");
}

}  // namespace slimpack::kernels
