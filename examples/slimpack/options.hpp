#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lengths.hpp"
#include "slimpack/core/batch.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/profile.hpp"
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
  std::shared_ptr<const Profile> profile;  ///< replaces the device's constants, if there is one
  MemoryOptions memory;
  CalibratedOptions cost;
  SlimPackOptions slimpack;
  bool quiet = false;  ///< no progress on standard error
};

/// What a command takes where its user says nothing.
struct JobDefaults {
  std::string model = "llama-13b";
  std::string device = "h100";
  bool needs_context = true;
};

/// Options on the command line that describe a job.
boost::program_options::options_description job_description(const JobDefaults& defaults = {});

/// A model with the sizes that were asked for. @param base has all others.
Transformer model_from(const boost::program_options::variables_map& values, const Transformer& base);

/// The device that was named, with the constants that were asked for.
Device device_from(const boost::program_options::variables_map& values);

/// How context-parallel ranks exchange keys and values.
ContextExchange exchange_from(const boost::program_options::variables_map& values);

/// The profile that was named, if any. @throws InvalidInput if it can't be read.
std::shared_ptr<const Profile> profile_from(const boost::program_options::variables_map& values);

/// Reads a job from parsed options: presets first, then what overrides them.
JobOptions job_options(const boost::program_options::variables_map& values);

/// Checks that the lengths hold `iterations` batches, and that the policy for samples above the context works
/// for them. @param option that asks for so many, for messages.
/// @throws InvalidInput naming the line of a bad sample, or how many samples there are.
void require_batches(const JobOptions& options, const Lengths& lengths, std::size_t iterations,
                     const char* option = "--iterations");

/// Batch number `iteration` of lengths that `require_batches` accepted: `count` samples behind `first`, those
/// above the context truncated or split.
std::vector<Tokens> batch(const JobOptions& options, const Lengths& lengths, std::size_t iteration);

/// A message about batch number `iteration`, with the line of the sample that it begins with, if any.
std::string with_line(const std::string& message, const JobOptions& options, const Lengths& lengths,
                      std::size_t iteration);

}  // namespace slimpack::command
