#pragma once

// How an `ArenaPlan` finds its places: included where one is used.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/arena_plan.hpp"
#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/ring_plan.hpp"
#include "kernels/cuda/stage_workspace.hpp"
#include "kernels/cuda/task_data.hpp"

namespace slimpack::kernels::cuda {

namespace detail {

/// Where a walk over a step's tasks takes units from.
class ArenaSpace {
 public:
  /// @param units of all, or of all but gradients, which then have as many as they need behind them
  ArenaSpace(std::size_t units, bool gradients_apart)
      : units_(units + (gradients_apart ? units % 2 : 0)),
        apart_(gradients_apart),
        main_(units),
        gradients_(gradients_apart ? no_limit : 0) {}

  [[nodiscard]] std::optional<std::size_t> take_run(std::size_t count) { return main_.take_run(count); }
  [[nodiscard]] std::optional<std::size_t> take_gradients(std::size_t count) {
    if (!apart_) return main_.take_run(count, 2);
    return units_ + *gradients_.take_run(count, 2);
  }
  [[nodiscard]] bool take_pages(std::size_t count, std::vector<UnitRun>& out) {
    return main_.take_pages(count, out);
  }
  void give_back(std::size_t begin, std::size_t count) {
    apart_&& begin >= units_ ? gradients_.give_back(begin - units_, count) : main_.give_back(begin, count);
  }
  /// Units in all.
  [[nodiscard]] std::size_t units() const { return units_ + gradients_.run_end(); }

 private:
  static constexpr std::size_t no_limit = std::size_t{1} << 62U;

  std::size_t units_;
  bool apart_;
  UnitSpace main_, gradients_;
};

/// Counts units as if every piece found room.
class CountedSpace {
 public:
  /// @param gradients whether they count
  explicit CountedSpace(bool gradients) : gradients_(gradients) {}

  [[nodiscard]] std::optional<std::size_t> take_run(std::size_t count) {
    add(count);
    return 0;
  }
  [[nodiscard]] std::optional<std::size_t> take_gradients(std::size_t count) {
    if (gradients_) add(count);
    return gradient_begin;
  }
  [[nodiscard]] bool take_pages(std::size_t count, std::vector<UnitRun>& out) {
    out.push_back({0, count});
    add(count);
    return true;
  }
  void give_back(std::size_t begin, std::size_t count) {
    if (gradients_ || begin < gradient_begin) used_ -= count;
  }
  [[nodiscard]] std::size_t most() const { return most_; }

 private:
  static constexpr std::size_t gradient_begin = std::size_t{1} << 62U;

  void add(std::size_t count) {
    used_ += count;
    most_ = std::max(most_, used_);
  }

  bool gradients_;
  std::size_t used_ = 0, most_ = 0;
};

}  // namespace detail

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

/// How members have a sample in common.
inline void ArenaPlan::share(SampleRows& sample, const StageTask& task) const {
  const bool by_heads = options_.merged == MergedAttention::heads;
  sample.members = by_heads ? task.members.size() : 1;
  sample.ring = by_heads ? 1 : task.members.size();
  sample.ring_place = by_heads ? 0 : task.member;
}

template <class Space>
bool ArenaPlan::place_forward(const StageTask& task, Space& space) {
  const ActivationLayout layout = kept_layout(part_);
  bool fits = true;
  for (const Slice& slice : task.slices) {
    SampleRows& sample = samples_[slice.sample];
    if (sample.has_keys || part_.layers == 0) continue;
    share(sample, task);
    const auto begin = space.take_run(key_units(slice.sample, plan_->tokens[slice.sample]));
    if (!begin) return false;
    sample.keys = *begin * sample.members;
    sample.has_keys = true;
  }
  fragments_.for_each(task, [&](FragmentTable<Pages>::Fragment& fragment, std::size_t) {
    fragment.memory.clear();
    const std::size_t numbers =
        layout.size(fragment.recompute_layers) * static_cast<std::size_t>(fragment.tokens.size());
    fits = fits && space.take_pages(units_of(numbers), fragment.memory);
  });
  return fits;
}

template <class Space>
bool ArenaPlan::place_backward(const StageTask& task, Space& space) {
  for (const Slice& slice : task.slices) {
    SampleRows& sample = samples_[slice.sample];
    if (sample.has_gradients || part_.layers == 0) continue;
    const auto begin = space.take_gradients(2 * key_units(slice.sample, plan_->tokens[slice.sample]));
    if (!begin) return false;
    sample.gradients = *begin / 2 * sample.members;
    sample.has_gradients = true;
  }
  if (split_[task.pack] == 0) return true;
  const std::size_t count = units_of(pending_width(part_) * static_cast<std::size_t>(task.owned_tokens));
  const auto begin = space.take_run(count);
  if (begin) pending_[task.pack] = {*begin, count};
  return begin.has_value();
}

template <class Space>
void ArenaPlan::free_activations(const StageTask& task, Space& space) {
  fragments_.for_each(task, [&](const FragmentTable<Pages>::Fragment& fragment, std::size_t) {
    for (const UnitRun& run : fragment.memory) space.give_back(run.begin, run.count);
  });
}

template <class Space>
void ArenaPlan::free_behind(const StageTask& task, Space& space) {
  if (task.pass == Pass::backward) free_activations(task, space);  // a weight task has its factors
  if (task.pass == Pass::weight) space.give_back(pending_[task.pack].begin, pending_[task.pack].count);
  for (const Release& release : task.releases) {
    if (!release.holds(Store::keys_values) || part_.layers == 0) continue;
    const SampleRows& sample = samples_[release.sample];
    // A sample goes from its last token on, and a unit with its first one.
    const std::size_t first = key_units(release.sample, release.begin),
                      count = key_units(release.sample, release.end) - first;
    space.give_back(sample.keys / sample.members + first, count);
    space.give_back(2 * (sample.gradients / sample.members + first), 2 * count);
  }
}

/// Whether everything has found a place in the space.
template <class Space>
bool ArenaPlan::walk(const StageProgram& program, Space& space) {
  samples_.assign(plan_->tokens.size(), {});
  pending_.clear();
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::forward && !place_forward(task, space)) return false;
    if (task.pass == Pass::backward && !place_backward(task, space)) return false;
    free_behind(task, space);
  }
  return true;
}

/// Of what all tasks use in turn.
inline void ArenaPlan::find_sizes(const StageProgram& program) {
  most_tokens_ = data_bytes_ = workspace_bytes_ = step_data_bytes_ = 0;
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::weight) continue;
    const auto tokens = static_cast<std::size_t>(task.owned_tokens);
    std::size_t pieces = 0, pages = 0;
    fragments_.for_each(task, [&](const FragmentTable<Pages>::Fragment& fragment, std::size_t) {
      ++pieces;
      for (const UnitRun& run : fragment.memory) pages += run.count;
    });
    most_tokens_ = std::max(most_tokens_, tokens);
    const bool ring = task.merged() && options_.merged == MergedAttention::ring;
    const std::size_t rounds = ring ? ring_data_bytes(task, options_.ring_tokens, program.block()) : 0;
    const std::size_t told = task_data_bytes(task, pieces, pages) + rounds;
    data_bytes_ = std::max(data_bytes_, told);
    step_data_bytes_ += told;
    const MergedTask merged = merged_task(task, options_, program.block());
    workspace_bytes_ = std::max(workspace_bytes_, stage_workspace_bytes(part_, options_.head_chunk_tokens,
                                                                        task.pass, tokens, merged));
  }
}

/// Units in which everything finds a place, but gradients where they are apart; and units with these.
inline std::pair<std::size_t, std::size_t> ArenaPlan::least_units(const StageProgram& program,
                                                                  bool gradients_apart) {
  detail::CountedSpace counted(!gradients_apart);
  static_cast<void>(walk(program, counted));
  if (!gradients_apart) used_units_ = counted.most();
  for (std::size_t units = counted.most();; units += std::max<std::size_t>(1, counted.most() / 256)) {
    detail::ArenaSpace space(units, gradients_apart);
    if (walk(program, space)) return {units, space.units()};
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
  const auto together = least_units(program, false), apart = least_units(program, true);
  const bool gradients_apart = apart.second < together.second;
  detail::ArenaSpace space(gradients_apart ? apart.first : together.first, gradients_apart);
  static_cast<void>(walk(program, space));
  units_ = space.units();
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  require(units_ <= most, "the step's stores are ", units_, " rows; expected at most ", most);
  find_sizes(program);
}

}  // namespace slimpack::kernels::cuda
