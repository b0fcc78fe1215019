#pragma once

#include <boost/program_options.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/model/stage.hpp"
#include "options.hpp"
#include "slimpack/model/attention_choice.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::command {

/// What ranks are: threads of this process, processes of an mpirun, or processes of another launcher.
enum class RankKind : std::uint8_t { threads, mpi, tcp };

/// How rows, gradients and weights go between ranks on GPUs: through the host's memory, by NCCL, or by NCCL
/// where each rank has a GPU of its own.
enum class LinkKind : std::uint8_t { automatic, host, nccl };

/// What `train` is asked for.
struct TrainOptions {
  std::string plan_file;  ///< empty: batches are planned, by `planner`
  std::string planner;
  JobOptions job;  ///< of a plan file, only its device counts
  std::size_t steps = 1;
  double number_bytes = 4;  ///< of weights; 4: float, 8: double
  double learning_rate = 1e-3;
  std::uint64_t seed = 1;
  double memory_bytes = std::numeric_limits<double>::infinity();  ///< that plans may use of a stage
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds start_timeout{300'000};
  RankKind ranks = RankKind::threads;
  bool cuda = false;  ///< stages run on GPUs
  LinkKind links = LinkKind::automatic;
  bool graphs = true;                                 ///< of CUDA, where a plan repeats
  AttentionChoice attention = AttentionChoice::ours;  ///< on GPUs
  double attention_workspace = 0;                     ///< bytes that a library's may work in
  bool json = false;
  boost::program_options::variables_map values;  ///< for what overrides a plan file's model
};

/// @returns nothing if help was asked for. @throws InvalidInput naming the option, and what would be
/// accepted.
std::optional<TrainOptions> train_options(const std::vector<std::string>& arguments);

/// What is trained on: a valid plan for each step, or one for all, with what each is predicted to cost on
/// this back end.
struct Course {
  Transformer model;
  std::vector<Plan> plans;
  std::size_t steps = 0;
  kernels::StageOptions stage;  ///< with the memory that a stage may use

  [[nodiscard]] const Plan& plan(std::size_t step) const { return plans[step % plans.size()]; }
};

/// Reads the plan, or plans successive batches.
/// @throws InvalidInput if a plan is not valid or for another model, or a batch can't be planned.
Course make_course(const TrainOptions& options);

}  // namespace slimpack::command
