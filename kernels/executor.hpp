#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/back_end.hpp"
#include "kernels/device_mail.hpp"
#include "kernels/executor_options.hpp"
#include "kernels/mail.hpp"
#include "kernels/merged_members.hpp"
#include "kernels/run_layout.hpp"
#include "kernels/settings.hpp"
#include "kernels/stage_walk.hpp"
#include "kernels/transport/collectives.hpp"
#include "slimpack/exec/agreement.hpp"
#include "slimpack/exec/loop.hpp"

namespace slimpack::kernels {

namespace detail {

template <class Stage, class T, class Links>
struct MailOf {
  using type = DeviceMail<typename Stage::Number, typename Stage::Weight, typename Stage::Port, Links>;
};
template <class Stage, class T>
struct MailOf<Stage, T, NoLinks> {
  using type = Mail<typename Stage::Number, typename Stage::Port, T>;
};

}  // namespace detail

/// One rank of a training run, numbered as `PlanRanks` does. Runs the rank's stage through each step's plan, exchanges
/// gradients, layer by layer, with the ranks of other pipelines that hold the layer, wherever in their pipelines, and
/// updates the weights.
///
/// All ranks construct it, and call `step`, with the same arguments. Weights of a layer are the same on all ranks that
/// hold it before and after each step, bit by bit.
///
/// A stage of a pipeline with tensor parallelism is run by as many ranks, which share its heads, columns of the MLP and
/// vocabulary, and its rows by `TensorShare`. Pipelines may differ in it. Members of merged packs hold the tokens that
/// the packs' shardings give them (`stage_owners`). Give plans with context parallelism as `context_ranks_as_members` makes them.
///
/// With `Links`, rows go from device to device, and so do gradients and weights of replicas, and what members
/// of merged packs exchange. The transport of the host then serves to agree on plans, and to hear of ranks that
/// fail. Pipelines then have to be equal. During a step's tasks the host waits for nothing; after them, for the device, until another rank has
/// failed or `ExecutorOptions::waits` have passed.
/// @tparam Stage a back end. @tparam T way to the other ranks; has to outlive the executor. @tparam Links way
/// between their devices (`DeviceLinks`), of a LinkedBackEnd.
template <StageBackEnd Stage, Transport T, class Links = NoLinks>
class RankExecutor {
 public:
  static constexpr bool linked = !std::same_as<Links, NoLinks>;
  static_assert(!linked || LinkedBackEnd<Stage>, "links need a back end whose port is a DevicePort");

  using Number = typename Stage::Number;

  /// @param plan of the first step, or any with its pipelines, stages, layers and order of devices.
  /// @param links of this rank, made for the plan's ranks.
  /// @throws InvalidInput if the plan is for another number of ranks, has context parallelism, or the model does not
  /// fit its layers; with links, if pipelines are not equal.
  RankExecutor(T& transport, const Transformer& model, const Plan& plan, const ExecutorOptions& options = {},
               Links links = {})
      : transport_(transport),
        model_(model),
        options_(options),
        settings_(executor_settings<Stage>(model, options)),
        layout_(plan, transport.rank(), transport.size(), {TensorParallelBackEnd<Stage>, linked}),
        stage_(stage_part(model, plan, layout_.place()), named(options.stage, layout_)),
        all_(transport),
        groups_(transport, layout_.ranks(), layout_.place()),
        mail_(make_mail(std::move(links))) {
    for (const WeightPiece& piece : WeightLayout(stage_.part()).pieces(groups_.shares()))
      holders_.push_back(&groups_.holders(plan, piece));
    stage_.initialise(options.init);
    stage_.set_replicas(together());
    stage_.set_ring_shift([this](const StageTask& task, std::span<const Number> out, std::span<Number> in) {
      mail_.flush();
      groups_.members(task).ring_shift(out, in);
    });
    stage_.set_all_to_all([this](const StageTask& task, std::span<const Number> out,
                                 std::span<const std::size_t> out_sizes, std::span<Number> in,
                                 std::span<const std::size_t> in_sizes) {
      mail_.flush();
      groups_.members(task).template all_to_all<Number>(consecutive_parts(out, out_sizes),
                                                        consecutive_parts(in, in_sizes));
    });
    if constexpr (TensorParallelBackEnd<Stage>) {
      stage_.set_tensor_exchange(
          [this](std::span<const std::span<const Number>> out, std::span<const std::span<Number>> in) {
            mail_.flush();
            groups_.tensor().template all_to_all<Number>(out, in);
          });
    }
    if constexpr (linked) {
      using Stream = typename Stage::Port::Stream;
      stage_.set_device_exchange([this](const StageTask& task, std::span<const DeviceBlock> sends,
                                        std::span<const DeviceBlock> receives, Stream stream) {
        mail_.links().exchange(by_replica(task, sends), by_replica(task, receives), stream);
      });
    }
  }

  RankExecutor(RankExecutor&&) = delete;
  RankExecutor& operator=(RankExecutor&&) = delete;
  ~RankExecutor() = default;

  /// Runs one step and updates the weights.
  /// @param plan that `violations` finds nothing wrong with. @param ids token ids, one row per sample.
  /// @throws InvalidInput if the ranks' plans, ids, models, options or numbers differ, the plan is for another layout or other samples, the
  /// stage would need more memory than its limit, or the loss is no number. @throws TransportError if another rank
  /// has failed.
  StepReport step(const Plan& plan, const Ragged<std::int32_t>& ids) { return run(plan, ids, true); }

  /// Runs the tasks of a step, and leaves the weights as they are: the loss of a batch that is not trained on. Otherwise as
  /// `step`.
  StepReport evaluate(const Plan& plan, const Ragged<std::int32_t>& ids) { return run(plan, ids, false); }

  [[nodiscard]] Stage& stage() { return stage_; }
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] RankPlace place() const { return layout_.place(); }

 private:
  using MailType = typename detail::MailOf<Stage, T, Links>::type;

  /// @param update whether the weights change.
  StepReport run(const Plan& plan, const Ragged<std::int32_t>& ids, bool update) {
    StepReport report;
    std::optional<StageProgram> program;
    prepare(plan, ids, program, report);
    report.tasks.reserve(program->tasks().size());
    const StepClock clock;
    StageWalk<Stage, MailType, T> walk{stage_, mail_, transport_, *program, clock, report, {}};
    transport_.set_task("begin of the step's tasks");
    if constexpr (linked) mail_.start();
    run_stage(*program, walk, options_.loop);
    report.loss = stage_.loss();
    if constexpr (requires { stage_.read_times(std::span(report.tasks)); })
      stage_.read_times(std::span(report.tasks));
    if constexpr (requires { stage_.graph_tasks(); }) report.graph_tasks = stage_.graph_tasks();
    report.peak_bytes = stage_.memory().peak();
    if constexpr (requires { stage_.host_memory(); }) report.host_peak_bytes = stage_.host_memory().peak();
    report.pipeline_seconds = clock.seconds();
    if (update) {
      transport_.set_task("exchange of gradients");
      stage_.update(++steps_, options_.adamw);
    }
    if constexpr (linked) mail_.wait_for_sends();
    share(report);
    report.seconds = clock.seconds();
    return report;
  }

  [[nodiscard]] MailType make_mail(Links links) {
    if constexpr (linked) {
      return MailType(host_side(transport_), options_.waits, transport_.rank(), stage_.port(),
                      std::move(links));
    } else {
      static_cast<void>(links);
      return MailType(transport_, stage_.port());
    }
  }

  [[nodiscard]] static StageOptions named(StageOptions options, const RunLayout& layout) {
    if (options.name.empty()) options.name = layout.stage_name();
    return options;
  }

  /// Checks the plan and agrees on it with all ranks. One that can't run it shows no plan, so that the others learn of
  /// it instead of waiting.
  void prepare(const Plan& plan, const Ragged<std::int32_t>& ids, std::optional<StageProgram>& program,
               StepReport& report) {
    transport_.set_task("agreement on the plan");
    std::exception_ptr error;
    std::uint64_t hash = no_plan_hash;
    try {
      program.emplace(plan, place(), StageProgramOptions{.block = options_.block});
      layout_.check(plan);
      report.predicted_bytes = predicted_bytes(plan, *program);
      stage_.begin_step(*program, ids);
      if constexpr (linked) {
        mail_.begin_step(plan, *program, stage_.part().hidden());
      } else {
        mail_.begin_step(plan, *program, stage_.part().hidden(), options_.loop.window);
      }
      report.link_bytes = static_cast<double>(mail_.bytes());
      hash = plan_hash(plan);
    } catch (const InvalidInput&) {
      error = std::current_exception();
    }
    try {
      agree(hash, rank_count(plan), ids);
    } catch (...) {
      if (error) std::rethrow_exception(error);
      throw;
    }
  }

  [[nodiscard]] double predicted_bytes(const Plan& plan, const StageProgram& program) const {
    const double replicas = options_.shard_optimiser ? static_cast<double>(layout_.pipelines()) : 1.0;
    const typename Stage::Memory memory(model_, plan.pipelines[place().pipeline].layers,
                                        sizeof(typename Stage::Weight), options_.stage, 2.0 / replicas,
                                        program.tensor());
    return predicted_high_water(program, memory, options_.stage.limit_bytes);
  }

  /// Compares with all ranks what decides the step's result: its hash, and where that differs, all of it.
  void agree(std::uint64_t plan, std::size_t ranks, const Ragged<std::int32_t>& ids) {
    WordHash hash;
    hash.add_all(ids.values());
    Settings own{{"plan", no_value}, hash_setting("token ids", hash.value()), setting("step", steps_ + 1)};
    if (plan != no_plan_hash) own[0] = hash_setting("plan", plan);
    own.insert(own.end(), settings_.begin(), settings_.end());
    const auto hashes = all_.all_gather_value(settings_hash(own));
    if (std::any_of(hashes.begin(), hashes.end(), [&](std::uint64_t h) { return h != hashes[0]; }))
      agree_on_settings(own, [&](const std::string& text) { return all_gather_text(all_, text); });
    require_agreement(std::vector<std::uint64_t>(hashes.size(), plan), ranks);
  }

  /// What this rank does together with those that hold the same weights.
  [[nodiscard]] Replicas<typename Stage::Weight> together() {
    using Weight = typename Stage::Weight;
    if constexpr (linked) {
      Links& links = mail_.links();
      auto& port = stage_.port();
      return {
          .size = layout_.pipelines(),
          .position = place().pipeline,
          .shares = 1,
          .common_size = 1,
          .common_position = 0,
          .on_device = true,
          .sharded = options_.shard_optimiser,
          .reduce_scatter = [&](std::size_t, std::span<Weight> n) { links.reduce_scatter(n, port.stream()); },
          .all_reduce = [&](std::size_t, std::span<Weight> n) { links.all_reduce(n, port.stream()); },
          .all_gather = [&](std::size_t, std::span<Weight> n) { links.all_gather(n, port.stream()); }};
    }
    const RunLayout::TensorRanks tensor = layout_.tensor_ranks();
    return {.size = layout_.pipelines(),
            .position = place().pipeline,
            .shares = groups_.shares(),
            .common_size = tensor.all,
            .common_position = tensor.before + place().tensor,
            .on_device = false,
            .sharded = options_.shard_optimiser,
            .reduce_scatter = [this](std::size_t u, std::span<Weight> n) { holders_[u]->reduce_scatter(n); },
            .all_reduce = [this](std::size_t u, std::span<Weight> n) { holders_[u]->all_reduce(n); },
            .all_gather = [this](std::size_t u, std::span<Weight> n) { holders_[u]->all_gather(n); }};
  }

  /// Loss and duration of all ranks.
  void share(StepReport& report) {
    struct Mine {
      double loss, seconds;
    };
    const Mine mine{report.loss, report.pipeline_seconds};
    report.loss = 0.0;
    for (const Mine& rank : all_.all_gather_value(mine)) {
      report.loss += rank.loss;
      report.pipeline_seconds = std::max(report.pipeline_seconds, rank.seconds);
    }
  }

  T& transport_;
  Transformer model_;
  ExecutorOptions options_;
  Settings settings_;  ///< that have to be the same on all ranks
  RunLayout layout_;
  Stage stage_;
  Group<T> all_;
  RankGroups<T> groups_;
  std::vector<Group<T>*> holders_;  ///< of each piece of the stage's weights
  MailType mail_;
  std::int64_t steps_ = 0;
};

}  // namespace slimpack::kernels
