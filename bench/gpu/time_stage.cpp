#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/gpu.hpp"
#include "bench/lengths.hpp"
#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/device_rows.hpp"
#include "kernels/cuda/profile_device.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#ifdef SLIMPACK_BENCH_JSON
#include <fstream>

#include "slimpack/cost/profile_json.hpp"
#endif

namespace slimpack::bench {

namespace {

using kernels::TaskRecord;
using kernels::cuda::Bf16, kernels::cuda::CudaStage;

constexpr std::int32_t stages = 4;
constexpr std::size_t measured = 1;  ///< a stage in the middle: layers alone
constexpr Tokens context = 32768;

Job job_of(const Transformer& model) { return {model, device_preset("h100"), {.dp = 1, .pp = stages}}; }

/// A step of a stage.
struct StageRun {
  std::vector<TaskRecord> tasks;
  double seconds = 0.0;  ///< from the step's begin to its loss, by the host's clock
  std::size_t graph_tasks = 0;
};

/// Runs a stage's tasks in the plan's order, with the same rows for each that would come from another stage.
StageRun run_tasks(CudaStage& stage, const StageProgram& program, const Ragged<std::int32_t>& ids) {
  Tokens most = 0;
  for (const StageTask& task : program.tasks()) most = std::max(most, task.owned_tokens);
  const std::size_t hidden = stage.part().hidden();
  const auto rows = stage.port().buffer(static_cast<std::size_t>(most) * hidden);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows.data()[i] = i < 65536 ? kernels::cuda::to_bf16(normal(random)) : rows.data()[i - 65536];
  StageRun run;
  const auto begin = std::chrono::steady_clock::now();
  stage.begin_step(program, ids);
  for (const StageTask& task : program.tasks()) {
    const kernels::MatrixView<const Bf16> in(rows.data(), static_cast<std::size_t>(task.owned_tokens),
                                             hidden);
    static_cast<void>(task.pass == Pass::forward ? stage.forward(task, in) : stage.backward(task, in));
    stage.release(task);
    run.tasks.push_back({.pass = task.pass, .pack = task.pack});
  }
  static_cast<void>(stage.loss());
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  stage.read_times(run.tasks);
  run.graph_tasks = stage.graph_tasks();
  return run;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

void report(const char* name, const Plan& plan, const StageProgram& program,
            const std::vector<TaskRecord>& records, double peak_flops) {
  std::map<Pass, std::vector<double>> seconds;
  double flops = 0.0, busy = 0.0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const StageTask& task = program.tasks()[i];
    const Flops work = pack_flops(plan.model, task.slices, task.pass);
    flops += static_cast<double>(program.layers()) * (work.linear + work.attention);
    busy += records[i].seconds;
    seconds[task.pass].push_back(records[i].seconds);
  }
  const double whole = records.back().start + records.back().seconds - records.front().start;
  for (const auto& [pass, times] : seconds) {
    std::printf("| %s, %s | %zu | %.2f | %.2f | %.2f | %.2f |\n", name,
                pass == Pass::forward ? "forward" : "backward", times.size(), 1e3 * quantile(times, 0.0),
                1e3 * quantile(times, 0.5), 1e3 * quantile(times, 0.9), 1e3 * quantile(times, 1.0));
  }
  std::printf(
      "| %s, model-FLOPs utilisation | | %.3f of cuBLASLt's rate while tasks run, %.3f of it in all | | | "
      "|\n",
      name, flops / busy / peak_flops, flops / whole / peak_flops);
}

/// How far a profile's seconds are from measured ones. @param runs of the same tasks, whose median counts.
void report_prediction(const char* name, const Profile& profile, const StageProgram& program,
                       const std::vector<StageRun>& runs) {
  std::vector<MeasuredTask> tasks;
  double predicted = 0.0, all = 0.0;
  for (std::size_t i = 0; i < program.tasks().size(); ++i) {
    std::vector<double> seconds;
    for (const auto& run : runs) seconds.push_back(run.tasks[i].seconds);
    MeasuredTask& task = tasks.emplace_back(kernels::measured_task(program, program.tasks()[i]));
    task.seconds = quantile(seconds, 0.5);
    predicted += predicted_seconds(profile, task);
    all += task.seconds;
  }
  const PredictionError error = prediction_error(profile, tasks);
  std::printf(
      "| %s, error of predicted times | %zu | median %.1f %% | worst %.1f %% | of the sum %+.1f %% | |\n",
      name, tasks.size(), 100 * error.median, 100 * error.worst, 100 * (predicted / all - 1));
}

/// Steps of a new stage, behind those in which all is taken, chosen and captured.
/// @param[out] peak most memory of the stage.
std::vector<StageRun> run_steps(const Plan& plan, bool graphs, std::size_t repeats, double& peak) {
  const StageProgram program(plan, 0, measured);
  CudaStage stage(kernels::stage_part(plan.model, plan, 0, measured), {.graphs = graphs});
  stage.initialise();
  stage.set_replicas({});
  Ragged<std::int32_t> ids;
  for (const Tokens length : plan.tokens) {
    for (Tokens t = 0; t < length; ++t) ids.add(static_cast<std::int32_t>(t % plan.model.vocab));
    ids.close();
  }
  for (int step = 0; step < 2; ++step) static_cast<void>(run_tasks(stage, program, ids));
  std::vector<StageRun> runs;
  while (runs.size() < repeats) runs.push_back(run_tasks(stage, program, ids));
  peak = stage.memory().peak();
  return runs;
}

/// From the first task's begin to the last one's end, by the GPU's clock.
double device_seconds(const StageRun& run) {
  return run.tasks.back().start + run.tasks.back().seconds - run.tasks.front().start;
}

void report_graphs(const char* name, const std::vector<StageRun>& without,
                   const std::vector<StageRun>& with) {
  const auto median = [](const std::vector<StageRun>& runs, auto&& seconds_of) {
    std::vector<double> seconds;
    for (const StageRun& run : runs) seconds.push_back(seconds_of(run));
    return quantile(seconds, 0.5);
  };
  const auto whole = [](const StageRun& run) { return run.seconds; };
  const double before = median(without, whole), after = median(with, whole);
  std::printf("| %s, a step without graphs | %zu | %.2f | on the GPU %.2f | | |\n", name,
              without.back().graph_tasks, 1e3 * before, 1e3 * median(without, device_seconds));
  std::printf("| %s, a step with graphs | %zu | %.2f | on the GPU %.2f | %.3f of that without | |\n", name,
              with.back().graph_tasks, 1e3 * after, 1e3 * median(with, device_seconds), after / before);
}

void time_plan_of(const char* name, const Plan& plan, const CudaStage::Memory& memory, double peak_flops,
                  const Profile& profile) {
  constexpr std::size_t repeats = 3;
  const StageProgram program(plan, 0, measured);
  double peak = 0.0, peak_of_graphs = 0.0;
  const auto runs = run_steps(plan, false, repeats, peak);
  report(name, plan, program, runs.back().tasks, peak_flops);
  report_prediction(name, profile, program, runs);
  const double simulated = memory_over_time(plan, time_plan(plan), memory).peak_bytes[0][measured];
  std::printf("| %s, memory in GB | | %.3f | simulated %.3f | %+.2f %% | |\n", name, peak * 1e-9,
              simulated * 1e-9, 100 * (peak / simulated - 1));
  report_graphs(name, runs, run_steps(plan, true, repeats, peak_of_graphs));
}

Profile profile_of(const Transformer& model, const kernels::cuda::Ceilings& ceilings) {
  const kernels::cuda::Device device = kernels::cuda::use_device();
  Profile profile;
  profile.model = model;
  profile.machine = device.name;
  profile.date = kernels::utc_date();
  kernels::ProfileOptions options{.seconds = 90.0};
  options.stage.head_chunk_tokens = 2048;
  options.stage.limit_bytes = kernels::cuda::usable_bytes(device);
  using Rows = kernels::cuda::DeviceRows<kernels::cuda::CudaDevice>;
  const auto times = kernels::cuda::profile_device<CudaStage, Rows>(
      kernels::cuda::measured_device(device, ceilings), options, profile);
  std::printf(
      "\nProfile of %s, %d rounds of packs of up to %lld tokens. Error of predicted times: fitted tasks "
      "median %.1f %%, "
      "worst %.1f %%; held out median %.1f %%, worst %.1f %%. Attention's share of cuBLASLt's rate in "
      "stages: %.2f "
      "forward, %.2f backward\n",
      model.name.c_str(), times.rounds, static_cast<long long>(times.tokens), 100 * profile.fit.median,
      100 * profile.fit.worst, 100 * profile.held_out.median, 100 * profile.held_out.worst,
      profile.device->attention_forward, profile.device->attention_backward);
  return profile;
}

#ifdef SLIMPACK_BENCH_JSON
void keep(const Profile& profile, const std::string& file) {
  std::ofstream out(file);
  out << to_json(profile);
  out.close();
  require(!out.fail(), "can't write '", file, "'; expected a file that can be written");
}
#else
void keep(const Profile&, const std::string& file) {
  throw InvalidInput(
      concat("--profile is ", file, ", but this program was built without nlohmann_json; expected none"));
}
#endif

}  // namespace

void time_stage(const kernels::cuda::Ceilings& ceilings, const std::string& profile_file) {
  const Transformer model = transformer_preset("llama-13b");
  const double peak_flops = ceilings.flops;
  const Profile profile = profile_of(model, ceilings);
  if (!profile_file.empty()) keep(profile, profile_file);
  const Job job = job_of(model);
  const auto layers = split_layers(model.layers, stages);
  const CudaStage::Memory memory(model, layers, sizeof(float), {.limit_bytes = job.device.memory_bytes});
  const auto lengths = ::bench::lengths(64, context, "SLIMPACK_LENGTHS", "examples/data/github.train.txt");
  std::printf("\n%s, stage %zu of %d (%d layers), %zu samples of up to %lld tokens, ms:\n\n",
              model.name.c_str(), measured, stages, layers[measured], lengths.size(),
              static_cast<long long>(context));
  std::printf("| tasks | number | least | median | 90 %% | most |\n| --- | --- | --- | --- | --- | --- |\n");
  time_plan_of("whole samples",
               plan_megatron(lengths, job, CalibratedCost(job), memory, {.context = context}), memory,
               peak_flops, profile);
  time_plan_of("slices",
               plan_slimpack(lengths, job, CalibratedCost(job), memory, {.tile = 128, .merge = false}),
               memory, peak_flops, profile);
}

}  // namespace slimpack::bench
