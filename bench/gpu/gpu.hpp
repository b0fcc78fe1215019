#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/cuda/ceilings.hpp"

// What the program that checks and times the CUDA back end does, part by part.
namespace slimpack::bench {

/// How far the results of kernels on the GPU are from those in double precision; the worst counts.
class Checks {
 public:
  static constexpr double bound = 1e-2;  ///< ||result - expected|| / ||expected||

  void add(const std::string& what, double error);

  /// Prints a line for each kind of check. Whether all were within the bound.
  [[nodiscard]] bool report() const;

 private:
  struct Line {
    std::string what;
    std::size_t count;
    double worst;
  };

  std::vector<Line> lines_;
};

void check_operators(Checks& checks, unsigned seed);
void check_attention(Checks& checks, unsigned seed);
/// Whole steps, of 1 and 3 stages and 1 and 2 pipelines on the one GPU.
void check_stage(Checks& checks, unsigned seed);

/// Prints rates of attention and memory-bound operators beside the ceilings of the same run: cuBLASLt's product
/// of two 8192 x 8192 matrices, and a copy within the GPU's memory. And what it costs to cut a long sample.
/// @returns these ceilings.
kernels::cuda::Ceilings time_kernels(unsigned seed);

/// Measures a profile of stages of llama-13b, as `slimpack profile --device cuda` does. Then prints task times, the error of
/// what the profile predicts of them, memory, model-FLOPs utilisation of a stage, and what its steps take with and without
/// CUDA graphs, on plans that pack whole samples and on plans that slice them. Lengths are those of the file that
/// SLIMPACK_LENGTHS names, or of examples/data.
/// @param ceilings utilisation is a share of their FLOP/s. @param profile_file for the profile; empty: it is not kept.
/// @throws InvalidInput if it is to be kept by a program without nlohmann_json.
void time_stage(const kernels::cuda::Ceilings& ceilings, const std::string& profile_file);

}  // namespace slimpack::bench
