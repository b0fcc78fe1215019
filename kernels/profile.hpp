#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/back_end.hpp"
#include "kernels/profile_probes.hpp"
#include "kernels/task_record.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/exec/budget.hpp"

namespace slimpack::kernels {

/// What counts as a task's duration.
enum class ProfileClock : std::uint8_t {
  wall,
  /// Processor time of the calling thread. The same on an idle machine for a back end that computes in that
  /// thread; on a shared one, others' work does not count.
  thread,
};

/// Seconds by a clock, from some time on. @throws InvalidInput if the system has no such clock.
[[nodiscard]] double seconds_now(ProfileClock clock);

/// Today's, as a profile has it.
[[nodiscard]] std::string utc_date();

struct ProfileOptions {
  double seconds = 30.0;  ///< that measuring may take; at least three rounds are measured whatever they take
  Tokens tokens = 0;      ///< of the largest probes' packs, at least 64; 0 = as many as time and memory allow
  Tokens most_tokens = 2048;                ///< if `tokens` is 0
  std::int32_t stage_layers = 0;            ///< of a stage; 0 = half of the model's, 2 to 4
  ProfileClock clock = ProfileClock::wall;  ///< of back ends that have no `read_times`
  std::uint64_t seed = 1;
  StageOptions stage = {};  ///< its limit is of all of the probes' stages together
  InitOptions init = {};
};

/// Stages are measured as they are made. Others call what they want of a stage before its first step.
struct AsMade {
  template <class S>
  void operator()(const S&) const {}
};

/// Tasks with the median of what they took.
struct BackEndTimes {
  std::vector<MeasuredTask> fitted = {};    ///< of regular shapes
  std::vector<MeasuredTask> held_out = {};  ///< of random ones
  Tokens tokens = 0;                        ///< of the largest regular packs
  int rounds = 0;
};

/// Bytes that the stages of some probes hold together, each at its most, without moments of the optimiser.
/// @tparam S the back end. O(tasks).
template <StageBackEnd S>
[[nodiscard]] double probe_bytes(const Transformer& model, std::span<const std::int32_t> layers,
                                 const StageOptions& options, std::span<const Probe> probes) {
  constexpr double gaps = 1.06;  // of an arena, over what is in it
  const typename S::Memory memory(probe_model(model, layers), layers, sizeof(typename S::Weight), options,
                                  0.0);
  double sum = 0.0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const double held = memory.static_bytes(s);
    double most = held;
    for (const Probe& probe : probes) most = std::max(most, predicted_high_water(probe.program(s), memory));
    sum += held + gaps * (most - held);
  }
  return sum;
}

namespace detail {

/// The stages on which probes run, as `probe_layers` has them.
template <StageBackEnd S>
class ProbeStages {
 public:
  using Number = typename S::Number;

  /// @param prepare called with each stage once it is made
  template <class Prepare = AsMade>
  ProbeStages(const Transformer& model, const ProfileOptions& options, const Prepare& prepare = {})
      : clock_(options.clock), hidden_(static_cast<std::size_t>(model.hidden)) {
    const std::vector<std::int32_t> layers = probe_layers(model, options.stage_layers);
    const Transformer whole = probe_model(model, layers);
    std::int32_t before = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const StagePart part{.model = whole,
                           .first_layer = before,
                           .layers = layers[s],
                           .first = s == 0,
                           .last = s + 1 == layers.size()};
      stages_.push_back(std::make_unique<S>(part, options.stage));
      prepare(*stages_.back());
      stages_.back()->initialise(options.init);
      before += layers[s];
    }
  }

  [[nodiscard]] std::size_t size() const { return stages_.size(); }
  /// That all of them held together, each at its most.
  [[nodiscard]] double bytes() const {
    double sum = 0.0;
    for (const auto& stage : stages_) sum += stage->memory().peak();
    return sum;
  }

  /// Runs a probe on a stage and adds what its tasks took: by the back end's clock if it has one.
  void run(const Probe& probe, std::size_t stage, ProbeTimes& times) {
    S& s = *stages_[stage];
    const std::span<const StageTask> tasks = probe.program(stage).tasks();
    take_input(tasks);
    s.begin_step(probe.program(stage), probe.ids());
    records_.assign(tasks.size(), {});
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const StageTask& task = tasks[i];
      const MatrixView<const Number> rows(input_->data(), static_cast<std::size_t>(task.owned_tokens),
                                          hidden_);
      const double begin = seconds_now(clock_);
      if (task.pass == Pass::forward) {
        s.forward(task, rows);
      } else {
        s.backward(task, rows);
      }
      records_[i].seconds = seconds_now(clock_) - begin;
      s.release(task);
    }
    if constexpr (requires { s.read_times(std::span(records_)); }) {
      static_cast<void>(s.loss());  // after which the device is done
      s.read_times(std::span(records_));
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) times.add(probe.number(), stage, i, records_[i].seconds);
  }

 private:
  /// Rows as other stages would send them: of any numbers around one. Call while the back end has nothing to do.
  void take_input(std::span<const StageTask> tasks) {
    std::size_t rows = 0;
    for (const StageTask& task : tasks) rows = std::max(rows, static_cast<std::size_t>(task.owned_tokens));
    if (input_ && input_->size() >= rows * hidden_) return;
    input_.emplace(stages_.front()->port().buffer(rows * hidden_));
    std::uniform_real_distribution<float> number(-1.0F, 1.0F);
    for (std::size_t i = 0; i < rows * hidden_; ++i) {
      if constexpr (std::is_arithmetic_v<Number>) {
        input_->data()[i] = static_cast<Number>(number(random_));
      } else {
        set_number(input_->data()[i], number(random_));
      }
    }
  }

  ProfileClock clock_;
  std::size_t hidden_;
  std::vector<std::unique_ptr<S>> stages_;
  std::optional<typename S::Port::Buffer> input_;
  std::vector<TaskRecord> records_;
  std::mt19937_64 random_{1};
};

/// Runs each probe on each stage once, in an order that differs from round to round, so that a machine's drift
/// does not fall on some of them.
/// @returns seconds by the wall's clock that it took.
template <StageBackEnd S>
double run_round(ProbeStages<S>& stages, std::span<const Probe> probes, std::mt19937_64& random,
                 ProbeTimes& times) {
  const double begin = seconds_now(ProfileClock::wall);
  std::vector<std::size_t> order(probes.size() * stages.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  for (const std::size_t i : order) stages.run(probes[i / stages.size()], i % stages.size(), times);
  return seconds_now(ProfileClock::wall) - begin;
}

/// Least tokens of the largest probes' packs.
inline constexpr Tokens least_probe_tokens = 64;

/// @throws InvalidInput naming what is impossible.
inline void require_profile(const Transformer& model, const ProfileOptions& options) {
  validate(model);
  require(options.seconds > 0.0, "seconds is ", options.seconds, "; expected a positive number");
  require(options.tokens == 0 || options.tokens >= least_probe_tokens, "tokens is ", options.tokens,
          "; expected at least ", least_probe_tokens, ", or 0");
  require(options.stage_layers >= 0, "stage_layers is ", options.stage_layers, "; expected 0 or more");
}

/// @throws InvalidInput saying how much memory is missing for the probes.
inline void require_probe_bytes(double bytes, double limit, Tokens tokens) {
  require(bytes <= limit, "stages for packs of ", tokens, " tokens take ", bytes, " bytes, but there are ",
          limit, "; expected ", bytes - limit, " bytes more, or fewer tokens or layers of a stage");
}

}  // namespace detail

/// Measures a back end's tasks on this machine: slices of several lengths after prefixes of several lengths, packs of
/// short samples, forward, backward and with layers recomputed; on a first, a middle, a longer middle and a last
/// stage. After a warm-up, rounds go over all of them in changing order; medians count.
/// @param model its shape; the number of layers does not matter. @param prepare called with each stage once it is made
/// @throws InvalidInput if the model or an option is impossible, or the least probes' stages exceed the limit of
/// `options.stage`, saying by how much.
template <StageBackEnd S, class Prepare = AsMade>
[[nodiscard]] BackEndTimes measure_back_end(const Transformer& model, const ProfileOptions& options = {},
                                            const Prepare& prepare = {}) {
  constexpr int least_rounds = 3, planned_rounds = 5;
  constexpr double growth = 2.6;  // of a round's seconds, when its tokens double
  detail::require_profile(model, options);
  const double begin = seconds_now(ProfileClock::wall), limit = options.stage.limit_bytes;
  const auto elapsed = [&] { return seconds_now(ProfileClock::wall) - begin; };
  const std::vector<std::int32_t> layers = probe_layers(model, options.stage_layers);
  BackEndTimes result{.tokens = options.tokens > 0 ? options.tokens : detail::least_probe_tokens};
  std::vector<Probe> probes = make_probes(model, layers, result.tokens, options.seed);
  detail::require_probe_bytes(probe_bytes<S>(model, layers, options.stage, probes), limit, result.tokens);
  std::mt19937_64 random(options.seed);
  detail::ProbeStages<S> stages(model, options, prepare);
  for (;;) {
    ProbeTimes warm_up(probes);
    const double round = detail::run_round(stages, probes, random, warm_up);
    const double next = elapsed() + growth * round * (1 + planned_rounds);
    if (options.tokens > 0 || 2 * result.tokens > options.most_tokens || next > options.seconds) break;
    std::vector<Probe> larger = make_probes(model, layers, 2 * result.tokens, options.seed);
    if (probe_bytes<S>(model, layers, options.stage, larger) > limit) break;
    result.tokens *= 2;
    probes = std::move(larger);
  }
  ProbeTimes times(probes);
  for (double round = 0.0; result.rounds < least_rounds || elapsed() + round <= options.seconds;
       ++result.rounds) {
    round = detail::run_round(stages, probes, random, times);
  }
  times.medians(probes, result.fitted, result.held_out);
  return result;
}

/// Median seconds that a back end's optimiser takes for a parameter, on a stage that is a model of one layer.
/// @param prepare called with the stage once it is made
/// @throws InvalidInput if the stage, with gradients and moments, exceeds the limit of `options.stage`.
template <StageBackEnd S, class Prepare = AsMade>
[[nodiscard]] double measure_update(const Transformer& model, const ProfileOptions& options = {},
                                    const Prepare& prepare = {}) {
  constexpr std::size_t updates = 9;
  Transformer one = model;
  one.layers = 1;
  const StagePart part{.model = one, .first_layer = 0, .layers = 1, .first = true, .last = true};
  S stage(part, options.stage);
  prepare(stage);
  stage.initialise(options.init);
  stage.set_replicas({});
  const std::vector<std::int32_t> layers{1};
  const std::vector<Probe> probes = make_probes(one, layers, detail::least_probe_tokens, options.seed);
  const StageProgram& program = probes.front().program(0);
  stage.begin_step(program, probes.front().ids());
  for (const StageTask& task : program.tasks()) {  // for gradients
    static_cast<void>(task.pass == Pass::forward ? stage.forward(task, {}) : stage.backward(task, {}));
    stage.release(task);
  }
  std::vector<double> seconds;
  for (std::size_t i = 0; i <= updates; ++i) {
    static_cast<void>(stage.loss());  // waits for the device
    const double begin = seconds_now(options.clock);
    stage.update(static_cast<std::int64_t>(i + 1), {});
    static_cast<void>(stage.loss());
    if (i > 0) seconds.push_back(seconds_now(options.clock) - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + updates / 2, seconds.end());
  return seconds[updates / 2] / weight_count(part);
}

/// Medians of what some memory-bound operators and the optimiser take per number, into a profile. For the CPU's
/// kernels. @param tokens of the operators' rows.
template <class Real>
void measure_operators(const Transformer& model, Tokens tokens, ProfileClock clock, Profile& profile);

/// Rates and errors of a profile from measured tasks: the fitted ones give rates, the others are predicted.
/// @throws InvalidInput as `fit_tasks`.
void fit_back_end(const BackEndTimes& times, Profile& profile);

}  // namespace slimpack::kernels
