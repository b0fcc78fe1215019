#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "kernels/back_end.hpp"
#include "kernels/profile_probes.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/profile.hpp"

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

struct ProfileOptions {
  double seconds = 30.0;  ///< that measuring may take; at least three rounds are measured whatever they take
  Tokens tokens = 0;      ///< of the largest probes' packs, at least 64; 0 = as many as the time allows
  Tokens most_tokens = 2048;      ///< if `tokens` is 0
  std::int32_t stage_layers = 0;  ///< of a stage; 0 = half of the model's, 2 to 4
  ProfileClock clock = ProfileClock::wall;
  std::uint64_t seed = 1;
  StageOptions stage = {};
  InitOptions init = {};
};

/// Tasks with the median of what they took.
struct BackEndTimes {
  std::vector<MeasuredTask> fitted = {};    ///< of regular shapes
  std::vector<MeasuredTask> held_out = {};  ///< of random ones
  Tokens tokens = 0;                        ///< of the largest regular packs
  int rounds = 0;
};

namespace detail {

/// The stages on which probes run, as `probe_layers` has them.
template <StageBackEnd S>
class ProbeStages {
 public:
  using Real = typename S::Number;

  ProbeStages(const Transformer& model, const ProfileOptions& options)
      : clock_(options.clock), hidden_(model.hidden) {
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
      stages_.back()->initialise(options.init);
      before += layers[s];
    }
  }

  [[nodiscard]] std::size_t size() const { return stages_.size(); }

  /// Runs a probe on a stage and adds what its tasks took.
  void run(const Probe& probe, std::size_t stage, ProbeTimes& times) {
    S& s = *stages_[stage];
    const StageProgram& program = probe.program(stage);
    s.begin_step(program, probe.ids());
    for (std::size_t i = 0; i < program.tasks().size(); ++i) {
      const StageTask& task = program.tasks()[i];
      const MatrixView<const Real> rows = input(static_cast<std::size_t>(task.owned_tokens));
      const double begin = seconds_now(clock_);
      if (task.pass == Pass::forward) {
        s.forward(task, rows);
      } else {
        s.backward(task, rows);
      }
      const double seconds = seconds_now(clock_) - begin;
      s.release(task);
      times.add(probe.number(), stage, i, seconds);
    }
  }

 private:
  /// Rows as other stages would send them: of any numbers around one.
  [[nodiscard]] MatrixView<const Real> input(std::size_t rows) {
    const auto hidden = static_cast<std::size_t>(hidden_);
    std::uniform_real_distribution<double> number(-1.0, 1.0);
    while (input_.size() < rows * hidden) input_.push_back(static_cast<Real>(number(random_)));
    return {input_.data(), rows, hidden};
  }

  ProfileClock clock_;
  std::int32_t hidden_;
  std::vector<std::unique_ptr<S>> stages_;
  AlignedVector<Real> input_;
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

}  // namespace detail

/// Measures a back end's tasks on this machine: slices of several lengths behind prefixes of several lengths, packs of
/// short samples, forward, backward and with layers recomputed; on a first, a middle, a longer middle and a last
/// stage. After a warm-up, rounds go over all of them in changing order; medians count.
/// @param model its shape; the number of layers does not matter.
/// @throws InvalidInput if the model or an option is impossible.
template <StageBackEnd S>
[[nodiscard]] BackEndTimes measure_back_end(const Transformer& model, const ProfileOptions& options = {}) {
  constexpr Tokens least_tokens = 64;
  constexpr int least_rounds = 3, planned_rounds = 5;
  constexpr double growth = 2.6;  // of a round's seconds, when its tokens double
  validate(model);
  require(options.seconds > 0.0, "seconds is ", options.seconds, "; expected a positive number");
  require(options.tokens == 0 || options.tokens >= least_tokens, "tokens is ", options.tokens,
          "; expected at least ", least_tokens, ", or 0");
  require(options.stage_layers >= 0, "stage_layers is ", options.stage_layers, "; expected 0 or more");
  const double begin = seconds_now(ProfileClock::wall);
  const auto elapsed = [&] { return seconds_now(ProfileClock::wall) - begin; };
  std::mt19937_64 random(options.seed);
  detail::ProbeStages<S> stages(model, options);
  const std::vector<std::int32_t> layers = probe_layers(model, options.stage_layers);
  BackEndTimes result{.tokens = options.tokens > 0 ? options.tokens : least_tokens};
  std::vector<Probe> probes;
  for (;;) {
    probes = make_probes(model, layers, result.tokens, options.seed);
    ProbeTimes warm_up(probes);
    const double round = detail::run_round(stages, probes, random, warm_up);
    const double next = elapsed() + growth * round * (1 + planned_rounds);
    if (options.tokens > 0 || 2 * result.tokens > options.most_tokens || next > options.seconds) break;
    result.tokens *= 2;
  }
  ProbeTimes times(probes);
  for (double round = 0.0; result.rounds < least_rounds || elapsed() + round <= options.seconds;
       ++result.rounds) {
    round = detail::run_round(stages, probes, random, times);
  }
  times.medians(probes, result.fitted, result.held_out);
  return result;
}

/// Medians of what some memory-bound operators and the optimiser take per number, into a profile. For the CPU's
/// kernels. @param tokens of the operators' rows.
template <class Real>
void measure_operators(const Transformer& model, Tokens tokens, ProfileClock clock, Profile& profile);

/// Rates and errors of a profile from measured tasks: the fitted ones give rates, the others are predicted.
/// @throws InvalidInput as `fit_tasks`.
void fit_back_end(const BackEndTimes& times, Profile& profile);

}  // namespace slimpack::kernels
