#pragma once

// How an `ArenaPlan` finds its places: included where one is used.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/arena_plan.hpp"
#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/ring_plan.hpp"
#include "kernels/cuda/stage_memory.hpp"
#include "kernels/cuda/task_io.hpp"

namespace slimpack::kernels::cuda {

inline std::size_t pending_width(const StagePart& part) {
  const std::size_t hidden = part.hidden(), query = part.heads().query_width(), ffn = part.ffn();
  const std::size_t qkv = query + 2 * part.heads().kv_width();
  return part.layer_count() * ((ffn + hidden) + (hidden + 2 * ffn) + (query + hidden) + (hidden + qkv));
}

inline std::size_t task_data_bytes(const StageTask& task, std::size_t pieces, std::size_t pages) {
  std::size_t query_items = 0, key_items = 0;
  const auto blocks = [](Tokens tokens) {  // the smaller ones: the others are fewer
    return static_cast<std::size_t>((tokens + attention_rows - 1) / attention_rows);
  };
  for (const Slice& slice : task.slices) {
    query_items += blocks(slice.size());
    key_items += blocks(slice.end);
  }
  const auto tokens = static_cast<std::size_t>(task.owned_tokens),
             all = static_cast<std::size_t>(task.tokens);
  return TaskData::bytes_of<std::int32_t>(tokens) * task_words +
         (task.merged() ? 2 * TaskData::bytes_of<std::int32_t>(all) : 0) +  // by heads: rows, and their order
         TaskData::bytes_of<std::int32_t>(1) +                              // one more begin than ids
         TaskData::bytes_of<AttentionSlice>(task.slices.size()) + TaskData::bytes_of<QueryItem>(query_items) +
         TaskData::bytes_of<KeyItem>(key_items) + TaskData::bytes_of<KeptPiece>(pieces) +
         TaskData::bytes_of<std::int32_t>(pages);
}

/// Where runs stand, when their units are in use, and how many units are with all that stands elsewhere.
class ArenaPlan::Uses {
 public:
  [[nodiscard]] std::size_t reserve(std::size_t count) { return space_.take_run(count); }
  void begin(std::size_t begin, std::size_t count, std::size_t time) {
    uses_.use(begin, begin + count, time);
    count_in(count);
  }
  /// @param keep for later use; otherwise they are given back
  void end(std::size_t begin, std::size_t count, std::size_t time, bool keep = false) {
    uses_.leave(begin, begin + count, time);
    if (!keep) space_.give_back(begin, count);
    count_out(count);
  }
  void count_in(std::size_t count) {
    used_ += count;
    most_ = std::max(most_, used_);
  }
  void count_out(std::size_t count) { used_ -= count; }

  [[nodiscard]] std::size_t run_end() const { return space_.run_end(); }
  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] std::vector<IdleUnits> idle() const { return uses_.idle(run_end()); }

 private:
  UnitSpace space_;
  UnitUses uses_;
  std::size_t used_ = 0, most_ = 0;
};

/// How members have a sample in common.
inline void ArenaPlan::share(SampleRows& sample, const StageTask& task) const {
  const bool by_heads = task.merged() && merged_attention(task, options_.merged) == MergedAttention::heads;
  sample.members = by_heads ? task.members.size() : 1;
  sample.ring = by_heads ? 1 : task.members.size();
  sample.ring_place = by_heads ? 0 : task.member;
}

inline std::size_t ArenaPlan::workspace_units(const StageTask& task) const {
  const std::size_t bytes = stage_workspace_bytes(part_, options_.head_chunk_tokens, task.pass,
                                                  static_cast<std::size_t>(task.owned_tokens),
                                                  merged_task(task, options_, program_->owners()));
  return units_of((bytes + sizeof(Bf16) - 1) / sizeof(Bf16));
}

inline std::size_t ArenaPlan::fragment_units(const FragmentRange& fragment) const {
  return units_of(kept_layout(part_).size(fragment.recompute_layers) *
                  static_cast<std::size_t>(fragment.tokens.size()));
}

/// A sample's rows are reserved when its first slice comes, and in use from their own slices on.
inline void ArenaPlan::place_keys(const StageTask& task, std::size_t time, Uses& uses) {
  if (part_.layers == 0) return;
  for (const Slice& slice : task.slices) {
    SampleRows& sample = samples_[slice.sample];
    if (!std::exchange(sample.has_keys, true)) {
      share(sample, task);
      sample.keys = uses.reserve(key_units(slice.sample, plan_->tokens[slice.sample])) * sample.members;
    }
    const std::size_t first = key_units(slice.sample, slice.begin);
    uses.begin(sample.keys / sample.members + first, key_units(slice.sample, slice.end) - first, time);
  }
}

/// Factors also get a place where a run fits; gradients are only counted.
inline void ArenaPlan::place_factors(const StageTask& task, std::size_t time, Uses& uses) {
  for (const Slice& slice : task.slices) {
    SampleRows& sample = samples_[slice.sample];
    if (part_.layers == 0 || std::exchange(sample.has_gradients, true)) continue;
    uses.count_in(2 * key_units(slice.sample, plan_->tokens[slice.sample]));
  }
  if (split_[task.pack] == 0) return;
  const std::size_t count = units_of(pending_width(part_) * static_cast<std::size_t>(task.owned_tokens));
  const UnitRun run{uses.reserve(count), count};
  uses.begin(run.begin, run.count, time);
  pending_[task.pack] = run;
}

inline void ArenaPlan::free_behind(const StageTask& task, std::size_t time, Uses& uses) {
  if (task.pass == Pass::backward) {  // a weight task has its factors
    fragments_.for_each(task, [&](const FragmentTable<Pages>::Fragment& fragment, std::size_t) {
      fragments_go_[fragments_.index_of(fragment)] = time;
      uses.count_out(fragment_units(fragment));
    });
  }
  if (task.pass == Pass::weight) {
    const UnitRun& run = pending_[task.pack];
    uses.end(run.begin, run.count, time);
  }
  for (const Release& release : task.releases) {
    if (!release.holds(Store::keys_values) || part_.layers == 0) continue;
    const SampleRows& sample = samples_[release.sample];
    // A sample goes from its last token on, and a unit with its first one.
    const std::size_t first = key_units(release.sample, release.begin),
                      count = key_units(release.sample, release.end) - first;
    uses.end(sample.keys / sample.members + first, count, time);
    uses.count_out(2 * count);
    const std::size_t row = rows_below(release.sample, release.begin);
    if (row < rows_below(release.sample, release.end)) going_.push_back({release.sample, row, time});
  }
}

/// Places what needs one piece, first come, first served. Also finds when everything else leaves.
/// @returns when units of runs are idle
inline std::vector<IdleUnits> ArenaPlan::place_runs() {
  samples_.assign(plan_->tokens.size(), {});
  pending_.clear();
  going_.clear();
  fragments_go_.assign(fragments_.fragments().size(), 0);
  Uses uses;
  std::vector<std::size_t> workspace;  // [task]
  for (const StageTask& task : program_->tasks()) workspace.push_back(workspace_units(task));
  if (!workspace.empty())
    static_cast<void>(uses.reserve(*std::max_element(workspace.begin(), workspace.end())));  // the first ones
  std::size_t time = 0;
  for (const StageTask& task : program_->tasks()) {
    const UnitRun work{0, workspace[time]};
    uses.begin(work.begin, work.count, time);
    if (task.pass == Pass::forward) {
      place_keys(task, time, uses);
      fragments_.for_each(task, [&](const FragmentTable<Pages>::Fragment& fragment, std::size_t) {
        uses.count_in(fragment_units(fragment));
      });
    }
    if (task.pass == Pass::backward) place_factors(task, time, uses);
    free_behind(task, ++time, uses);
    uses.end(work.begin, work.count, time, true);
  }
  std::sort(going_.begin(), going_.end(), [](const Going& a, const Going& b) {
    return std::pair(a.sample, a.first_row) < std::pair(b.sample, b.first_row);
  });
  units_ = uses.run_end();
  used_units_ = uses.most();
  return uses.idle();
}

/// Of the samples whose backward begins with a task. A piece is there until its first row goes.
inline void ArenaPlan::place_gradients(const StageTask& task, IdleSpace& space) {
  for (const Slice& slice : task.slices) {
    SampleRows& sample = samples_[slice.sample];
    if (part_.layers == 0 || std::exchange(sample.has_gradients, true)) continue;
    sample.gradient_piece = gradient_pieces_.size();
    const std::size_t rows = rows_below(slice.sample, plan_->tokens[slice.sample]);
    auto going = std::lower_bound(going_.begin(), going_.end(), slice.sample,
                                  [](const Going& g, SampleId id) { return g.sample < id; });
    std::optional<std::size_t> behind;  // what was taken before
    for (std::size_t row = 0; row < rows;) {
      const auto next_rows = [&] {  // that go at another time
        const auto next = std::next(going);
        return next != going_.end() && next->sample == slice.sample ? next->first_row : rows;
      };
      while (next_rows() <= row) ++going;
      const std::size_t begun = (next_rows() - row + piece_rows - 1) / piece_rows,
                        full = (rows - row) / piece_rows, size = std::min(piece_rows, rows - row);
      const std::size_t units = 2 * row_units(slice.sample, size);
      const UnitRun run =
          space.take_pieces(units, std::max<std::size_t>(1, std::min(begun, full)), going->time, behind);
      behind = run.begin + run.count;
      for (std::size_t at = run.begin; at < *behind; at += units)
        gradient_pieces_.push_back(static_cast<std::int32_t>(at / 2 * sample.members));
      row += run.count / units * size;
    }
  }
}

/// All that need not lie in one piece, where it is idle.
inline void ArenaPlan::place_pages(IdleSpace& space) {
  gradient_pieces_.clear();
  for (SampleRows& sample : samples_) sample.has_gradients = false;
  std::vector<FragmentTable<Pages>::Fragment*> coming;
  std::size_t time = 0;
  for (const StageTask& task : program_->tasks()) {
    space.go_to(time++);
    if (task.pass == Pass::backward) place_gradients(task, space);
    if (task.pass != Pass::forward) continue;
    coming.clear();
    fragments_.for_each(task, [&](FragmentTable<Pages>::Fragment& fragment, std::size_t) {
      fragment.memory.clear();
      coming.push_back(&fragment);
    });
    const auto goes = [&](const auto* fragment) { return fragments_go_[fragments_.index_of(*fragment)]; };
    // Who stays longest has the fewest places to go to.
    std::stable_sort(coming.begin(), coming.end(),
                     [&](const auto* a, const auto* b) { return goes(a) > goes(b); });
    for (auto* fragment : coming)
      space.take_pages(fragment_units(*fragment), goes(fragment), fragment->memory);
  }
}

/// Of what all tasks use in turn.
inline void ArenaPlan::find_sizes() {
  const StageProgram& program = *program_;
  most_tokens_ = data_bytes_ = step_data_bytes_ = 0;
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::weight) continue;
    const auto tokens = static_cast<std::size_t>(task.owned_tokens);
    std::size_t pieces = 0, pages = 0;
    fragments_.for_each(task, [&](const FragmentTable<Pages>::Fragment& fragment, std::size_t) {
      ++pieces;
      for (const UnitRun& run : fragment.memory) pages += run.count;
    });
    most_tokens_ = std::max(most_tokens_, tokens);
    const bool ring = task.merged() && merged_attention(task, options_.merged) == MergedAttention::ring;
    const std::size_t rounds = ring ? ring_data_bytes(task, options_.ring_tokens, program.owners()) : 0;
    const std::size_t told = task_data_bytes(task, pieces, pages) + rounds;
    data_bytes_ = std::max(data_bytes_, told);
    step_data_bytes_ += told;
  }
}

inline void ArenaPlan::begin_step(const StageProgram& program) {
  program_ = &program;
  plan_ = &program.plan();
  fragments_.begin_step(program);
  split_.assign(plan_->backward.packs.size(), 0);
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::weight) split_[task.pack] = 1;
  }
  const std::vector<IdleUnits> idle = place_runs();
  IdleSpace space(units_, idle, program.tasks().size());
  place_pages(space);
  units_ = space.units();
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  require(units_ <= most, "the step's stores are ", units_, " rows; expected at most ", most);
  find_sizes();
}

}  // namespace slimpack::kernels::cuda
