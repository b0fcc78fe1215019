#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "lengths.hpp"
#include "slimpack/core/batch.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace slimpack::command {

/// What `plan` and `compare` have in common: a batch, a job, and the planners' options.
struct JobOptions {
  std::string lengths = "-";
  std::size_t first = 0;
  std::size_t count = 0;  ///< 0 = all
  Tokens context = 0;
  LongSamples long_samples = LongSamples::error;
  Job job;
  MemoryOptions memory;
  CalibratedOptions cost;
  SlimPackOptions slimpack;
};

/// Options on the command line that describe a job.
boost::program_options::options_description job_description();

/// Reads a job from parsed options: presets first, then what overrides them.
JobOptions job_options(const boost::program_options::variables_map& values);

/// Batch number `iteration` of the lengths: `count` samples behind `first`, with the policy for samples above the
/// context. @throws InvalidInput naming the line of a bad sample, or how many samples are missing.
std::vector<Tokens> batch(const JobOptions& options, const Lengths& lengths, std::size_t iteration);

}  // namespace slimpack::command
