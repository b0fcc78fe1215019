#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/gpu.hpp"
#include "bench/gpu/stage_plans.hpp"
#include "bench/gpu/timed_stage.hpp"
#include "bench/gpu/violins.hpp"
#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/profile_device.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/model/presets.hpp"
#ifdef SLIMPACK_BENCH_JSON
#include "slimpack/cost/profile_json.hpp"
#endif

namespace slimpack::bench {

namespace {

using kernels::TaskRecord;
using kernels::cuda::CudaStage;

kernels::StagePart stage_part_of(const Plan& plan) {
  return kernels::stage_part(plan.model, plan, 0, timed_stage);
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, q);
}

double median_of(const std::vector<StageRun>& runs, double (*seconds_of)(const StageRun&)) {
  std::vector<double> seconds;
  for (const StageRun& run : runs) seconds.push_back(seconds_of(run));
  return quantile(seconds, 0.5);
}

double whole_seconds(const StageRun& run) { return run.seconds; }
double device_seconds(const StageRun& run) { return run.device_seconds(); }

/// Work of the model in a step, without what is recomputed.
double model_flops(const Plan& plan, const StageProgram& program) {
  double flops = 0.0;
  for (const StageTask& task : program.tasks()) {
    const Flops work = pack_flops(plan.model, task.slices, task.pass);
    flops += static_cast<double>(program.layers()) * (work.linear + work.attention);
  }
  return flops;
}

void print_times(const std::string& name, const std::vector<TaskRecord>& records) {
  std::map<Pass, std::vector<double>> seconds;
  for (const TaskRecord& record : records) seconds[record.pass].push_back(record.seconds);
  for (const auto& [pass, times] : seconds) {
    std::printf("| %s, %s | %zu |", name.c_str(), pass == Pass::forward ? "forward" : "backward",
                times.size());
    for (const double q : {0.0, 0.25, 0.5, 0.75, 0.9, 1.0}) std::printf(" %.2f |", 1e3 * quantile(times, q));
    std::printf("\n");
  }
}

/// Rates of tasks, and of the step with all that belongs to it.
void report_utilisation(const NamedPlan& p, const StageProgram& program, const std::vector<StageRun>& runs,
                        double ceiling, double vendor, const FigureFile& figures) {
  const double flops = model_flops(p.plan, program), seconds = median_of(runs, whole_seconds);
  double busy = 0.0;
  for (const TaskRecord& record : runs.back().tasks) busy += record.seconds;
  std::printf(
      "%s: a step takes %.3f s, its tasks %.3f s. Model-FLOPs utilisation of the step with its update: %.3f "
      "of "
      "cuBLASLt's rate (tasks alone %.3f)",
      p.name.c_str(), seconds, busy, flops / seconds / ceiling, flops / busy / ceiling);
  figures.add("stage/" + p.name + "/of cuBLASLt", flops / seconds / ceiling);
  if (vendor > 0.0) {
    std::printf(", %.3f of the vendor's peak\n", flops / seconds / vendor);
    figures.add("stage/" + p.name + "/of vendor's peak", flops / seconds / vendor);
  } else {
    std::printf("; the vendor's peak is not known here\n");
    figures.add_words("stage/" + p.name + "/of vendor's peak", "this GPU has no preset");
  }
}

/// How far a profile's seconds are from measured ones, of whose steps the median counts; and all tasks into a
/// file.
/// @param profile nullptr if there is none: tasks are kept all the same.
void report_prediction(const std::string& name, const Profile* profile, const StageProgram& program,
                       const std::vector<StageRun>& runs, const FigureFile& figures,
                       const std::string& file) {
  std::vector<MeasuredTask> tasks;
  double predicted = 0.0, all = 0.0;
  std::ofstream out;
  if (!file.empty()) out.open(file, std::ios::app);
  for (std::size_t i = 0; i < program.tasks().size(); ++i) {
    const StageTask& from = program.tasks()[i];
    std::vector<double> seconds;
    for (const auto& run : runs) seconds.push_back(run.tasks[i].seconds);
    MeasuredTask& task = tasks.emplace_back(kernels::measured_task(program, from));
    task.seconds = quantile(seconds, 0.5);
    const double expected = profile != nullptr ? predicted_seconds(*profile, task) : NAN;
    predicted += expected;
    all += task.seconds;
    if (out.is_open()) {
      write_timed_task(
          out, {name, from.pass == Pass::forward ? "forward" : "backward", static_cast<long>(from.pack),
                static_cast<long>(from.tokens), task.seconds, expected});
    }
  }
  out.flush();
  require(file.empty() || out.good(), "can't write '", file, "'; expected a file that can be written");
  if (profile == nullptr) return;
  const PredictionError error = prediction_error(*profile, tasks);
  std::printf("%s: predicted times are off by %.1f %% (median), %.1f %% (worst), their sum by %+.1f %%\n",
              name.c_str(), 100 * error.median, 100 * error.worst, 100 * (predicted / all - 1));
  figures.add("stage/" + name + "/prediction", error.median);
}

void report_memory(const NamedPlan& p, double counted, double taken, const FigureFile& figures) {
  const auto off = [&](double bytes) { return bytes / p.simulated_bytes - 1; };
  std::printf(
      "%s: memory peak in GB: simulated %.3f, counted by the stage %.3f (%+.2f %%), gone from the GPU's free "
      "memory %.3f (%+.2f %%)\n",
      p.name.c_str(), p.simulated_bytes * 1e-9, counted * 1e-9, 100 * off(counted), taken * 1e-9,
      100 * off(taken));
  figures.add("stage/" + p.name + "/memory counted", std::abs(off(counted)));
  figures.add("stage/" + p.name + "/memory taken", std::abs(off(taken)));
}

double free_bytes() { return static_cast<double>(kernels::cuda::use_device().free_memory); }

/// One plan of the long batch, after a step that does not count.
void time_plan_of(const NamedPlan& p, const Profile* profile, double ceiling, double vendor,
                  const FigureFile& figures, const StageTimes& options, double seconds) {
  constexpr std::size_t most_steps = 3;
  const StageProgram program(p.plan, 0, timed_stage);
  const double free = free_bytes();
  TimedStage<CudaStage> stage(stage_part_of(p.plan), {.graphs = false});
  const auto begin = std::chrono::steady_clock::now();
  stage.warm_up(program, p.plan);
  std::vector<StageRun> runs;
  do {
    runs.push_back(stage.step(program, p.plan));
  } while (runs.size() < most_steps && seconds_since(begin) + runs.back().seconds < seconds);
  const double taken = free - free_bytes();
  std::printf(
      "\n%s, %zu steps; milliseconds of tasks:\n\n| tasks | number | least | 25 %% | median | 75 %% | 90 %% "
      "| "
      "most |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
      p.name.c_str(), runs.size());
  print_times(p.name, runs.back().tasks);
  std::printf("\n");
  report_prediction(p.name, profile, program, runs, figures, options.tasks_file);
  report_memory(p, stage.stage().memory().peak(), taken, figures);
  report_utilisation(p, program, runs, ceiling, vendor, figures);
}

/// A step of a small batch with graphs, and one without.
void time_graphs(const NamedPlan& p) {
  constexpr int repeats = 5;
  const StageProgram program(p.plan, 0, timed_stage);
  double before = 0.0;
  std::printf(
      "\n| %s, a small batch | tasks in graphs | a step, ms | on the GPU, ms | of that without | GB gone "
      "from the "
      "GPU |\n| --- | --- | --- | --- | --- | --- |\n",
      p.name.c_str());
  for (const bool graphs : {false, true}) {
    const double free = free_bytes();
    TimedStage<CudaStage> stage(stage_part_of(p.plan), {.graphs = graphs});
    std::vector<StageRun> runs;
    for (int i = 0; i < 2; ++i) static_cast<void>(stage.step(program, p.plan));  // takes, chooses, captures
    for (int i = 0; i < repeats; ++i) runs.push_back(stage.step(program, p.plan));
    const double seconds = median_of(runs, whole_seconds);
    if (!graphs) before = seconds;
    std::printf("| %s graphs | %zu | %.2f | %.2f | %.3f | %.3f |\n", graphs ? "with" : "without",
                runs.back().graph_tasks, 1e3 * seconds, 1e3 * median_of(runs, device_seconds),
                seconds / before, (free - free_bytes()) * 1e-9);
  }
}

Profile profile_of(const Transformer& model, const kernels::cuda::Ceilings& ceilings, double seconds) {
  const kernels::cuda::Device device = kernels::cuda::use_device();
  Profile profile;
  profile.model = model;
  profile.machine = device.name;
  profile.date = kernels::utc_date();
  kernels::ProfileOptions options{.seconds = seconds};
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

void time_stage(const kernels::cuda::Ceilings& ceilings, const FigureFile& figures,
                const StageTimes& options) {
  const kernels::cuda::Device gpu = kernels::cuda::use_device();
  const Device* known = preset_of(gpu.name);
  Device device = known != nullptr ? *known : device_preset("a100");
  device.memory_bytes = kernels::cuda::usable_bytes(gpu);
  if (known == nullptr)
    std::printf("%s has no preset: plans are made with the rates of an A100\n", gpu.name.c_str());
  if (!options.tasks_file.empty()) {
    std::ofstream tasks(options.tasks_file);
    tasks << timed_task_head << '\n';
  }
  std::optional<Profile> profile;
  try {
    profile = profile_of(transformer_preset("llama-13b"), ceilings, options.seconds / 3);
    figures.add("profile/held out", profile->held_out.median);
    if (!options.profile_file.empty()) keep(*profile, options.profile_file);
  } catch (const std::exception& error) {  // tasks can be timed without it
    std::printf("profile: %s\n", error.what());
    figures.add_words("profile/held out", error.what());
  }
  const StagePlans small = plan_stage(device, 64, 8192), batch = plan_long_tail(device);
  print_plans(batch);
  for (const NamedPlan& p : batch.plans) {
    try {
      time_plan_of(p, profile ? &*profile : nullptr, ceilings.flops,
                   known != nullptr ? known->peak_flops : 0.0, figures, options, options.seconds / 3);
    } catch (const std::exception& error) {  // the other plan may run
      std::printf("%s: %s\n", p.name.c_str(), error.what());
      figures.add_words("stage/" + p.name + "/prediction", error.what());
    }
  }
  time_graphs(small.plans.back());
}

}  // namespace slimpack::bench
