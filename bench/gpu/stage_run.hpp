#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"

// Training steps on a GPU's stages, or what stands for them, and the same on the CPU's in double.
namespace slimpack::bench {

struct StageCase {
  Plan plan;
  Transformer model;
  Ragged<std::int32_t> ids;
  kernels::ExecutorOptions options;
  int steps = 1;
};

using Tensors = std::map<std::string, std::vector<double>>;

/// What training came to, of all stages. Of replicas, which hold the same weights, one counts.
struct Outcome {
  double loss = 0.0;
  Tensors gradients, weights;
  std::vector<kernels::StepReport> reports;  ///< by rank
};

/// The nearest bf16.
[[nodiscard]] inline float rounded(float x) { return kernels::cuda::to_float(kernels::cuda::to_bf16(x)); }

template <class Real>
void add_tensors(std::span<const kernels::WeightTensor> tensors, std::span<const Real> weights,
                 std::span<const Real> gradients, Outcome& out) {
  for (const kernels::WeightTensor& t : tensors) {
    const auto of = [&](std::span<const Real> numbers) {
      const auto part = numbers.subspan(t.offset, t.size());
      return std::vector<double>(part.begin(), part.end());
    };
    out.weights[t.name] = of(weights);
    out.gradients[t.name] = of(gradients);
  }
}

/// Trains on stages of a kind, which have a `DeviceStage`'s functions, from weights rounded to bf16.
/// @param make called by each rank's thread with its transport, gives its RankExecutor.
template <class Make>
[[nodiscard]] Outcome run_executors(const StageCase& c, Make&& make,
                                    const kernels::InProcessOptions& options = {}) {
  Outcome out;
  out.reports.resize(rank_count(c.plan));
  std::mutex mutex;
  const auto run_rank = [&](kernels::InProcessTransport& t) {
    auto executor = make(t);
    auto& stage = executor.stage();
    std::vector<float> weights(stage.weight_layout().size()), gradients(weights.size());
    stage.read_weights(weights);
    for (float& w : weights) w = rounded(w);
    stage.write_weights(weights);
    kernels::StepReport report;
    for (int step = 0; step < c.steps; ++step) report = executor.step(c.plan, c.ids);
    stage.read_weights(weights);
    stage.read_gradients(gradients);
    const std::scoped_lock lock(mutex);
    out.loss = report.loss;
    add_tensors<float>(stage.weight_layout().tensors(), weights, gradients, out);
    out.reports[t.rank()] = report;
  };
  kernels::run_in_process(rank_count(c.plan), run_rank, options);
  return out;
}

/// The same through the host's memory.
/// @param begin called by each rank's thread with its number, before it makes its stage.
template <class Stage, class Begin>
[[nodiscard]] Outcome run_stages(const StageCase& c, Begin&& begin) {
  return run_executors(c, [&](kernels::InProcessTransport& t) {
    begin(t.rank());
    return kernels::RankExecutor<Stage, kernels::InProcessTransport>(t, c.model, c.plan, c.options);
  });
}

/// The same by the CPU, from the same weights.
[[nodiscard]] inline Outcome run_reference(const StageCase& c) {
  Outcome out;
  std::mutex mutex;
  kernels::run_in_process(rank_count(c.plan), [&](kernels::InProcessTransport& t) {
    kernels::RankExecutor<kernels::CpuStage<double>, kernels::InProcessTransport> executor(t, c.model, c.plan,
                                                                                           c.options);
    auto& weights = executor.stage().weights();
    for (double& w : weights.parameters()) w = static_cast<double>(rounded(static_cast<float>(w)));
    double loss = 0.0;
    for (int step = 0; step < c.steps; ++step) loss = executor.step(c.plan, c.ids).loss;
    const std::scoped_lock lock(mutex);
    out.loss = loss;
    add_tensors<double>(weights.tensors(), weights.parameters(), weights.gradients(), out);
  });
  return out;
}

}  // namespace slimpack::bench
