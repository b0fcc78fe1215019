#pragma once

#include <boost/program_options.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "slimpack/model/attention_choice.hpp"

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
  std::size_t evaluate = 0;  ///< steps from one evaluation to the next; 0: none
  std::size_t topics = 1;    ///< of the texts' language
  double number_bytes = 4;   ///< of weights; 4: float, 8: double
  double learning_rate = 1e-3;
  std::uint64_t seed = 1;
  double memory_bytes = std::numeric_limits<double>::infinity();  ///< that plans may use of a stage
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds start_timeout{300'000};
  RankKind ranks = RankKind::threads;
  bool cuda = false;  ///< stages run on GPUs
  LinkKind links = LinkKind::automatic;
  bool whole_stages = false;  ///< a stage of a plan file is one rank, whatever its tensor parallelism
  bool graphs = true;         ///< of CUDA, where a plan repeats
  AttentionChoice attention = AttentionChoice::ours;  ///< on GPUs
  double attention_workspace = 0;                     ///< bytes that a library's may work in
  bool json = false;
  boost::program_options::variables_map values;  ///< for what overrides a plan file's model
};

/// @returns nothing if help was asked for. @throws InvalidInput naming the option, and what would be
/// accepted.
std::optional<TrainOptions> train_options(const std::vector<std::string>& arguments);

}  // namespace slimpack::command
