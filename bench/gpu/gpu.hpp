#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/gpu/attention_by.hpp"
#include "bench/gpu/figures.hpp"
#include "kernels/cuda/profile_device.hpp"

// What the program that checks and times the CUDA back end does, part by part.
namespace slimpack::bench {

/// How far the results of kernels on the GPU are from those in double precision; the worst counts.
class Checks {
 public:
  static constexpr double bound = 1e-2;  ///< ||result - expected|| / ||expected||

  void add(const std::string& what, double error);

  /// Prints a line for each kind of check. Whether all were within the bound.
  [[nodiscard]] bool report() const;

  /// The worst of all; not a number without any.
  [[nodiscard]] double worst() const;

 private:
  struct Line {
    std::string what;
    std::size_t count;
    double worst;
  };

  std::vector<Line> lines_;
};

/// Each against the CPU's in double, of fresh random inputs.
void check_operators(Checks& checks, unsigned seed);
/// Attention on packs of some hundred tokens, amid rows of no slice that are no numbers.
/// @throws std::runtime_error with a library's words, where it refuses.
void check_attention(Checks& checks, unsigned seed, AttentionBy by);
/// Attention at the shapes that are timed: sampled rows of the output and of gradients.
void check_timed_attention(Checks& checks, unsigned seed, AttentionBy by);
/// What this GPU and this build have, the fastest of ours before libraries'.
std::vector<AttentionBy> attention_ways();
/// Whole steps, of 1 to 3 stages and 1 and 2 pipelines on the one GPU.
void check_stage(Checks& checks, unsigned seed);

/// Prints and keeps what the GPU does at its best, in this process: cuBLASLt's product of two 8192 x 8192
/// matrices, and a copy within the GPU's memory.
kernels::cuda::Ceilings print_ceilings(const FigureFile& figures);

/// Prints seconds and rates of attention in one way, and the ceiling. A shape that is refused gets a line that says
/// so. Keeps "attention/SHAPE/PASS/BY".
void time_attention(const kernels::cuda::Ceilings& ceilings, const FigureFile& figures, unsigned seed,
                    AttentionBy by);

/// Prints and keeps what it costs to cut a sample of 256K tokens into 32 slices.
void time_slicing(const kernels::cuda::Ceilings& ceilings, const FigureFile& figures, unsigned seed,
                  AttentionBy by);

/// Prints rates of memory-bound operators, and of the copy.
void time_memory_bound(const kernels::cuda::Ceilings& ceilings, unsigned seed);

struct StageTimes {
  std::string profile_file;  ///< for the profile; empty: it is not kept
  std::string
      tasks_file;  ///< for the times of all tasks, as comma-separated values; empty: they are not kept
  double seconds = 120.0;  ///< that measuring may take: a third of them the profile, the rest steps
};

/// Measures a profile of stages of llama-13b, as `slimpack profile --device cuda` does. Then prints task
/// times of a stage, the error of what the profile predicts of them, memory, model-FLOPs utilisation, and
/// what steps take with and without CUDA graphs, on plans that pack whole samples and on plans that slice
/// them. Lengths are those of the file that SLIMPACK_LENGTHS names, or of examples/data. Keeps
/// "stage/PLAN/...".
/// @throws InvalidInput if a profile is to be kept by a program without nlohmann_json.
void time_stage(const kernels::cuda::Ceilings& ceilings, const FigureFile& figures,
                const StageTimes& options);

}  // namespace slimpack::bench
