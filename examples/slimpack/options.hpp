#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "document_options.hpp"
#include "slimpack/core/batch.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/pack_attention.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/planners/bytescale_options.hpp"
#include "slimpack/planners/chunk_options.hpp"
#include "slimpack/planners/dynamic_cp_options.hpp"
#include "slimpack/planners/dynapipe_options.hpp"
#include "slimpack/planners/hotspa_options.hpp"
#include "slimpack/planners/hydraulis_options.hpp"
#include "slimpack/planners/megatron_options.hpp"
#include "slimpack/planners/sequence_parallel_options.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/strategy/layouts.hpp"

namespace slimpack::command {

/// What `plan` and `compare` have in common: a batch, a job, and the planners' options.
struct JobOptions {
  std::string lengths = "-";
  std::size_t first = 0;
  std::size_t count = 0;      ///< 0 = all
  std::size_t sequences = 0;  ///< whose contexts a batch fills, if its size is said so
  Tokens context = 0;
  LongSamples long_samples = LongSamples::error;
  Job job;                           ///< its layout is any possible one where there is a space of layouts
  std::optional<LayoutSpace> space;  ///< of layouts to choose from, instead of the job's
  std::shared_ptr<const Profile> profile;  ///< replaces the device's constants, if there is one
  MemoryOptions memory;
  CalibratedOptions cost;
  SlimPackOptions slimpack;
  MegatronOptions megatron;
  DynamicCpOptions dynamic_cp;
  DynaPipeOptions dynapipe;
  ByteScaleOptions bytescale;
  DeepSpeedOptions deepspeed;
  FlexSpOptions flexsp;
  ChunkPlanOptions infinipipe;
  HotSpaOptions hotspa;
  HydraulisOptions hydraulis;
  bool keep_optimiser = false;  ///< hydraulis, hotspa: its states stay with `job.layout`
  DocumentOptions documents;
  bool quiet = false;  ///< no progress on standard error
};

/// What a command takes where its user says nothing.
struct JobDefaults {
  std::string model = "llama-13b";
  std::string device = "h100";
  bool needs_context = true;
  const char* devices = "see `slimpack presets`, or a profile's file, *.json: the constants that it shows";
};

/// Options on the command line that describe a job.
boost::program_options::options_description job_description(const JobDefaults& defaults = {});

/// A model with the sizes that were asked for. @param base has all others.
Transformer model_from(const boost::program_options::variables_map& values, const Transformer& base);

/// The device that was named, or else measured, with the constants that were asked for. @param profile none, or what
/// `profile_from` gives.
Device device_from(const boost::program_options::variables_map& values, const Profile* profile);

/// How context-parallel ranks may exchange keys and values.
ExchangeSet exchanges_from(const boost::program_options::variables_map& values);

/// A number that was given. @throws InvalidInput if it is below the least that makes sense.
std::size_t at_least(const boost::program_options::variables_map& values, const char* name,
                     std::int64_t least);

/// A number of tokens that was given. @throws InvalidInput if it is not from 1 to 2^40.
Tokens tokens_of(const boost::program_options::variables_map& values, const char* name);

/// The profile that was named, if any. @throws InvalidInput if it can't be read.
std::shared_ptr<const Profile> profile_from(const boost::program_options::variables_map& values);

/// Reads a job from parsed options: presets first, then what overrides them.
JobOptions job_options(const boost::program_options::variables_map& values);

}  // namespace slimpack::command
