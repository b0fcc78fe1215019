#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpu_attention.hpp"
#include "kernels/executor.hpp"
#include "language.hpp"
#include "slimpack/exec/high_water.hpp"
#include "slimpack/plan/metrics.hpp"
#include "train_course.hpp"
#include "train_report.hpp"

namespace slimpack::command {

/// What rank 0 is told of a rank's step, as numbers: peak, prediction, then the seconds of each task in the
/// order of the rank's stage.
inline constexpr std::size_t numbers_before_tasks = 2;

/// Sends a rank's figures to rank 0, which gets those of all ranks; others get nothing. All ranks have to
/// call it.
template <kernels::Transport T>
[[nodiscard]] std::vector<std::vector<double>> gather_figures(T& transport, const Plan& plan,
                                                              const kernels::StepReport& report) {
  constexpr kernels::Tag tag = 0;
  std::vector<double> own{report.peak_bytes, report.predicted_bytes};
  for (const kernels::TaskRecord& task : report.tasks) own.push_back(task.seconds);
  if (transport.rank() != 0) {
    kernels::Request request = transport.isend(0, tag, std::as_bytes(std::span(own)));
    transport.wait(request);
    return {};
  }
  std::vector<std::vector<double>> all(transport.size());
  std::vector<kernels::Request> requests;
  const PlanRanks ranks(plan);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const RankPlace place = ranks.place_of(rank);
    all[rank].resize(numbers_before_tasks + plan.pipelines[place.pipeline].order[place.stage].size());
    requests.push_back(transport.irecv(rank, tag, std::as_writable_bytes(std::span(all[rank]))));
  }
  all[0] = std::move(own);
  kernels::wait_all(transport, std::span(requests));
  return all;
}

/// Adds one rank's tasks of a step. A backward task's weight task adds to its time.
inline void add_tasks(const Plan& plan, RankPlace place, std::span<const double> seconds,
                      std::vector<TrainedTask>& tasks) {
  const auto& order = plan.pipelines[place.pipeline].order[place.stage];
  std::map<PackId, std::size_t> backward;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i].pass == Pass::weight) {
      tasks[backward.at(order[i].pack)].seconds += seconds[i];
      continue;
    }
    if (order[i].pass == Pass::backward) backward[order[i].pack] = tasks.size();
    tasks.push_back({order[i].pass, seconds[i], plan.of(order[i].pass).seconds[order[i].pack][place.stage]});
  }
}

/// Takes a step's figures in. @param figures of all ranks.
inline void add_step(const Plan& plan, const kernels::StepReport& own,
                     std::span<const std::vector<double>> figures, TrainReport& report) {
  report.steps.push_back({.tokens = plan_metrics(plan).tokens,
                          .loss = own.loss,
                          .seconds = own.seconds,
                          .predicted_seconds = plan.step.seconds,
                          .pipeline_seconds = own.pipeline_seconds,
                          .predicted_pipeline_seconds = plan.step.pipeline_seconds});
  if (report.steps.size() == 2) report.tasks.clear();
  report.memory.resize(figures.size());
  const PlanRanks ranks(plan);
  for (std::size_t rank = 0; rank < figures.size(); ++rank) {
    const RankPlace place = ranks.place_of(rank);
    const std::span<const double> numbers(figures[rank]);
    TrainedMemory& memory = report.memory[rank];
    memory.place = place;
    memory.peak_bytes = std::max(memory.peak_bytes, numbers[0]);
    memory.predicted_bytes = std::max(memory.predicted_bytes, numbers[1]);
    add_tasks(plan, place, numbers.subspan(numbers_before_tasks), report.tasks);
  }
}

/// @throws InvalidInput if weights, gradients and the optimiser's moments alone exceed what a stage may use:
/// then the system need not be asked for them.
template <class Stage>
void require_room_for_weights(const Course& course, std::size_t rank) {
  const Plan& plan = course.plan(0);
  const PlanRanks ranks(plan);
  if (rank >= ranks.size()) return;  // the executor says what is wrong with that
  const RankPlace place = ranks.place_of(rank);
  const typename Stage::Memory memory(
      course.model, plan.pipelines[place.pipeline].layers, sizeof(typename Stage::Weight), course.stage,
      2.0 / static_cast<double>(plan.pipelines.size()), {ranks.tensor_ranks(place.pipeline), place.tensor});
  const double bytes = memory.static_bytes(place.stage);
  require_memory(bytes, course.stage.limit_bytes, "stage ", place.stage, " of pipeline ", place.pipeline,
                 " for weights, gradients and optimiser");
}

/// Share of words that nobody can foresee.
inline constexpr double text_noise = 0.1;

/// Loss of the batch that is not trained on, if it is asked for after so many steps.
template <class Executor>
[[nodiscard]] std::optional<double> unseen_loss(Executor& executor, const Course& course,
                                                const TrainOptions& options, const Language& language,
                                                std::size_t steps) {
  if (!course.unseen || (steps % options.evaluate != 0 && steps != course.steps)) return std::nullopt;
  const auto& [plan, texts] = *course.unseen;
  return executor.evaluate(plan, language.texts(texts, plan.tokens)).loss;
}

/// One rank's part in training. All ranks have to call it with the same arguments.
/// @tparam Stage the back end. @param on_step called on rank 0 after each step with the report so far.
/// @param links between the ranks' devices, if there are any.
/// @throws InvalidInput and TransportError as `RankExecutor`.
template <kernels::StageBackEnd Stage, kernels::Transport T, class OnStep, class Links = kernels::NoLinks>
void train_rank(T& transport, const Course& course, const TrainOptions& options, OnStep&& on_step,
                Links links = {}) {
  const kernels::ExecutorOptions executor_options{.stage = course.stage,
                                                  .init = {.seed = options.seed},
                                                  .adamw = {.learning_rate = options.learning_rate},
                                                  .waits = {.timeout = options.timeout}};
  require_room_for_weights<Stage>(course, transport.rank());
  kernels::RankExecutor<Stage, T, Links> executor(transport, course.model, course.plan(0), executor_options,
                                                  std::move(links));
  give_attention(executor.stage(), options);
  bool told = false;
  const Language language(course.model.vocab, options.seed, text_noise, options.topics);
  TrainReport report;
  report.entropy = language.entropy();
  for (std::size_t step = 0; step < course.steps; ++step) {
    const Plan& plan = course.plan(step);
    const kernels::StepReport own = executor.step(plan, language.texts(course.texts(step), plan.tokens));
    const std::optional<double> unseen = unseen_loss(executor, course, options, language, step + 1);
    told = told || tell_attention(executor.stage(), transport.rank());
    const auto figures = gather_figures(transport, plan, own);
    if (transport.rank() != 0) continue;
    add_step(plan, own, figures, report);
    if (unseen) report.evaluations.push_back({.steps = step + 1, .loss = *unseen});
    on_step(report);
  }
}

}  // namespace slimpack::command
