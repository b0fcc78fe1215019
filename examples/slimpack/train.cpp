#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "commands.hpp"
#include "kernels/keep_memory.hpp"
#include "kernels/transport/collectives.hpp"
#include "kernels/transport/in_process.hpp"
#include "kernels/transport/tcp.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/settings.hpp"
#include "train_build.hpp"
#include "train_ranks.hpp"
#ifdef SLIMPACK_COMMAND_CUDA
#include "gpu.hpp"
#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/transport/launch.hpp"
#endif
#ifdef SLIMPACK_COMMAND_NCCL
#include "gpu_links.hpp"
#endif
#ifdef SLIMPACK_COMMAND_MPI
#include "kernels/transport/mpi.hpp"
#endif

namespace slimpack::command {

namespace {

/// Prints steps as they are done, and the rest after the last one; as JSON, everything then.
void print(const TrainReport& report, std::size_t steps, bool json) {
  const std::size_t done = report.steps.size();
  if (json) {
    if (done == steps) std::cout << to_json_text(report);
    return;
  }
  if (done == 1) std::cout << step_heading();
  std::cout << step_text(done, report.steps.back());
  if (!report.evaluations.empty() && report.evaluations.back().steps == done)
    std::cout << evaluation_text(report.evaluations.back());
  std::cout << std::flush;
  if (done == steps) std::cout << summary_text(report);
}

#ifdef SLIMPACK_COMMAND_CUDA
/// Number of the GPU that a rank takes. Those that are threads share the first one.
std::size_t gpu_of(const TrainOptions& options) {
  return options.ranks == RankKind::threads ? 0 : kernels::local_rank_of();
}
#endif

/// Processes' first words: what they need in common before they can do anything together; the executor sees to the rest.
/// One without its GPU ends all others at once, before they plan. All ranks have to call it.
template <kernels::Transport T>
Course met_course(T& transport, const TrainOptions& options) {
#ifdef SLIMPACK_COMMAND_CUDA
  if (options.cuda) static_cast<void>(use_gpu(gpu_of(options)));
#endif
  const Settings own{{"build", build_text()},
                     {"device", options.cuda ? "cuda" : "cpu"},
                     {"links", options.values["links"].as<std::string>()},
                     setting("number of steps", options.steps)};
  kernels::Group<T> all(transport);
  agree_on_settings(own, [&](const std::string& text) { return kernels::all_gather_text(all, text); });
  return make_course(options);
}

template <kernels::Transport T>
void train_on(T& transport, const Course& course, const TrainOptions& options) {
  const auto on_step = [&](const TrainReport& report) { print(report, course.steps, options.json); };
#ifdef SLIMPACK_COMMAND_CUDA
  if (options.cuda) {
    static_cast<void>(use_gpu(gpu_of(options)));
#ifdef SLIMPACK_COMMAND_NCCL
    if (by_nccl(transport, options)) {
      kernels::NcclLinks links(transport, PlanRanks(course.plan(0)), {.timeout = options.timeout});
      return train_rank<kernels::cuda::CudaStage>(transport, course, options, on_step, std::move(links));
    }
#else
    require(options.links != LinkKind::nccl,
            "this slimpack has no NCCL; expected one built where NCCL is found, or --links host");
#endif
    return train_rank<kernels::cuda::CudaStage>(transport, course, options, on_step);
  }
#endif
  if (options.number_bytes == sizeof(float)) {
    train_rank<kernels::CpuStage<float>>(transport, course, options, on_step);
  } else {
    train_rank<kernels::CpuStage<double>>(transport, course, options, on_step);
  }
}

/// A rank that stands still can't be ended and is left behind: it keeps what it works on.
void train_on_threads(const TrainOptions& given) {
#ifdef SLIMPACK_COMMAND_CUDA
  if (given.cuda) static_cast<void>(use_gpu(gpu_of(given)));
#endif
  const auto options = std::make_shared<const TrainOptions>(given);
  const auto course = std::make_shared<const Course>(make_course(given));
  kernels::InProcessOptions transport;
  transport.timeout = given.timeout;
  const auto body = [options, course](kernels::InProcessTransport& t) {
    try {
      train_on(t, *course, *options);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat("rank ", t.rank(), ": ", error.what()));
    }
  };
  try {
    kernels::run_in_process(rank_count(course->plan(0)), body, transport);
  } catch (const kernels::TransportError& error) {
    throw InvalidInput(error.what());
  }
}

int train_on_tcp(const TrainOptions& options) {
  kernels::TcpOptions transport;
  transport.timeout = options.timeout;
  transport.start_timeout = options.start_timeout;
  const bool slurm = kernels::launcher_of() == kernels::Launcher::slurm;
  const auto launch = kernels::launch_of(slurm ? kernels::Launcher::slurm : kernels::Launcher::torchrun);
  return kernels::run_tcp([&](kernels::TcpTransport& t) { train_on(t, met_course(t, options), options); },
                          launch, transport);
}

#ifdef SLIMPACK_COMMAND_MPI
int train_on_mpi(const TrainOptions& options) {
  kernels::MpiOptions transport;
  transport.timeout = options.timeout;
  return kernels::run_mpi([&](kernels::MpiTransport& t) { train_on(t, met_course(t, options), options); },
                          transport);
}
#else
int train_on_mpi(const TrainOptions&) {
  throw InvalidInput(
      "this slimpack has no MPI; expected one built where MPI is found, or --transport threads or tcp");
}
#endif

}  // namespace

int train(const std::vector<std::string>& arguments) {
#ifdef SLIMPACK_COMMAND_NCCL
  kernels::prepare_for_links();
#endif
  const auto options = train_options(arguments);
  if (!options) return 0;
  kernels::keep_memory();  // as when profiles are measured
  if (options->ranks == RankKind::mpi) return train_on_mpi(*options);
  if (options->ranks == RankKind::tcp) return train_on_tcp(*options);
  train_on_threads(*options);
  return 0;
}

}  // namespace slimpack::command
